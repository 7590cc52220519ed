package http1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Transport is an [http.RoundTripper] for requests of known length. It is safe for concurrent
// use. Its fields must not be changed after the first request.
type Transport struct {
	// Dial connects to a host and port.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the configuration for https. Its ServerName must be empty.
	TLS *tls.Config
	// IdleTimeout is how long an idle connection may be reused. After at most twice that time,
	// the connection is closed.
	IdleTimeout time.Duration
	// MaxIdlePerHost is the maximum number of idle connections per scheme and host.
	MaxIdlePerHost int
	// MaxHeader is the maximum size of a response header in bytes, including 1xx responses.
	MaxHeader int
	// Other handles requests to Unicode hosts and to addresses with an IPv6 zone.
	Other http.RoundTripper

	mu     sync.Mutex         // guards the fields below
	idle   map[origin][]*conn // idle connections of each origin; the last one was used most recently
	reaper *time.Timer        // closes old idle connections; nil if there are no idle connections
	closed bool
}

// An origin identifies the servers that may share a connection.
type origin struct{ scheme, host string }

// RoundTrip sends a request and returns the response. Canceling the context of the request cancels
// the exchange. The connection is reused after the response body was read completely and closed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isPlain(r.URL.Host) {
		return t.Other.RoundTrip(r)
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // without this check, an idle connection would send the request
	}
	c, err := t.conn(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	return c.exchange(r)
}

// isPlain reports whether a host can be used without conversion to ASCII.
func isPlain(host string) bool {
	return strings.IndexFunc(host, func(c rune) bool { return c <= ' ' || c == '%' || c > '~' }) < 0
}

// CloseIdleConnections closes idle connections. From now on, other connections are closed after their
// exchange.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	t.closed = true
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, conns := range idle {
		closeAll(conns)
	}
	(&http.Client{Transport: t.Other}).CloseIdleConnections()
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.end()
	}
}

// conn returns an idle or a new connection for a URL.
func (t *Transport) conn(ctx context.Context, u *url.URL) (*conn, error) {
	to := origin{u.Scheme, u.Host}
	for {
		c := t.take(to)
		if c == nil {
			return t.connect(ctx, u, to)
		}
		if time.Since(c.idleSince) < t.IdleTimeout && !c.probe.readable() {
			return c, nil
		}
		c.end()
	}
}

// take removes and returns the idle connection that was used last, or nil.
func (t *Transport) take(to origin) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[to]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	c := conns[last]
	conns[last] = nil
	t.idle[to] = conns[:last]
	return c
}

// connect creates a connection.
func (t *Transport) connect(ctx context.Context, u *url.URL, to origin) (*conn, error) {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	socket, err := t.Dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	keep := func(c *conn) bool { return t.keep(to, c) }
	if u.Scheme != "https" {
		return newConn(socket, socket, t.MaxHeader, keep), nil
	}
	config := t.TLS.Clone()
	config.ServerName = host
	secure := tls.Client(socket, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return newConn(secure, socket, t.MaxHeader, keep), nil
}

// keep makes a connection idle. It returns false if the connection is not needed.
func (t *Transport) keep(to origin, c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[to]
	if t.closed || len(conns) >= t.MaxIdlePerHost {
		return false
	}
	if t.idle == nil {
		t.idle = make(map[origin][]*conn)
	}
	c.idleSince = time.Now()
	t.idle[to] = append(conns, c)
	if t.reaper == nil {
		t.reaper = time.AfterFunc(t.IdleTimeout, t.reap)
	}
	return true
}

// reap closes connections that have been idle too long. It runs again later if any are still idle.
func (t *Transport) reap() {
	var old []*conn
	defer func() { closeAll(old) }() // after the lock is released
	t.mu.Lock()
	defer t.mu.Unlock()
	for to, conns := range t.idle {
		n := 0
		for n < len(conns) && time.Since(conns[n].idleSince) >= t.IdleTimeout {
			n++
		}
		old = append(old, conns[:n]...)
		t.idle[to] = slices.Clone(conns[n:])
		if n == len(conns) {
			delete(t.idle, to)
		}
	}
	t.reaper = nil
	if len(t.idle) > 0 {
		t.reaper = time.AfterFunc(t.IdleTimeout, t.reap)
	}
}
