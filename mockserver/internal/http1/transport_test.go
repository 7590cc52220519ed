package http1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
)

const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// newTransport returns a transport that counts its connections. It is closed when the test ends.
func newTransport(t testing.TB, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*http1.Transport, *atomic.Int32) {
	var made atomic.Int32
	transport := &http1.Transport{
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			made.Add(1)
			return dial(ctx, network, addr)
		},
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}, IdleTimeout: 4 * time.Second, MaxIdlePerHost: 8, MaxHeader: 1 << 16,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport, &made
}

// onSockets returns a transport that connects to real servers.
func onSockets(t *testing.T) (*http1.Transport, *atomic.Int32) {
	return newTransport(t, new(net.Dialer).DialContext)
}

// toPipes returns a transport that connects to servers through pipes, for synctest.
func toPipes(t *testing.T, serve func(net.Conn)) (*http1.Transport, *atomic.Int32) {
	var servers sync.WaitGroup
	t.Cleanup(servers.Wait)
	return newTransport(t, func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		servers.Go(func() {
			defer server.Close()
			serve(server)
		})
		return client, nil
	})
}

// answering returns a server that sends the given responses to the requests of a connection.
func answering(responses ...string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for _, response := range responses {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, in) // returns when the client closes the connection
	}
}

func request(t testing.TB, ctx context.Context, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("User-Agent", "test/1")
	return r
}

// post sends a request, and returns the status and the body of the response.
func post(t *testing.T, transport http.RoundTripper, url, body string) (int, string) {
	t.Helper()
	response, err := transport.RoundTrip(request(t, t.Context(), url, body))
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close(), "closed twice, reused once")
	return response.StatusCode, string(answer)
}

func TestConnectionIsUsedAgain(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, tt := range map[string]struct {
		response string
		again    bool
	}{
		"empty":                       {empty, true},
		"of a length":                 {ok + "Content-Length: 2\r\n\r\nok", true},
		"in chunks":                   {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"with a trailer":              {ok + "Trailer: A\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n", true},
		"204":                         {"HTTP/1.1 204 No Content\r\n\r\n", true},
		"304":                         {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", true},
		"after hints":                 {"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + empty, true},
		"longer than a header":        {ok + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), true},
		"500":                         {"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nno", true},
		"HTTP/1.0, kept alive":        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
		"HTTP/1.0":                    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		"closed":                      {ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", false},
		"unexpected data":             {empty + "HTTP/1.1 408 Request Timeout\r\n\r\n", false},
		"longer than Content-Length":  {ok + "Content-Length: 2\r\n\r\nokay", false},
		"to another protocol":         {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false},
		"a chunk and unexpected data": {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, made := toPipes(t, answering(tt.response, tt.response, tt.response))
				for range 3 {
					post(t, transport, "http://server.example/", "body")
				}
				if tt.again {
					assert.EqualValues(t, 1, made.Load())
				} else {
					assert.EqualValues(t, 3, made.Load())
				}
			})
		})
	}
}

// Closing a partly read body closes the connection without waiting for the rest.
func TestPartlyReadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, made := toPipes(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf"))
		for range 2 {
			response, err := transport.RoundTrip(request(t, t.Context(), "http://server.example/", ""))
			require.NoError(t, err)
			_, err = io.ReadFull(response.Body, make([]byte, 4))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.NoError(t, response.Body.Close(), "it may be closed again")
			_, err = response.Body.Read(make([]byte, 4))
			assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		}
		assert.EqualValues(t, 2, made.Load())
	})
}

// If the server has closed an idle connection, the next request uses a new one.
func TestServerClosesIdleConnections(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for name, server := range map[string]*httptest.Server{"http": httptest.NewServer(handler), "https": httptest.NewTLSServer(handler)} {
		t.Run(name, func(t *testing.T) {
			defer server.Close()
			transport, made := onSockets(t)
			if name == "https" {
				transport.TLS.RootCAs = x509.NewCertPool()
				transport.TLS.RootCAs.AddCert(server.Certificate())
			}
			for i := range 3 {
				for range 2 {
					_, body := post(t, transport, server.URL, "echo")
					assert.Equal(t, "echo", body)
				}
				assert.EqualValues(t, i+1, made.Load())
				server.CloseClientConnections()
			}
		})
	}
}

