package service

import (
	"fmt"
	"net/http"
	"time"
)

// doorPatience is how long a request waits for a collector that is starting. It
// must be shorter than a server waits for the body of a request.
const doorPatience = 5 * time.Second

// A door is what requests meet. Until it is opened it answers that the collector
// lives and is not ready: to open a large queue takes a moment, and a cluster that is
// just starting may take minutes.
type door struct {
	opened  chan struct{} // closed by open
	handler http.Handler  // set before opened is closed
}

func newDoor() *door { return &door{opened: make(chan struct{})} }

// open lets requests in.
func (d *door) open(h http.Handler) {
	d.handler = h
	close(d.opened)
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-d.opened:
		d.handler.ServeHTTP(w, r)
	default:
		d.wait(w, r)
	}
}

func (d *door) wait(w http.ResponseWriter, r *http.Request) {
	const message = "the collector is starting; send again later"
	switch r.URL.Path {
	case "/health":
		answerStarting(w, http.StatusOK, `{"status":"ok"}`)
		return
	case "/ready":
		answerStarting(w, http.StatusServiceUnavailable, fmt.Sprintf(`{"status":"unavailable","message":%q}`, message))
		return
	}
	patience := time.NewTimer(doorPatience)
	defer patience.Stop()
	select {
	case <-d.opened:
		d.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
	case <-patience.C:
		w.Header().Set("Retry-After", "5")
		answerStarting(w, http.StatusServiceUnavailable, fmt.Sprintf(`{"success":false,"code":"unavailable","message":%q,"error":%[1]q}`, message))
	}
}

func answerStarting(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, body)
}
