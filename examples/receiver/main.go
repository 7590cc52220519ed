// Command receiver takes webhooks and verifies that they come from your
// collector.
//
//	go run ./examples/receiver -secret s3cret
//
// Point a destination at it, with the same shared secret:
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
	log.Printf("webhooks go to http://%s/hooks/analytics", *listen)
	log.Fatal(server.ListenAndServe())
}

// handler lets only verified calls through to take.
func handler(secret string, out io.Writer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/analytics", webhook.Handler(secret, take(out)))
	return mux
}

// take handles one call. It answers within five seconds, or the call is sent
// again: what takes longer belongs into a queue of your own. A call can come
// twice; its X-Message-Id tells.
func take(out io.Writer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // which Handler has bounded
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // a 4xx: not sent again
			return
		}
		_, _ = fmt.Fprintf(out, "message %s, attempt %s: %s\n",
			r.Header.Get(webhook.MessageIDHeader), r.Header.Get(webhook.AttemptHeader), body)
	}
}
