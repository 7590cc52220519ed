package http1_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
)

// A bundle is a connection that delays writes until the next read or Close.
type bundle struct {
	net.Conn
	bytes.Buffer
}

func (b *bundle) Write(p []byte) (int, error) { return b.Buffer.Write(p) }

func (b *bundle) Read(p []byte) (int, error) {
	if err := b.flush(); err != nil {
		return 0, err
	}
	return b.Conn.Read(p)
}

func (b *bundle) flush() error {
	_, err := b.WriteTo(b.Conn)
	return err
}

func (*bundle) SetWriteDeadline(time.Time) error { return nil } // ignored, so that delayed writes succeed

func (b *bundle) Close() error {
	_ = b.flush()
	return b.Conn.Close()
}

// toTLS returns a transport that connects to TLS servers through pipes, for synctest.
func toTLS(t *testing.T, serve func(*tls.Conn)) (*http1.Transport, *atomic.Int32) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	certified.TLS.DynamicRecordSizingDisabled = true // makes each write one record
	transport, made := toPipes(t, func(c net.Conn) {
		secure := tls.Server(&bundle{Conn: c}, certified.TLS)
		if secure.HandshakeContext(t.Context()) == nil {
			serve(secure)
		}
	})
	transport.TLS.RootCAs = x509.NewCertPool()
	transport.TLS.RootCAs.AddCert(certified.Certificate())
	return transport, made
}

const secureURL = "https://example.com/"

// Unexpected data must not become the response to the next request, even if it is in a TLS buffer.
func TestUnexpectedDataOverTLS(t *testing.T) {
	const more = "HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n"
	head := "HTTP/1.1 200 OK\r\nContent-Length: 8000\r\nX: "
	long := head + strings.Repeat("x", 8192-8000-len(head)-4) + "\r\n\r\n" + strings.Repeat("y", 8000)
	for name, send := range map[string]func(*tls.Conn){
		"in the same record":   func(c *tls.Conn) { _, _ = io.WriteString(c, empty+more) },
		"in the next record":   func(c *tls.Conn) { _, _ = io.WriteString(c, empty); _, _ = io.WriteString(c, more) },
		"behind a full buffer": func(c *tls.Conn) { _, _ = io.WriteString(c, long+more) },
		"the end":              func(c *tls.Conn) { _, _ = io.WriteString(c, empty); _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, made := toTLS(t, func(c *tls.Conn) {
					_, _ = c.Read(make([]byte, 4096)) // a request fits into one record
					send(c)
					_, _ = io.Copy(io.Discard, c)
				})
				for range 3 {
					status, _ := post(t, transport, secureURL, "")
					assert.Equal(t, 200, status)
				}
				assert.EqualValues(t, 3, made.Load())
			})
		})
	}
}

// A response is valid even if the connection breaks before the TLS close alert.
func TestConnectionBreaksAfterResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := toTLS(t, func(c *tls.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			_ = c.NetConn().Close()
		})
		status, _ := post(t, transport, secureURL, "")
		assert.Equal(t, 204, status)
	})
}

// Closing the connection does not block.
func TestServerThatDoesNotRead(t *testing.T) {
	for name, response := range map[string]string{"last": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", "idle": "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"} {
		for _, length := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					transport, _ := toTLS(t, func(c *tls.Conn) {
						_, _ = c.Read(make([]byte, 4096))
						_, _ = c.Write(fmt.Appendf(nil, response+"ok"[:length], length))
						_ = c.NetConn().(*bundle).flush()
						time.Sleep(time.Hour)
					})
					begun := time.Now()
					post(t, transport, secureURL, "")
					transport.CloseIdleConnections()
					assert.Equal(t, begun, time.Now())
				})
			})
		}
	}
}

// Closing an unread response does not block if the server does not read.
func TestUnreadResponseOfServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := toTLS(t, func(c *tls.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf")
			_ = c.NetConn().(*bundle).flush()
			_, err := c.NetConn().(*bundle).Conn.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF, "no close alert")
		})
		response, err := transport.RoundTrip(request(t, t.Context(), secureURL, ""))
		require.NoError(t, err)
		assert.NoError(t, response.Body.Close())
	})
}

// A failed handshake closes the connection.
func TestFailedHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := toTLS(t, func(*tls.Conn) {})
		_, err := transport.RoundTrip(request(t, t.Context(), "https://other.test/", ""))
		assert.ErrorAs(t, err, new(*tls.CertificateVerificationError))
		assert.Empty(t, transport.TLS.ServerName, "one connection")

		transport, _ = toPipes(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "no TLS")
			_, _ = io.Copy(io.Discard, c)
		})
		_, err = transport.RoundTrip(request(t, t.Context(), secureURL, ""))
		assert.ErrorAs(t, err, new(tls.RecordHeaderError))
	})
}

// In this test, the server does not respond to the handshake.
func TestContextEndsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := toPipes(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := transport.RoundTrip(request(t, ctx, secureURL, ""))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// Closing an old connection does not delay the next request.
func TestOldConnectionOfServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, made := toTLS(t, func(c *tls.Conn) {
			for range 2 {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, empty)
			}
			_ = c.NetConn().(*bundle).flush()
			time.Sleep(time.Hour)
		})
		post(t, transport, secureURL, "")
		time.Sleep(transport.IdleTimeout / 2)
		post(t, transport, secureURL, "")
		time.Sleep(transport.IdleTimeout)
		begun := time.Now()
		post(t, transport, secureURL, "")
		assert.Equal(t, begun, time.Now())
		assert.EqualValues(t, 2, made.Load())
	})
}
