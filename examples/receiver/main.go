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

// printCall handles one call. The collector sends a call again if the receiver does not respond
// within five seconds, so put slow work into a queue. Use X-Message-Id to detect a repeated call.
func printCall(out io.Writer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // webhook.Handler limits the size of the body
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // the collector does not retry after a 400
			return
		}
		_, _ = fmt.Fprintf(out, "message %s, attempt %s: %s\n",
			r.Header.Get(webhook.MessageIDHeader), r.Header.Get(webhook.AttemptHeader), body)
	}
}
