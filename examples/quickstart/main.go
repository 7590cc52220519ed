// Command quickstart shows the whole path of a call in one process. The client sends one call
// of each type, the collector forwards the calls to a webhook, and the webhook verifies their
// signatures.
//
//	go run ./examples/quickstart
//
// The exit status is 0 if every call arrived with a valid signature. With -stay, the program runs
// until Ctrl-C, so that you can view the calls in the inspector.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	writeKey     = "quickstart-write-key"
	sharedSecret = "quickstart-shared-secret"
	patience     = 8 * time.Second
)

func main() {
	stay := flag.Bool("stay", false, "run until Ctrl-C, to view the calls in the inspector")
	flag.Parse()
	if err := run(*stay); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(stay bool) error {
	// 1. Start a receiver. It represents your server that handles webhooks.
	arrivals := make(chan arrival, 16)
	receiver, err := listen(func(w http.ResponseWriter, r *http.Request) { receive(w, r, arrivals) })
	if err != nil {
		return err
	}

	// 2. Start a collector that forwards calls to the receiver.
	srv, err := mockserver.Run(mockserver.Config{
		Destinations: []mockserver.Destination{{
			Name: "my webhook",
			Settings: webhook.Settings{
				SharedSecret: sharedSecret,
				Webhooks: []webhook.Endpoint{{
					URL:     receiver + "/hooks/analytics",
					Headers: map[string]string{"X-Team": "growth"},
				}},
			},
		}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = srv.Close() }()
	fmt.Println("collector at", srv.URL)
	fmt.Println("webhook   at", receiver+"/hooks/analytics")

	// 3. Create the client. In your program, this is the only part.
	client, err := analytics.NewWithConfig(writeKey, analytics.Config{Endpoint: srv.URL})
	if err != nil {
		return err
	}
	sent, err := sendOneOfEach(client)
	if err != nil {
		return err
	}
	if err := client.Close(); err != nil { // sends the queued calls
		return err
	}
	if err := watch(arrivals, sent); err != nil || !stay {
		return err
	}
	fmt.Printf("\nView them at %s/. Press Ctrl-C to stop.\n", srv.URL)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	<-interrupted
	return nil
}

// sendOneOfEach sends one call of each type and returns the number of calls.
func sendOneOfEach(client *analytics.Client) (int, error) {
	errs := []error{
		client.Identify(&analytics.Identify{
			UserId: "019mr8mf4r",
			Traits: map[string]interface{}{"name": "Ada Lovelace", "email": "ada@example.com", "plan": "Enterprise", "friends": 42},
		}),
		client.Track(&analytics.Track{
			UserId: "019mr8mf4r", Event: "Song Played",
			Properties: map[string]interface{}{"name": "Fallin for You", "artist": "Dwele", "seconds": 240.5},
		}),
		client.Page(&analytics.Page{
			UserId: "019mr8mf4r", Category: "Docs", Name: "Go",
			Traits: map[string]interface{}{"url": "https://example.com/docs/go", "title": "Go", "path": "/docs/go", "referrer": "https://example.com"},
		}),
		client.Screen(&analytics.Screen{
			UserId: "019mr8mf4r", Name: "Player",
			Context: map[string]interface{}{"device": map[string]interface{}{"type": "ios", "model": "iPhone"}},
		}),
		client.Group(&analytics.Group{
			UserId: "019mr8mf4r", GroupId: "acme",
			Traits: map[string]interface{}{"name": "Acme, Inc.", "employees": 20},
		}),
		client.Alias(&analytics.Alias{PreviousId: "anonymous-7", UserId: "019mr8mf4r"}),
	}
	return len(errs), errors.Join(errs...)
}

// arrival is a request that the receiver has received.
type arrival struct {
	body    []byte
	verdict error // nil if the signature is valid
	team    string
}

// receive handles a webhook request: it reads the body, verifies the signature and responds.
func receive(w http.ResponseWriter, r *http.Request, arrivals chan<- arrival) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err = webhook.Verify(sharedSecret, body, r.Header.Get(webhook.SignatureHeader))
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
	}
	arrivals <- arrival{body: body, verdict: err, team: r.Header.Get("X-Team")}
}

// watch prints each request until one call of each type has arrived.
func watch(arrivals <-chan arrival, want int) error {
	deadline := time.After(patience)
	seen := map[string]bool{}
	for len(seen) < want {
		select {
		case a := <-arrivals:
			var call struct{ Type string }
			if err := json.Unmarshal(a.body, &call); err != nil {
				return fmt.Errorf("the body of a webhook request is not JSON: %w", err)
			}
			if a.verdict != nil {
				return fmt.Errorf("the %s call was not verified: %w", call.Type, a.verdict)
			}
			if a.team != "growth" {
				return fmt.Errorf("the X-Team header of the %s call is %q, not \"growth\"", call.Type, a.team)
			}
			seen[call.Type] = true
			var pretty bytes.Buffer
			_ = json.Indent(&pretty, a.body, "    ", "  ")
			fmt.Printf("\n✓ %s: signature verified\n    %s\n", call.Type, &pretty)
		case <-deadline:
			return fmt.Errorf("only %d of %d calls arrived within %v", len(seen), want, patience)
		}
	}
	fmt.Printf("\nAll %d calls arrived with valid signatures.\n", want)
	return nil
}

// listen serves h on a free port of the loopback interface.
func listen(h http.HandlerFunc) (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}
