package http1_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkExchange compares the transport with net/http.
func BenchmarkExchange(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer l.Close()
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				for in := make([]byte, 4096); err == nil; { // a request fits into one segment
					if _, err = c.Read(in); err == nil {
						_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 2\r\n\r\nok")
					}
				}
			})
		}
	})
	ours, _ := newTransport(b, new(net.Dialer).DialContext)
	ours.MaxIdlePerHost = 64
	theirs := &http.Transport{MaxIdleConnsPerHost: 64}
	for name, transport := range map[string]http.RoundTripper{"http1": ours, "net-http": theirs} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ctx, cancel := context.WithCancel(b.Context())
					response, err := transport.RoundTrip(request(b, ctx, "http://"+l.Addr().String(), "body"))
					if err != nil {
						b.Error(err)
					} else {
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
					}
					cancel()
				}
			})
		})
	}
	ours.CloseIdleConnections()
	theirs.CloseIdleConnections()
}
