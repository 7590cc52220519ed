package service

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A cuttableLink forwards connections to a server. While it is cut, data is delayed without
// any error, as if a cable were unplugged.
type cuttableLink struct {
	url string
	mu  sync.RWMutex // locked while the link is cut; read-locked during transfers
}

func newCuttableLink(t *testing.T, server string) *cuttableLink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	link := &cuttableLink{url: "nats://" + l.Addr().String()}
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
			go link.carry(near, far)
			go link.carry(far, near)
		}
	}()
	return link
}

func (l *cuttableLink) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		l.mu.RLock()
		_, failed := to.Write(buffer[:n])
		l.mu.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// TestDisconnectedCollectorRespondsSoon checks that a collector without a connection to its
// cluster rejects calls within two seconds, and that retried calls are stored once.
func TestDisconnectedCollectorRespondsSoon(t *testing.T) {
	receiver, got := countingReceiver(t)
	link := newCuttableLink(t, startNATS(t))
	s := start(t, Options{Config: &config.Config{
		Listen: "127.0.0.1:0", NATS: &config.NATS{NATS: jetstream.NATS{URL: link.url, Replicas: 1, AcceptLazySync: true}}, Egress: config.Egress{Allow: loopback()},
		Sources:      []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{hook("crm", receiver)},
	}})
	post := func(i int) (status int) {
		r, err := http.Post(s.URL()+"/v1/track", "application/json", strings.NewReader(
			fmt.Sprintf(`{"writeKey":"web-key","userId":"u","event":"e","messageId":"m%d"}`, i)))
		require.NoError(t, err)
		defer func() { _ = r.Body.Close() }()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	require.Equal(t, http.StatusOK, post(0))
	waitLedgers(t, s, func(ledgers []tracking.Ledger) bool { return ledgers[0].Delivered == 1 })

	link.mu.Lock()
	longest := time.Duration(0)
	for i := range 4 {
		for range 2 { // a retry
			began := time.Now()
			assert.Equal(t, http.StatusServiceUnavailable, post(i+1))
			longest = max(longest, time.Since(began))
		}
	}
	began := time.Now()
	require.Error(t, s.collector.Ready(t.Context()))
	longest = max(longest, time.Since(began))
	link.mu.Unlock()
	t.Logf("the longest answer took %v", longest) // less than two seconds on an idle machine

	for i := range 4 {
		waitFor(t, func() bool { return post(i+1) == http.StatusOK })
	}
	waitFor(t, func() bool { return got.Load() >= 5 })
	waitFor(t, func() bool {
		ledgers, err := s.collector.Ledger(t.Context())
		return err == nil && ledgers[0].Pending == 0
	})
	assert.EqualValues(t, 5, got.Load(), "each once")
}