// Data on an idle connection must not become the response to the next request.
func TestUnexpectedData(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	speak, spoken := make(chan struct{}), make(chan struct{})
	var server sync.WaitGroup
	server.Go(func() {
		first, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer first.Close()
		go answering(empty)(first)
		<-speak
		_, _ = io.WriteString(first, "HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n")
		close(spoken)
		second, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer second.Close()
		answering(empty)(second)
	})
	defer server.Wait()
	defer l.Close()
	transport, _ := onSockets(t)
	status, _ := post(t, transport, "http://"+l.Addr().String(), "")
	assert.Equal(t, 200, status)
	close(speak)
	<-spoken
	status, _ = post(t, transport, "http://"+l.Addr().String(), "")
	assert.Equal(t, 200, status)
	transport.CloseIdleConnections()
}

// A halfReader is a connection to a server that responds before it has read the request.
type halfReader struct {
	net.Conn
	response io.Reader
}

var errGone = errors.New("gone")

func (*halfReader) Write([]byte) (int, error) { return 0, errGone }

func (c *halfReader) Read(p []byte) (n int, err error) {
	if n, err = c.response.Read(p); err != nil {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (*halfReader) Close() error                    { return nil }
func (*halfReader) SetDeadline(time.Time) error     { return nil }
func (*halfReader) SetReadDeadline(time.Time) error { return nil }

// If the write fails, the caller receives the response, which explains the failure.
func TestResponseBeforeTheRequestIsRead(t *testing.T) {
	response := "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
	transport, made := newTransport(t, func(context.Context, string, string) (net.Conn, error) {
		return &halfReader{response: strings.NewReader(response)}, nil
	})
	for range 2 {
		status, body := post(t, transport, "http://server.example/", strings.Repeat("x", 1<<20))
		assert.Equal(t, 413, status)
		assert.Equal(t, "no!", body)
	}
	assert.EqualValues(t, 2, made.Load(), "not reused")
	response = ""
	_, err := transport.RoundTrip(request(t, t.Context(), "http://server.example/", "x"))
	assert.ErrorIs(t, err, errGone, "without a response, the write error is returned")
}

// Canceling the context ends an exchange at every stage, and closes the connection.
func TestContextEndsExchange(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"nothing is read":   func(c net.Conn) { time.Sleep(time.Hour) },
		"nothing is sent":   func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"within the header": answering("HTTP/1.1 200 OK\r\nA: "),
		"within the body":   answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf"),
	} {
		for _, why := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(name+", "+why.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begun := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					if errors.Is(why, context.Canceled) {
						time.AfterFunc(5*time.Second, cancel)
						ctx, cancel = context.WithCancel(t.Context())
						time.AfterFunc(5*time.Second, cancel)
					}
					transport, made := toPipes(t, serve)
					response, err := transport.RoundTrip(request(t, ctx, "http://server.example/", "body"))
					if err == nil {
						_, err = io.ReadAll(response.Body)
						response.Body.Close()
					}
					assert.Error(t, err)
					assert.Equal(t, why, ctx.Err())
					assert.Equal(t, 5*time.Second, time.Since(begun))
					assert.EqualValues(t, 1, made.Load())
				})
			})
		}
	}
}

// The transport sends no TLS alert to a server that does not read.
func TestContextEndsExchangeOverTLS(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	synctest.Test(t, func(t *testing.T) {
		transport, _ := toPipes(t, func(c net.Conn) {
			assert.NoError(t, tls.Server(c, certified.TLS).HandshakeContext(t.Context()))
			time.Sleep(time.Hour)
		})
		transport.TLS.RootCAs = x509.NewCertPool()
		transport.TLS.RootCAs.AddCert(certified.Certificate())
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := transport.RoundTrip(request(t, ctx, "https://example.com/", "body"))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// Nothing is sent if the context is canceled already, even if there is an idle connection.
func TestEndedContext(t *testing.T) {
	server := newScript(empty)
	transport, made := newTransport(t, func(context.Context, string, string) (net.Conn, error) { return server, nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := transport.RoundTrip(request(t, ctx, "http://server.example/", "body"))
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, made.Load())
	assert.Empty(t, server.request.String())
}

// Canceling the context after an exchange does not affect the next exchange on the connection.
func TestContextEndsAfterExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, made := toPipes(t, answering(empty, empty))
		ctx, cancel := context.WithCancel(t.Context())
		response, err := transport.RoundTrip(request(t, ctx, "http://server.example/", ""))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		cancel()
		synctest.Wait()
		post(t, transport, "http://server.example/", "")
		assert.EqualValues(t, 1, made.Load())
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []time.Duration // each element is written by one server, and read when all have ended
		var mu sync.Mutex
		begun := time.Now()
		transport, made := toPipes(t, func(c net.Conn) {
			answering(empty, empty)(c)
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, time.Since(begun))
		})
		const url = "http://server.example/"
		post(t, transport, url, "")
		time.Sleep(transport.IdleTimeout - 1)
		post(t, transport, url, "")
		assert.EqualValues(t, 1, made.Load(), "just in time")
		time.Sleep(transport.IdleTimeout)
		post(t, transport, url, "")
		assert.EqualValues(t, 2, made.Load(), "too late")
		time.Sleep(2 * transport.IdleTimeout)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ended, 2)
		assert.Less(t, ended[1], 4*transport.IdleTimeout)
	})
}

