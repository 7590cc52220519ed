package jetstream_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// slowLink returns the address of a proxy with limited bandwidth and a small buffer.
func slowLink(t *testing.T, server string, bytesPerSecond int) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	carry := func(to, from net.Conn) {
		defer func() { _, _ = to.Close(), from.Close() }()
		for buffer := make([]byte, 16<<10); ; {
			n, err := from.Read(buffer)
			time.Sleep(time.Duration(n) * time.Second / time.Duration(bytesPerSecond)) // simulates the bandwidth
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			_ = far.(*net.TCPConn).SetReadBuffer(64 << 10)
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return "nats://" + l.Addr().String()
}

// TestLargeStateLoadsOverASlowLink checks that large state is read in small batches. A server
// closes a connection that has more than max_pending bytes in its queue.
func TestLargeStateLoadsOverASlowLink(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: reads 16 MiB over a slow link")
	}
	t.Parallel()
	s, _ := startServer(t, func(o *server.Options) { o.MaxPending = 1 << 20 })
	options := jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}}
	require.NoError(t, open(t, options).Close())

	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	require.NoError(t, err)
	const messages = 64
	for i := range messages { // checkpoints of other collectors that were killed while storing them
		m := nats.NewMsg(fmt.Sprintf("analytics.s.account.%d.0.0", i))
		m.Header.Set("Checkpoint", "id")
		m.Header.Set("Pieces", "2")
		m.Data = make([]byte, []int{512 << 10, 1 << 10}[i%2])
		_, _ = rand.Read(m.Data)
		_, err := js.PublishMsg(within(t), m)
		require.NoError(t, err)
	}

	options.NATS.URL = slowLink(t, s.ClientURL(), 16<<20)
	j := open(t, options)
	require.NoError(t, j.Ready(within(t)))
	assert.Zero(t, s.NumSlowConsumers(), "no connection was closed as a slow consumer")
}
