package access_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

// A pipeListener accepts the connections of its channel.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The time limit for reading a body does not limit the duration of the handler.
func TestHandlerMayTakeLongAfterLongBody(t *testing.T) {
	for name, body := range map[string]string{"no body": "", "a body": "{}"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := make(pipeListener, 1)
				server := access.NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b := access.NewLongBody(w, r)
					for range 2 { // the second time after the end
						_, err := io.ReadAll(b)
						assert.NoError(t, err)
					}
					select {
					case <-r.Context().Done():
						w.WriteHeader(http.StatusServiceUnavailable)
					case <-time.After(time.Minute):
					}
				}))
				go func() { assert.ErrorIs(t, server.Serve(listener), http.ErrServerClosed) }()
				client, other := net.Pipe()
				listener <- other
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
				for range 2 { // on one connection
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/", strings.NewReader(body))
					require.NoError(t, err)
					res, err := transport.RoundTrip(req)
					require.NoError(t, err)
					assert.Equal(t, http.StatusOK, res.StatusCode)
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				transport.CloseIdleConnections()
				assert.NoError(t, server.Close())
			})
		})
	}
}
