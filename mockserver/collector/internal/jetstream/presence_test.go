package jetstream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

// A shared contains two collectors on one NATS server. Only one of them has the destination crm,
// which has three pending calls.
type shared struct {
	*testing.T
	options  jetstream.Options
	url      string
	one, two *jetstream.Journal
	seen     jetstream.Orphans // state of the other collector's check for orphans
	now      time.Time
}

func newShared(t *testing.T) *shared {
	t.Helper()
	nats, _ := startServer(t, func(*server.Options) {})
	s := &shared{T: t, url: nats.ClientURL(), now: time.Now()}
	s.options = jetstream.Options{NATS: &jetstream.NATS{URL: s.url, Replicas: 1, AcceptLazySync: true}}
	s.one, s.two = open(t, s.options), open(t, s.options)
	attach(t, s.two, "crm")
	require.NoError(t, s.one.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 3)}))
	return s
}

// stop stops the collector with the destination, and removes its presence.
func (s *shared) stop() {
	s.Helper()
	require.NoError(s, s.two.Close())
	require.NoError(s, s.one.LosePresence(within(s.T)))
}

// look makes the other collector check for orphans every ten minutes.
func (s *shared) look(minutes int) {
	s.Helper()
	for range minutes/10 + 1 {
		require.NoError(s, s.one.DetachOrphans(within(s.T), &s.seen, s.now))
		s.now = s.now.Add(10 * time.Minute)
	}
}

// attached reports whether the destination is attached.
func (s *shared) attached() bool {
	s.Helper()
	ledgers, err := s.one.Ledger(within(s.T))
	require.NoError(s, err)
	nc, err := nats.Connect(s.url)
	require.NoError(s, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	require.NoError(s, err)
	_, err = js.Consumer(within(s.T), "analytics-CALLS", "d-crm")
	assert.Equal(s, len(ledgers) > 0, err == nil, "the consumer: %v", err)
	return len(ledgers) > 0
}

func TestOrphanedDestinationIsDetached(t *testing.T) {
	s := newShared(t)
	s.stop()
	s.look(230)
	assert.True(t, s.attached())
	s.look(0)
	assert.False(t, s.attached())

	two := open(t, s.options)
	attach(t, two, "crm")
	wantSums(t, ledgerOf(t, s.one, "crm"), "0 = 0 + 0 + 0 + 0")
}

func TestDestinationOfAnotherCollectorIsKept(t *testing.T) {
	s := newShared(t)
	s.look(480)
	wantSums(t, ledgerOf(t, s.one, "crm"), "3 = 0 + 0 + 0 + 3")
	work(t, attach(t, s.two, "crm"), 3, delivered)
}

func TestRestartedCollectorFindsItsCalls(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for range 2 {
		s.stop()
		s.look(230)
		s.two = open(t, s.options)
		attach(t, s.two, "crm")
		s.look(230)
	}
	work(t, attach(t, s.two, "crm"), 3, delivered)
	wantSums(t, verified(t, s.two, "crm"), "3 = 3 + 0 + 0 + 0")
}

// TestOrphanCheckStartsAgainAfterAPause checks that a collector restarts its observation after a
// suspension, because it does not know which collectors were present in the meantime.
func TestOrphanCheckStartsAgainAfterAPause(t *testing.T) {
	s := newShared(t)
	s.stop()
	s.look(30)
	s.now = s.now.Add(24 * time.Hour)
	s.look(230)
	assert.True(t, s.attached())
	s.look(0)
	assert.False(t, s.attached())
}
