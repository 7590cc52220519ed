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

// Transport is an [http.RoundTripper] for requests whose length is known. Its fields are
// set before its first use; then it is safe for concurrent use.
type Transport struct {
	// Dial connects to a host and a port.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the configuration for https, to which the name of the server is added.
	TLS *tls.Config
	// IdleTimeout is how long a connection may have been idle when it is used again. It
	// is closed before twice that time is over.
	IdleTimeout time.Duration
	// MaxIdlePerHost is how many idle connections are kept for each scheme and host.
	MaxIdlePerHost int
	// MaxHeader bounds the header of a response in bytes, with those of 1xx before it.
	MaxHeader int
	// Other carries the requests to hosts in Unicode, and to addresses with a zone.
	Other http.RoundTripper

	mu     sync.Mutex         // guards what follows
	idle   map[origin][]*conn // the one that was used last is at the end
	reaper *time.Timer        // closes what was idle for too long; nil while nothing is idle
	closed bool
}

// origin is what connections are shared by.
type origin struct{ scheme, host string }

// RoundTrip makes an exchange, which ends with the context of the request. Its connection
// is used again once the body of the response was read to its end and is closed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isPlain(r.URL.Host) {
		return t.Other.RoundTrip(r)
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // an idle connection would carry it all the same
	}
	c, err := t.conn(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	return c.exchange(r)
}

// isPlain reports whether a host is sent and dialled as it is written.
func isPlain(host string) bool {
	return strings.IndexFunc(host, func(c rune) bool { return c <= ' ' || c == '%' || c > '~' }) < 0
}

// CloseIdleConnections closes the connections that are idle, and from then on each other
// one when its exchange is over.
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

// conn returns a connection for a URL, an idle one if there is one.
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

// connect makes a connection for a URL, to be kept for its origin.
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

// keep takes a connection back whose exchange is over, if there is use for it.
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

// reap closes what was idle for too long, and comes again while anything is idle.
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
