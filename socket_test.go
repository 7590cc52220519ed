package analytics_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/backo-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/leaks"
)

// server is a collector on a real socket. It responds 200 to each request, unless the function passed
// to serve responds.
type server struct {
	*httptest.Server
	conns atomic.Int64 // number of connections that clients have opened

	mu     sync.Mutex // guards events
	events map[string]int
}

// serve starts a collector. meddle is called for request i, counted from 0. It returns false if it
// has handled the request.
func serve(t *testing.T, meddle func(i int64, w http.ResponseWriter, r *http.Request) bool) *server {
	s := newServer(t, meddle)
	s.Start()
	return s
}

func newServer(t *testing.T, meddle func(i int64, w http.ResponseWriter, r *http.Request) bool) *server {
	s := &server{events: map[string]int{}}
	var requests atomic.Int64
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := requests.Add(1) - 1
		if meddle != nil && !meddle(i, w, r) {
			return
		}
		b, err := io.ReadAll(r.Body)
		var in body
		if err != nil || json.Unmarshal(b, &in) != nil || r.ContentLength != int64(len(b)) {
			http.Error(w, "bad body", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		for _, call := range in.Batch {
			s.events[call["event"].(string)]++
		}
		s.mu.Unlock()
		_, _ = io.WriteString(w, `{"success":true}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) taken() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.events) // a copy, because an abandoned request may still arrive
}

// quick removes the pauses between attempts. It is for tests that use the real clock.
func quick(t *testing.T) {
	old := analytics.Backo
	analytics.Backo = backo.NewBacko(time.Millisecond, 1, 0, time.Millisecond)
	t.Cleanup(func() { analytics.Backo = old })
}

// socketClient returns a client with its own transport that sends requests to s.
func socketClient(t *testing.T, s *server, cfg analytics.Config) *analytics.Client {
	cfg.Endpoint, cfg.CloseTimeout = s.URL, 5*time.Minute
	cfg.Logger = log.New(testLog{t}, "", 0)
	client, err := analytics.NewWithConfig("key", cfg)
	require.NoError(t, err)
	return client
}

// pipeListener accepts in-memory connections.
type pipeListener struct {
	dialed chan net.Conn
	closed chan struct{}
	conns  int // number of dialed connections
}

func newPipeListener() *pipeListener {
	return &pipeListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) DialContext(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	l.conns++
	l.dialed <- far
	return near, nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The test uses a fake clock. On a busy machine with a real clock, net/http might close a
// connection: it allows 50 ms between the response and the end of the request's write.
func TestConnectionsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipeListener()
		requests := 0
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if requests++; requests%5 == 0 { // the response is longer than an error message
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, strings.Repeat("no ", 5000))
			}
		})}
		defer server.Close()
		go func() { _ = server.Serve(pipes) }()
		transport := &http.Transport{DialContext: pipes.DialContext}
		defer transport.CloseIdleConnections()
		client := newClient(t, transport, analytics.Config{Endpoint: "http://collector.example", MaxInFlight: 1, FlushAt: 1})
		track(t, client, "e", 50)
		require.Error(t, client.Close())
		require.Equal(t, 1, pipes.conns)
		require.EqualValues(t, 40, client.Stats().Delivered)
	})
}

// TestSocketFaults runs the client against collectors with faulty connections.
func TestSocketFaults(t *testing.T) {
	drain := func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	hijack := func(w http.ResponseWriter) *net.TCPConn {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		return conn.(*net.TCPConn)
	}
	faults := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, r *http.Request) { // closes the connection without a response
			_ = hijack(w).Close()
		},
		func(w http.ResponseWriter, r *http.Request) { // resets the connection before it has read the request
			_, _ = io.ReadFull(r.Body, make([]byte, 10))
			conn := hijack(w)
			_ = conn.SetLinger(0)
			_ = conn.Close()
		},
		func(w http.ResponseWriter, r *http.Request) { // resets the connection in the middle of the response header
			drain(r)
			conn := hijack(w)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 O")
			_ = conn.SetLinger(0)
			_ = conn.Close()
		},
		func(w http.ResponseWriter, r *http.Request) { // sends a response that is not HTTP
			conn := hijack(w)
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n")
			_ = conn.Close()
		},
		func(w http.ResponseWriter, r *http.Request) { // does not respond until the client cancels the request
			drain(r)
			<-r.Context().Done()
		},
		func(w http.ResponseWriter, r *http.Request) { // stops in the middle of the response header
			drain(r)
			conn := hijack(w)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-")
			_, _ = io.Copy(io.Discard, conn)
		},
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "nonsense")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", time.Now().UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		},
		func(w http.ResponseWriter, r *http.Request) { // responds before it has read the request body
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		},
	}
	leaks.Check(t)
	quick(t)
	s := serve(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
		if i%2 == 1 || int(i/2) >= len(faults) {
			return true
		}
		faults[i/2](w, r)
		return false
	})
	client := socketClient(t, s, analytics.Config{FlushAt: 400, MaxInFlight: 1, MaxAttempts: 100, HTTPClient: &http.Client{Timeout: 500 * time.Millisecond}})
	rounds := len(faults) + 2
	for round := range rounds {
		for i := range 400 { // these calls have about 200 KB in total
			m := &analytics.Track{Event: fmt.Sprint(round, "-", i), UserId: "u", Context: map[string]interface{}{"text": strings.Repeat("x", 400)}}
			require.NoError(t, client.Track(m))
		}
	}
	require.NoError(t, client.Close())
	require.EqualValues(t, 400*rounds, client.Stats().Delivered)
	require.Len(t, s.taken(), 400*rounds)
}

func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere := serve(t, nil)
		s := serve(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL, status)
			return false
		})
		client := socketClient(t, s, analytics.Config{})
		track(t, client, "e", 1)
		require.ErrorContains(t, client.Close(), "the client does not follow redirects")
		require.Zero(t, elsewhere.conns.Load())
		require.EqualValues(t, 1, client.Stats().Dropped.Refused)
	}
	s := serve(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Location", "http://[::1")
		w.WriteHeader(302)
		return false
	})
	client := socketClient(t, s, analytics.Config{})
	track(t, client, "e", 1)
	require.ErrorContains(t, client.Close(), "the client does not follow redirects", "nor read")
	require.EqualValues(t, 1, client.Stats().Attempts)
}

// A 101 response is a refusal. The client closes the connection without reading further bytes.
func TestSwitchingProtocolsIsRefused(t *testing.T) {
	leaks.Check(t)
	s := serve(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // wait until the client closes the connection
		return false
	})
	client := socketClient(t, s, analytics.Config{})
	track(t, client, "e", 1)
	require.ErrorContains(t, client.Close(), "the collector responded with 101")
	require.EqualValues(t, 1, client.Stats().Dropped.Refused)
}

// If a response is infinite, the client closes the connection. The response is not kept in memory.
func TestHugeAnswer(t *testing.T) {
	leaks.Check(t)
	var sent atomic.Int64
	s := serve(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		b := make([]byte, 64<<10)
		for sent.Load() < 1<<30 {
			n, err := w.Write(b)
			sent.Add(int64(n))
			if err != nil {
				return false
			}
		}
		return false
	})
	client := socketClient(t, s, analytics.Config{})
	track(t, client, "e", 1)
	require.NoError(t, client.Close())
	require.Less(t, sent.Load(), int64(64<<20), "the answer was read on and on")
}

func TestTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			leaks.Check(t)
			quick(t)
			var protocols sync.Map
			s := newServer(t, func(i int64, w http.ResponseWriter, r *http.Request) bool {
				protocols.Store(r.Proto, true)
				if i == 1 {
					w.WriteHeader(503)
					return false
				}
				return true
			})
			s.EnableHTTP2 = http2
			s.StartTLS()
			transport := s.Client().Transport.(*http.Transport).Clone()
			transport.ForceAttemptHTTP2 = http2
			defer transport.CloseIdleConnections()
			client := socketClient(t, s, analytics.Config{FlushAt: 100, HTTPClient: &http.Client{Transport: transport}})
			for i := range 1000 {
				require.NoError(t, client.Track(&analytics.Track{Event: fmt.Sprint(i), UserId: "u", Context: map[string]interface{}{"text": strings.Repeat("x", 1000)}}))
			}
			require.NoError(t, client.Close())
			require.Len(t, s.taken(), 1000)
			_, two := protocols.Load("HTTP/2.0")
			require.Equal(t, http2, two)
		})
	}
}

func TestUntrustedCertificate(t *testing.T) {
	quick(t)
	s := newServer(t, nil)
	s.StartTLS()
	client := socketClient(t, s, analytics.Config{MaxAttempts: 2})
	track(t, client, "e", 1)
	err := client.Close()
	var unknown *tls.CertificateVerificationError
	require.True(t, errors.As(err, &unknown), "%v", err)
	require.Empty(t, s.taken())
}

// The client returns the same transport errors as an http.Client.
func TestHTTPSOfAServerThatSpeaksHTTP(t *testing.T) {
	quick(t)
	s := serve(t, nil)
	client, err := analytics.NewWithConfig("key", analytics.Config{
		Endpoint: "https://user:password@" + s.Listener.Addr().String(), MaxAttempts: 1, Logger: log.New(testLog{t}, "", 0),
	})
	require.NoError(t, err)
	track(t, client, "e", 1)
	err = client.Close()
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
	var failed *url.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "Post", failed.Op)
	require.NotContains(t, err.Error(), "password")
}
