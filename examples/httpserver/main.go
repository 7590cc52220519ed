// Command httpserver is a web server that records calls. It shuts down without losing a call.
//
//	go run ./examples/httpserver
//
// Without -endpoint it starts its own collector. When you stop it with Ctrl-C, it prints the
// calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// grace limits how long a shutdown waits for requests, and then for calls.
const grace = 10 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to listen on")
	endpoint := flag.String("endpoint", "", "`URL` of the collector (default: start one)")
	writeKey := flag.String("write-key", "example", "write `key` of the source")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, listener, *endpoint, *writeKey); err != nil {
		log.Fatal(err)
	}
}

// run serves requests until ctx is done. It then waits for the requests in progress, and after that
// for the delivery of their calls.
func run(ctx context.Context, out io.Writer, listener net.Listener, endpoint, writeKey string) error {
	if endpoint == "" {
		srv, err := mockserver.Run(mockserver.Config{})
		if err != nil {
			return err
		}
		defer func() {
			for _, call := range srv.Calls() {
				_, _ = fmt.Fprintf(out, "the collector received %s %q of %s\n", call.Type, call.Event, call.UserID)
			}
			_ = srv.Close()
		}()
		endpoint = srv.URL
	}
	client, err := analytics.NewWithConfig(writeKey, analytics.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(client), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	_, _ = fmt.Fprintf(out, "try: curl -d user=ada http://%s/signup\n", listener.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return errors.Join(err, server.Shutdown(limit), client.Shutdown(limit))
}

func handler(client *analytics.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /signup", func(w http.ResponseWriter, r *http.Request) {
		user := r.FormValue("user")
		// Track returns immediately. An error means that this call was not recorded, but the
		// request should still succeed.
		if err := client.Track(&analytics.Track{
			UserId:     user,
			Event:      "Signed Up",
			Properties: map[string]interface{}{"agent": r.UserAgent()},
		}); err != nil {
			log.Printf("signup of %q was not recorded: %v", user, err)
		}
		_, _ = fmt.Fprintf(w, "welcome, %s\n", user)
	})
	return mux
}
