package http1_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A script is a connection to a server that responds with fixed bytes and then closes it.
type script struct {
	net.Conn
	response  io.Reader
	request   bytes.Buffer
	requested chan struct{} // closed by Close, or after the first byte of the request was written
	quiet     bool          // whether the channel is still open
}

func newScript(response string) *script {
	return &script{response: strings.NewReader(response), requested: make(chan struct{}), quiet: true}
}

func (s *script) Write(p []byte) (int, error) {
	if s.quiet {
		s.quiet = false
		defer close(s.requested)
	}
	return s.request.Write(p)
}

func (s *script) Read(p []byte) (int, error) {
	<-s.requested
	return s.response.Read(p)
}

func (*script) Close() error                    { return nil }
func (*script) SetDeadline(time.Time) error     { return nil }
func (*script) SetReadDeadline(time.Time) error { return nil }

// TestRequestBytesMatchNetHTTP compares the bytes of requests with those of net/http.
func TestRequestBytesMatchNetHTTP(t *testing.T) {
	for _, tt := range []struct {
		url, body string
		header    map[string]string
	}{
		{"http://server.example", "", nil},
		{"http://server.example:/", "", nil},
		{"http://server.example/hook?a=b%20c&d#e", "{}", map[string]string{"X-B": "1", "X-A": " spaced ", "Content-Type": "application/json"}},
		{"http://user:password@server.example:8080/é%2Fx", "body", map[string]string{"A": "", "Z": "\tü"}},
		{"http://[::1]:8080/?", strings.Repeat("long", 10_000), map[string]string{"Host": "other", "Content-Length": "7", "Trailer": "X", "Transfer-Encoding": "chunked"}},
	} {
		server := newScript(empty)
		transport, _ := newTransport(t, func(context.Context, string, string) (net.Conn, error) { return server, nil })
		r := request(t, t.Context(), tt.url, tt.body)
		for name, value := range tt.header {
			r.Header.Set(name, strings.TrimSpace(value))
		}
		var want bytes.Buffer
		require.NoError(t, r.Clone(t.Context()).Write(&want))
		r.Body = io.NopCloser(strings.NewReader(tt.body))
		_, err := transport.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, want.String(), server.request.String())
	}
}

func TestInvalidRequests(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"a line break in a value": func(r *http.Request) { r.Header.Set("A", "b\r\nC: d") },
		"a line feed in a value":  func(r *http.Request) { r.Header.Set("A", "b\nC: d") },
		"a return in a value":     func(r *http.Request) { r.Header.Set("A", "b\rC: d") },
		"a line break in a name":  func(r *http.Request) { r.Header["A: b\r\nC"] = []string{"d"} },
		"a line break in the URL": func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nA: b" },
		"a shorter body":          func(r *http.Request) { r.ContentLength++ },
		"a longer body":           func(r *http.Request) { r.ContentLength-- },
		"a missing body":          func(r *http.Request) { r.Body = nil },
		"a body without a length": func(r *http.Request) { r.ContentLength = -1 },
	} {
		server := newScript(empty)
		transport, made := newTransport(t, func(context.Context, string, string) (net.Conn, error) { return server, nil })
		r := request(t, t.Context(), "http://server.example/", "body")
		change(r)
		_, err := transport.RoundTrip(r)
		assert.Error(t, err, name)
		assert.Empty(t, server.request.String(), name)
		assert.EqualValues(t, 1, made.Load())
	}
}

// Bytes after the announced length must not become a second request.
func TestBodyLongerThanContentLength(t *testing.T) {
	server := newScript(empty)
	transport, _ := newTransport(t, func(context.Context, string, string) (net.Conn, error) { return server, nil })
	r := request(t, t.Context(), "http://server.example/", strings.Repeat("long", 10_000))
	r.ContentLength = 10_000
	_, err := transport.RoundTrip(r)
	assert.Error(t, err)
	_, sent, _ := strings.Cut(server.request.String(), "\r\n\r\n")
	assert.LessOrEqual(t, len(sent), 10_000)
}

// An outcome is the result that a transport returns for a response.
type outcome struct {
	answered bool
	status   int
	header   http.Header
	trailer  http.Header
	body     string
	complete bool
}

func outcomeOf(t testing.TB, transport http.RoundTripper) (o outcome) {
	response, err := transport.RoundTrip(request(t, t.Context(), "http://server.example/", "body"))
	if err != nil {
		return o
	}
	defer response.Body.Close()
	o = outcome{answered: true, status: response.StatusCode, header: response.Header}
	if o.status != http.StatusSwitchingProtocols { // otherwise, data of another protocol follows
		body, err := io.ReadAll(response.Body)
		o.body, o.complete, o.trailer = string(body), err == nil, response.Trailer
	}
	return o
}

// FuzzResponse compares the results for arbitrary responses with those of net/http.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		empty, "", "\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nto the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + empty, "HTTP/1.1 100 Continue\r\n\r\n" + empty, "HTTP/1.1 103 Early Hints\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 1<<17) + "\r\n\r\n", "HTTP/1.1 099 Low\r\n\r\n" + empty, "HTTP/1.1 -1 Low\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, response string) {
		dial := func(context.Context, string, string) (net.Conn, error) { return newScript(response), nil }
		ours, _ := newTransport(t, dial)
		theirs := &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: int64(ours.MaxHeader)}
		defer theirs.CloseIdleConnections()
		assert.Equal(t, outcomeOf(t, theirs), outcomeOf(t, ours))
	})
}
