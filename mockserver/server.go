package mockserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Time-outs of the HTTP server, so that a slow sender cannot hold a connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// A Server is a collector that listens on a port of the loopback interface. It
// serves the tracking API, the admin API under /api/v1, and at / the inspector.
type Server struct {
	// URL is where it listens, such as http://127.0.0.1:40123, without a slash at
	// its end. Give it to a client as its Endpoint.
	URL string

	*Collector
	http *http.Server
}

// Run starts a server. Its webhooks may be on the loopback interface, and any
// write key is taken where config names no source. Close ends it.
func Run(config Config) (*Server, error) {
	config.AnyWriteKey = config.AnyWriteKey || len(config.Sources) == 0
	config.Sender.Policy.AllowLoopback = true
	config.Messages = true
	collector, err := NewCollector(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mockserver: %w", err), collector.Close())
	}
	guard, err := NewGuard(GuardConfig{Loopback: true})
	if err != nil {
		return nil, errors.Join(err, listener.Close(), collector.Close())
	}
	admin := guard.Wrap(NewAdmin(collector, ""))
	inspector := NewInspector(collector, guard)
	pages := inspector.Wrap(collector)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			admin.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
	s := &Server{
		URL:       "http://" + listener.Addr().String(),
		Collector: collector,
		http:      NewHTTPServer(handler),
	}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// NewHTTPServer returns an http.Server for a handler, with the time-outs and
// limits that a collector needs against slow and hostile senders.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// Close stops listening, breaks off what is under way, and ends the collector.
// It may be called again.
func (s *Server) Close() error {
	return errors.Join(s.http.Close(), s.Collector.Close())
}

// A TB is what RunT needs of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// RunT starts a server for a test, with at most one Config, and closes it when
// the test ends.
func RunT(t TB, config ...Config) *Server {
	t.Helper()
	var c Config
	if len(config) > 0 {
		c = config[0]
	}
	s, err := Run(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A Match picks calls by what is known of them.
type Match func(*Record) bool

// OfType picks the calls of a type: "track", "identify" and so on.
func OfType(typ string) Match { return func(r *Record) bool { return r.Call.Type == typ } }

// OfEvent picks the track calls of an event.
func OfEvent(event string) Match {
	return func(r *Record) bool { return r.Call.Type == "track" && r.Call.Event == event }
}

// OfUser picks the calls of a user, by userId.
func OfUser(userID string) Match { return func(r *Record) bool { return r.Call.UserID == userID } }

// WithID picks the call with a messageId.
func WithID(messageID string) Match { return func(r *Record) bool { return r.Call.ID == messageID } }

// DeliveredTo picks the calls that a destination has delivered.
func DeliveredTo(destination string) Match {
	return func(r *Record) bool {
		o, ok := r.State(destination)
		return ok && o.State == StateDelivered
	}
}

// Calls returns the calls that were accepted and that every match picks, in the
// order in which they came.
func (s *Server) Calls(match ...Match) []Call {
	var calls []Call
	for _, r := range s.history.Records(every(match)) {
		calls = append(calls, r.Call)
	}
	return calls
}

// Wait waits until n calls have come that every match picks, and returns those
// that it has by then. When ctx ends first, its error tells what did come.
func (s *Server) Wait(ctx context.Context, n int, match ...Match) ([]Call, error) {
	for {
		changed := s.history.Changed()
		calls := s.Calls(match...)
		if len(calls) >= n {
			return calls, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return calls, fmt.Errorf("mockserver: waited for %d calls, got %d that match of %d in all: %w",
				n, len(calls), len(s.Calls()), ctx.Err())
		}
	}
}

// Clear forgets the calls that came, so that a test can begin anew. A call that
// is sent again with the same messageId is then taken again.
func (s *Server) Clear() {
	s.history.Clear()
	s.dedup.clear()
}

func every(match []Match) func(*Record) bool {
	return func(r *Record) bool {
		for _, m := range match {
			if !m(r) {
				return false
			}
		}
		return true
	}
}
