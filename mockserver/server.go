package mockserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Server is a collector for tests and development. It listens on the loopback
// interface and serves the tracking API, the admin API under /api/v1, and the inspector
// at /. Its View shows the calls of all sources.
type Server struct {
	// URL is the server's base URL, such as http://127.0.0.1:40123, without a
	// trailing slash. Use it as a client's Endpoint.
	URL string

	View
	handler http.Handler
	http    *http.Server       // nil without a listener
	end     context.CancelFunc // ends requests held by a fault
}

// inProcessHost is the host name of a server without a listener. The top-level domain
// invalid is reserved, so no request to it leaves the process.
const inProcessHost = "mockserver.invalid"

// Run starts a server. Webhooks on the loopback interface are allowed, and any write key
// is accepted if config lists no sources. Call Close to stop it.
func Run(config Config) (*Server, error) {
	return run(config.engine(), config.InProcess)
}

// run starts a server with a new engine.
func run(config engine.Config, inProcess bool) (*Server, error) {
	requests, deliveries := &faults{}, &faults{}
	config.WrapTransport = deliveries.before(config.WrapTransport)
	engine, err := engine.New(config)
	if err != nil {
		return nil, err
	}
	guard, err := access.NewGuard(access.GuardConfig{Loopback: true, Hosts: []string{inProcessHost}})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	s := &Server{URL: "http://" + inProcessHost}
	s.View = View{engine: engine, requests: requests, deliveries: deliveries, timeout: WaitTimeout, cleared: &sync.Map{}}
	var life context.Context
	life, s.end = context.WithCancel(context.Background())
	tracking := &faultyHandler{faults: requests, sourceOf: engine.SourceOf, life: life, next: engine}
	s.handler = handlerOf(guard.Wrap(admin.New(engine, "")), inspector.New(engine, inspector.Config{Guard: guard}).Wrap(tracking))
	if inProcess {
		return s, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mockserver: %w", err), s.Close())
	}
	s.URL = "http://" + listener.Addr().String()
	s.http = access.NewHTTPServer(s.handler)
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// handlerOf routes requests to the admin API and the test API. pages receives all other
// requests and passes tracking requests on.
func handlerOf(api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || slices.Contains(admin.TestPaths, r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// Transport returns an http.RoundTripper that calls the server's handler in-process. It
// ignores the host of the request. See [NewTransport].
func (s *Server) Transport() http.RoundTripper { return NewTransport(s.handler) }

// Client returns an http.Client that uses Transport. An analytics client with this Client
// and the Endpoint URL works even if the server has no listener.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// Close closes the listener, aborts requests in flight and stops deliveries. It is
// idempotent.
func (s *Server) Close() error {
	var err error
	if s.http != nil {
		err = s.http.Close()
	}
	s.end()
	return errors.Join(err, s.engine.Close())
}

// Ready returns nil if the server accepts calls, and the reason otherwise.
func (s *Server) Ready(ctx context.Context) error { return s.engine.Ready(ctx) }

// Pause stops attempts to a destination until Resume. Its calls wait, and their
// four-hour retry window continues. It fails if the destination does not exist.
func (s *Server) Pause(ctx context.Context, destination string) error {
	return s.engine.Pause(ctx, destination)
}

// Resume ends a Pause. It fails if the destination does not exist.
func (s *Server) Resume(ctx context.Context, destination string) error {
	return s.engine.Resume(ctx, destination)
}

// Ledger returns every destination's totals: accepted, delivered, failed, filtered,
// pending and lost calls.
func (s *Server) Ledger(ctx context.Context) ([]tracking.Ledger, error) { return s.engine.Ledger(ctx) }

// RunT starts a server for a test and closes it when the test ends. It takes at most one
// Config.
func RunT(t TB, config ...Config) *Server {
	t.Helper()
	var c Config
	switch len(config) {
	case 0:
	case 1:
		c = config[0]
	default:
		t.Fatalf("mockserver: RunT accepts at most one Config, got %d", len(config))
	}
	s, err := Run(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
