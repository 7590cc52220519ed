package analytics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// httpClient returns the client that makes the requests, a copy of the caller's, and
// its transport unless that is the caller's. The senders implement the time-out,
// without a goroutine for each request.
func httpClient(given http.Client, conns int) (*http.Client, *http.Transport) {
	client := given
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
	if client.Transport != nil {
		return &client, nil
	}
	// A test may replace http.DefaultTransport.
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return &client, nil
	}
	own := base.Clone()
	own.MaxIdleConns, own.MaxIdleConnsPerHost = conns, conns
	own.DisableCompression = true  // answers are a few bytes
	own.WriteBufferSize = 64 << 10 // most requests are one write
	if own.DialContext != nil {    // a new DialContext would turn HTTP/2 off, and override a Dial
		own.DialContext = directDial(own.DialContext)
	}
	client.Transport = own
	return &client, own
}

// wrapTransport has the caller wrap the transport of a client.
func wrapTransport(client *http.Client, wrap func(http.RoundTripper) http.RoundTripper) error {
	base := client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	if client.Transport = wrap(base); client.Transport == nil {
		return errors.New("analytics: Config.WrapTransport returned nil; it must return a transport, such as the one that it was given")
	}
	return nil
}

// directDial wraps dial so that connections take the bytes of a batch without a copy.
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

// ReadFrom is called by net/http to write the rest of a body, after it has filled its
// write buffer. ReadFrom writes it without a copy: the rest of a request of this
// client is as long as it announced.
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
