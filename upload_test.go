package analytics_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// If a collector responds before it has read the body, net/http continues to write the body for some
// time. The race detector checks that the client does not change the bytes while net/http writes
// them.
func TestBodyOfAnEarlyAnswerConcurrentSafe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() { answerEarly(conn) })
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetWriteBuffer(4 << 10) // a small buffer, so that the kernel does not accept the whole body at once
	}}
	client, err := analytics.NewWithConfig("key", analytics.Config{
		Endpoint: "http://" + listener.Addr().String(), FlushAt: 100, WhenFull: analytics.Block, MaxBytes: 4 << 20, CloseTimeout: 5 * time.Minute,
		HTTPClient: &http.Client{Transport: transport},
	})
	require.NoError(t, err)
	var callers sync.WaitGroup
	for g := range 4 {
		callers.Go(func() {
			for i := range 500 {
				err := client.Track(&analytics.Track{
					UserId: fmt.Sprint(g), Event: "Tested", Properties: map[string]interface{}{"i": i, "text": strings.Repeat("x", 3000)},
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	require.NoError(t, client.Close())
	stats := client.Stats()
	require.Equal(t, int64(2000), stats.Delivered)
	transport.CloseIdleConnections()
	require.NoError(t, listener.Close())
	served.Wait()
}

// answerEarly responds after the header of a request, and then reads the body.
func answerEarly(conn net.Conn) {
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	request, err := http.ReadRequest(bufio.NewReaderSize(conn, 512))
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"success\": true}")
	_, _ = io.Copy(io.Discard, request.Body)
}