// The reaper runs again, whether it has closed connections or not.
func TestIdleConnectionsAreClosedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		transport, _ := toPipes(t, func(c net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			answering(empty, empty)(c)
		})
		for range 2 {
			post(t, transport, "http://server.example/", "")
			time.Sleep(transport.IdleTimeout / 2)
			post(t, transport, "http://server.example/", "")
			assert.EqualValues(t, 1, open.Load())
			time.Sleep(2 * transport.IdleTimeout)
			synctest.Wait()
			assert.Zero(t, open.Load())
		}
	})
}

// Different origins do not share connections, even if they have the same port.
func TestOriginsShareNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, made := toPipes(t, answering(empty, empty, empty))
		post(t, transport, "http://server.example:443/", "")
		post(t, transport, "http://other.example:443/", "")
		assert.EqualValues(t, 2, made.Load())
		_, err := transport.RoundTrip(request(t, t.Context(), "https://server.example:443/", ""))
		assert.Error(t, err, "not a TLS server")
		assert.EqualValues(t, 3, made.Load())
	})
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		transport, _ := toPipes(t, func(c net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", empty)(c)
		})
		var all []*http.Response
		for range 2 * transport.MaxIdlePerHost {
			response, err := transport.RoundTrip(request(t, t.Context(), "http://server.example/", ""))
			require.NoError(t, err)
			all = append(all, response)
		}
		for _, response := range all {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		synctest.Wait()
		assert.EqualValues(t, transport.MaxIdlePerHost, open.Load())
		transport.CloseIdleConnections()
		synctest.Wait()
		assert.Zero(t, open.Load())
		post(t, transport, "http://server.example/", "")
		synctest.Wait()
		assert.Zero(t, open.Load(), "one for a later exchange")
	})
}

// Each exchange gets its own response while other exchanges are canceled.
func TestExchangesConcurrentSafe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Connection-Closed") != "" {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	transport, _ := onSockets(t)
	var senders sync.WaitGroup
	for sender := range 16 {
		senders.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				body := strconv.Itoa(1000*sender + i)
				r := request(t, ctx, server.URL, body)
				switch i % 8 {
				case 0:
					go cancel()
				case 1:
					r.Header.Set("Connection-Closed", "1")
				}
				if response, err := transport.RoundTrip(r); err == nil {
					answer, err := io.ReadAll(response.Body)
					assert.True(t, err != nil && ctx.Err() != nil || string(answer) == body, "%s got %s, %v", body, answer, err)
					response.Body.Close()
				} else {
					assert.Error(t, ctx.Err(), "%v", err)
				}
				cancel()
			}
		})
	}
	senders.Wait()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHosts(t *testing.T) {
	failed := errors.New("not dialled")
	for url, want := range map[string]string{
		"http://server.example":          "server.example:80",
		"https://server.example/a":       "server.example:443",
		"http://server.example:8080/":    "server.example:8080",
		"http://192.0.2.1/":              "192.0.2.1:80",
		"https://[2001:db8::1]/":         "[2001:db8::1]:443",
		"https://[2001:db8::1]:8443/":    "[2001:db8::1]:8443",
		"http://bücher.example/":         "other",
		"http://[fe80::1%25eth0]:8080/":  "other",
		"http://xn--bcher-kva.example./": "xn--bcher-kva.example.:80",
	} {
		var dialled string
		transport, _ := newTransport(t, func(_ context.Context, network, addr string) (net.Conn, error) {
			dialled = addr
			return nil, failed
		})
		transport.Other = roundTripper(func(*http.Request) (*http.Response, error) {
			dialled = "other"
			return nil, failed
		})
		_, err := transport.RoundTrip(request(t, t.Context(), url, ""))
		assert.ErrorIs(t, err, failed)
		assert.Equal(t, want, dialled, url)
	}
}
