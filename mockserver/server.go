package mockserver

import (
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
	answerTimeout     = 20 * time.Second // of each write
	maxHeaderBytes    = 64 << 10
)

// A Server is a collector for tests and development. It listens on a port of the
// loopback interface, and serves the tracking API, the admin API under /api/v1,
// and at / the inspector. Its View shows the calls of all sources.
type Server struct {
	// URL is where it listens, such as http://127.0.0.1:40123, without a slash at
	// its end. Give it to a client as its Endpoint.
	URL string

	*Collector
	View
	handler http.Handler
	http    *http.Server // nil without a listener
}

// inProcessHost is that of a server without a listener. The top-level domain
// invalid is reserved, so that no request to it gets out of the process.
const inProcessHost = "mockserver.invalid"

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
	guard, err := NewGuard(GuardConfig{Loopback: true, Hosts: []string{inProcessHost}})
	if err != nil {
		return nil, errors.Join(err, collector.Close())
	}
	admin := guard.Wrap(NewAdmin(collector, ""))
	pages := NewInspector(collector, InspectorConfig{Guard: guard}).Wrap(collector)
	s := &Server{URL: "http://" + inProcessHost, Collector: collector}
	s.View = View{collector: collector, timeout: WaitTimeout, cleared: &watermarks{}}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/messages" {
			admin.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
	if config.InProcess {
		return s, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mockserver: %w", err), collector.Close())
	}
	s.URL = "http://" + listener.Addr().String()
	s.http = NewHTTPServer(s.handler)
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Transport returns an http.RoundTripper that reaches the server without a
// network, whatever the host of a request, see [NewTransport].
func (s *Server) Transport() http.RoundTripper { return NewTransport(s.handler) }

// Client returns an http.Client that uses Transport. A client whose Endpoint is
// the server's URL reaches it through this one also where nothing listens.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// NewHTTPServer returns an http.Server for a handler, with the time-outs and
// limits that a collector needs against slow and hostile senders. Whoever does not
// read what the handler writes for 20 seconds is cut off; how long the handler takes
// is not limited.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           guardedConnection{h},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// A guardedConnection keeps those who send a request from holding its connection.
type guardedConnection struct{ next http.Handler }

// ServeHTTP implements http.Handler.
func (g guardedConnection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// It may have had a Content-Length too, which net/http removes. A proxy that
		// goes by that one takes the end of this body for another request.
		w.Header().Set("Connection", "close")
	}
	timed := &timedResponse{w, http.NewResponseController(w)}
	g.next.ServeHTTP(timed, r)
	timed.extend() // for what is flushed now
}

// A timedResponse gives each write a time-out. http.Server.WriteTimeout would be one
// for the whole answer, streams too.
type timedResponse struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (t *timedResponse) extend() { _ = t.control.SetWriteDeadline(time.Now().Add(answerTimeout)) }

// Write implements http.ResponseWriter.
func (t *timedResponse) Write(b []byte) (int, error) {
	t.extend()
	return t.ResponseWriter.Write(b)
}

// Unwrap lets an http.ResponseController find what this one lacks.
func (t *timedResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Close stops listening, breaks off what is under way, and ends the collector.
// It may be called again.
func (s *Server) Close() error {
	var err error
	if s.http != nil {
		err = s.http.Close()
	}
	return errors.Join(err, s.Collector.Close())
}

// A TB is what is needed here of a *testing.T, *testing.B or *testing.F.
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
	switch len(config) {
	case 0:
	case 1:
		c = config[0]
	default:
		t.Fatalf("mockserver: RunT takes one Config, not %d", len(config))
	}
	s, err := Run(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
