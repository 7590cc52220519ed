package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Transport sends requests. It does not implement the timeout: the senders do, without a
// goroutine for each request.
type Transport struct {
	client *http.Client    // a copy of the caller's http.Client
	own    *http.Transport // nil if the caller provides the transport

	// direct is set if requests are sent with own instead of client. An http.Client would
	// follow redirects, and copy the header and the URL.
	direct bool
}

// NewTransport returns a Transport that uses a copy of the given client, with at most conns
// idle connections. If wrap is not nil, it replaces the transport of the copy.
func NewTransport(given http.Client, conns int, wrap func(http.RoundTripper) http.RoundTripper) (Transport, error) {
	t := Transport{client: &given, own: ownTransport(given, conns)}
	given.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	given.Timeout = 0
	if t.own != nil {
		given.Transport = t.own
	}
	if wrap == nil {
		t.direct = t.own != nil && given.Jar == nil
		return t, nil
	}
	base := given.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	var err error
	given.Transport, err = wrapTransport(base, wrap)
	return t, err
}

// wrapTransport calls wrap. It returns a panic in wrap as an error.
func wrapTransport(base http.RoundTripper, wrap func(http.RoundTripper) http.RoundTripper) (wrapped http.RoundTripper, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("analytics: Config.WrapTransport panicked: " + wire.Clip(fmt.Sprint(v), wire.MaxRepeated))
		}
	}()
	if wrapped = wrap(base); wrapped == nil {
		err = errors.New("analytics: Config.WrapTransport returned nil; it must return a transport, such as its argument")
	}
	return wrapped, err
}

// ownTransport returns a tuned copy of http.DefaultTransport. It returns nil if given already
// has a transport.
func ownTransport(given http.Client, conns int) *http.Transport {
	// The program may have replaced http.DefaultTransport.
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok || given.Transport != nil {
		return nil
	}
	own := base.Clone()
	own.MaxIdleConns, own.MaxIdleConnsPerHost = conns, conns
	own.DisableCompression = true  // responses have only a few bytes
	own.WriteBufferSize = 64 << 10 // most requests fit into one write
	if own.DialContext != nil {    // if it was nil, setting it would disable HTTP/2 and override Dial
		own.DialContext = directDial(own.DialContext)
	}
	return own
}

// directDial wraps dial. The connections write the body of a request without copying it.
func directDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok {
			conn = directConn{tcp}
		}
		return conn, err
	}
}

type directConn struct{ *net.TCPConn }

// ReadFrom writes the rest of a body without copying it. net/http calls ReadFrom when its write
// buffer is full. The rest of a request has the announced length.
func (c directConn) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(io.WriterTo); ok {
			n, err := body.WriteTo(c.TCPConn)
			limited.N -= n
			return n, err
		}
	}
	return c.TCPConn.ReadFrom(r)
}
