// Command receiver accepts webhooks with a valid signature and prints them.
//
//	go run ./examples/receiver -secret s3cret
//
// Start a collector that sends to it, with the same shared secret:
//
//	collector dev --webhook http://127.0.0.1:8081/hooks/analytics --shared-secret s3cret
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "`address` to listen on")
	secret := flag.String("secret", os.Getenv("WEBHOOK_SECRET"), "shared `secret` of the destination (default: $WEBHOOK_SECRET)")
	flag.Parse()
	if *secret == "" {
		log.Fatal("set -secret or WEBHOOK_SECRET to the shared secret of the destination")
	}
	server := &http.Server{Addr: *listen, Handler: handler(*secret, os.Stdout), ReadHeaderTimeout: 5 * time.Second}
	log.Printf("listening for webhooks at http://%s/hooks/analytics", *listen)
	log.Fatal(server.ListenAndServe())
}

// handler passes verified requests to printCall.
func handler(secret string, out io.Writer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/analytics", webhook.Handler(secret, printCall(out)))
	return mux
}

// printCall handles one call. A receiver must respond within five seconds, or the collector
// sends the call again: put slow work into a queue. To detect a repeated call, use its
// X-Message-Id.
func printCall(out io.Writer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // webhook.Handler limits its size
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // a 400 is not retried
			return
		}
		_, _ = fmt.Fprintf(out, "message %s, attempt %s: %s\n",
			r.Header.Get(webhook.MessageIDHeader), r.Header.Get(webhook.AttemptHeader), body)
	}
}
