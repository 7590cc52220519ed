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
// use. Its fields must not change after the first use.
type Transport struct {
	// Dial connects to a host and port.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the configuration for https, without ServerName.
	TLS *tls.Config
	// IdleTimeout is how long an idle connection may be reused. It is closed before twice that
	// time has passed.
	IdleTimeout time.Duration
	// MaxIdlePerHost is the maximum number of idle connections per scheme and host.
	MaxIdlePerHost int
	// MaxHeader is the maximum size of a response header in bytes, including 1xx responses.
	MaxHeader int
	// Other handles requests to Unicode hosts and to addresses with a zone.
	Other http.RoundTripper

	mu     sync.Mutex         // guards the fields below
	idle   map[origin][]*conn // last used at the end
	reaper *time.Timer        // closes old idle connections; nil without idle connections
	closed bool
}

// An origin is the key for sharing connections.
type origin struct{ scheme, host string }

// RoundTrip sends a request and returns the response. The exchange ends with the context of the
// request. The connection is reused after the response body was read completely and closed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isPlain(r.URL.Host) {
		return t.Other.RoundTrip(r)
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // an idle connection would send the request anyway
	}
	c, err := t.conn(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	return c.exchange(r)
}

// isPlain reports whether a host is used without conversion.
func isPlain(host string) bool {
	return strings.IndexFunc(host, func(c rune) bool { return c <= ' ' || c == '%' || c > '~' }) < 0
}

// CloseIdleConnections closes idle connections, and from now on other connections after their
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

// take returns the idle connection that was used last, or nil.
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

// reap closes connections that were idle too long. It repeats while any are idle.
func (t *Transport) reap() {
	var old []*conn
	defer func() { closeAll(old) }() // without the lock
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
