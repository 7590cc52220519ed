package service

import (
	"fmt"
	"net/http"
	"time"
)

// startupTimeout limits the wait of a request. It must be shorter than the server's timeout
// for request bodies.
const startupTimeout = 5 * time.Second

// A startupGate delays requests until it is opened. It responds to probes that the process is
// live but not ready. Opening a large queue takes seconds, and a cluster can take minutes to
// start.
type startupGate struct {
	opened  chan struct{} // closed by open
	handler http.Handler  // set before opened is closed
}

func newStartupGate() *startupGate { return &startupGate{opened: make(chan struct{})} }

// open passes the delayed requests and all later requests to a handler.
func (g *startupGate) open(h http.Handler) {
	g.handler = h
	close(g.opened)
}

func (g *startupGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.opened:
		g.handler.ServeHTTP(w, r)
	default:
		g.wait(w, r)
	}
}

func (g *startupGate) wait(w http.ResponseWriter, r *http.Request) {
	const message = "the collector is starting; retry later"
	switch r.URL.Path {
	case "/health":
		answerStarting(w, http.StatusOK, `{"status":"ok"}`)
		return
	case "/ready":
		answerStarting(w, http.StatusServiceUnavailable, fmt.Sprintf(`{"status":"unavailable","message":%q}`, message))
		return
	}
	timeout := time.NewTimer(startupTimeout)
	defer timeout.Stop()
	select {
	case <-g.opened:
		g.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
	case <-timeout.C:
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
