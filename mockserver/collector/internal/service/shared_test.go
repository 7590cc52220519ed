package service

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// startNATS starts a server for several collectors and returns its URL. The server has a fixed
// storage limit instead of a limit that depends on the disk, because collectors reserve space.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: 1 << 40, StoreDir: t.TempDir()})
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	require.True(t, nats.ReadyForConnections(time.Minute))
	return nats.ClientURL()
}

// countingReceiver starts a webhook that accepts and counts calls.
func countingReceiver(t *testing.T) (url string, got *atomic.Int64) {
	t.Helper()
	got = new(atomic.Int64)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(receiver.Close)
	return receiver.URL, got
}

// TestReplicasShareTheirSettings checks that changes on one collector of a cluster apply to the
// others.
func TestReplicasShareTheirSettings(t *testing.T) {
	url := startNATS(t)
	receiver, got := countingReceiver(t)
	replica := func() *Service {
		return start(t, Options{Config: &config.Config{
			Listen: "127.0.0.1:0", NATS: &config.NATS{NATS: jetstream.NATS{URL: url, Replicas: 1, AcceptLazySync: true}}, Egress: config.Egress{Allow: loopback()},
		}})
	}
	one, two := replica(), replica()
	require.NoError(t, one.collector.AddSource(t.Context(), tracking.Source{Name: "web", WriteKey: "web-key"}))
	require.NoError(t, one.collector.AddDestination(t.Context(), tracking.Destination{
		Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: receiver}}},
	}))
	waitFor(t, func() bool { return len(two.collector.Settings().Destinations) == 1 })
	require.NoError(t, two.collector.ChangeDestination(t.Context(), "crm", func(d *tracking.Destination) error {
		d.MaxPerSecond, d.Concurrency = 50, 2
		d.Types.Allow, d.Events.Deny = []string{"track"}, []string{"Test*"}
		return nil
	}))
	waitFor(t, func() bool { return len(one.collector.Settings().Destinations[0].Events.Deny) == 1 })
	require.NoError(t, two.collector.Pause(t.Context(), "crm"))
	paused := func(s *Service) func() bool {
		return func() bool {
			return slices.ContainsFunc(s.collector.Status(), func(d engine.DestinationStatus) bool { return d.Paused })
		}
	}
	waitFor(t, paused(one))
	require.True(t, send(two.URL(), "web-key", "m", 3))
	require.NoError(t, one.collector.Resume(t.Context(), "crm"))
	waitFor(t, func() bool { return got.Load() == 3 })
	for _, s := range []*Service{one, two} {
		waitLedgers(t, s, func(ledgers []tracking.Ledger) bool { return len(ledgers) == 1 && ledgers[0].Delivered == 3 })
	}

	third := replica()
	assert.Len(t, third.collector.Settings().Destinations, 1, "one that comes later knows it too")
	require.NoError(t, two.collector.RemoveDestination(t.Context(), "crm", true))
	for _, s := range []*Service{one, third} {
		waitFor(t, func() bool { return len(s.collector.Settings().Destinations) == 0 })
		waitLedgers(t, s, func(ledgers []tracking.Ledger) bool { return len(ledgers) == 0 })
	}
}

// TestReplicasShareGoneDestinations checks that a destination that responded with 410 is stopped
// on all collectors, until one collector resumes it.
func TestReplicasShareGoneDestinations(t *testing.T) {
	url := startNATS(t)
	var gone atomic.Bool
	gone.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(receiver.Close)
	replica := func() *Service {
		return start(t, Options{Config: &config.Config{
			Listen: "127.0.0.1:0", NATS: &config.NATS{NATS: jetstream.NATS{URL: url, Replicas: 1, AcceptLazySync: true}}, Egress: config.Egress{Allow: loopback()},
			Sources:      []config.Source{{Name: "web", WriteKey: "web-key"}},
			Destinations: []config.Destination{hook("crm", receiver.URL)},
		}})
	}
	one, two := replica(), replica()
	require.True(t, send(one.URL(), "web-key", "m", 3))
	for _, s := range []*Service{one, two} {
		waitFor(t, func() bool { return s.collector.Status()[0].State == engine.DestinationGone })
		waitLedgers(t, s, func(ledgers []tracking.Ledger) bool { return ledgers[0].Failed == 3 })
	}
	gone.Store(false)
	require.NoError(t, two.collector.Resume(t.Context(), "crm"))
	waitFor(t, func() bool { return one.collector.Status()[0].State != engine.DestinationGone })
	require.True(t, send(one.URL(), "web-key", "n", 2))
	waitLedgers(t, two, func(ledgers []tracking.Ledger) bool { return ledgers[0].Delivered == 2 })
}

// TestDestinationSurvivesRemovalOnAnotherCollector checks that a collector keeps a destination
// that another collector removed.
func TestDestinationSurvivesRemovalOnAnotherCollector(t *testing.T) {
	url := startNATS(t)
	receiver, got := countingReceiver(t)
	both := func() *config.Config {
		return &config.Config{
			Listen: "127.0.0.1:0", NATS: &config.NATS{NATS: jetstream.NATS{URL: url, Replicas: 1, AcceptLazySync: true}}, Egress: config.Egress{Allow: loopback()},
			Sources:      []config.Source{{Name: "web", WriteKey: "web-key"}},
			Destinations: []config.Destination{hook("crm", receiver)},
		}
	}
	one, two := start(t, Options{Config: both()}), start(t, Options{Config: both()})
	require.True(t, send(one.URL(), "web-key", "before", 3))
	waitFor(t, func() bool { return got.Load() == 3 })

	without := both()
	without.Destinations = nil
	_, err := one.Reload(t.Context(), without)
	require.NoError(t, err)
	waitLedgers(t, one, func(ledgers []tracking.Ledger) bool {
		return len(ledgers) == 1 && ledgers[0].Accepted == 0 // the second collector has attached the destination again
	})
	require.True(t, send(one.URL(), "web-key", "after", 3))
	waitFor(t, func() bool { return got.Load() == 6 })

	_, err = two.Reload(t.Context(), without)
	require.NoError(t, err)
	ledgers := ledgersOf(t, two)
	assert.Empty(t, ledgers)
}
