package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "write the golden files")

// A fakeCollector has a configurable status and records alerts.
type fakeCollector struct {
	mu       sync.Mutex // guards the fields below
	statuses []engine.DestinationStatus
	health   journal.Health
	err      error
	answer   webhook.Attempt
	takes    time.Duration // duration of a request
	sent     []sender.Request
	at       []time.Time
}

func (f *fakeCollector) Status() []engine.DestinationStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]engine.DestinationStatus(nil), f.statuses...)
}

func (f *fakeCollector) Health(context.Context) (journal.Health, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health, f.err
}

func (f *fakeCollector) Send(ctx context.Context, r sender.Request) webhook.Attempt {
	f.mu.Lock()
	f.sent, f.at = append(f.sent, r), append(f.at, time.Now())
	answer, takes := f.answer, f.takes
	f.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return answer
}

func (f *fakeCollector) set(change func(*fakeCollector)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// take returns and removes the recorded alerts.
func (f *fakeCollector) take() []sender.Request {
	sent, _ := f.takeTimes()
	return sent
}

// takeTimes is like take, and also returns the time of each alert.
func (f *fakeCollector) takeTimes() (sent []sender.Request, at []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent, at = f.sent, f.at
	f.sent, f.at = nil, nil
	return sent, at
}

// A world is an Alerter with a fake collector.
type world struct {
	*Alerter
	*fakeCollector
	counts map[string]int
}

// newWorld starts an Alerter, which must be closed before the synctest bubble ends.
func newWorld(config *Config) *world {
	w := &world{fakeCollector: &fakeCollector{answer: webhook.Attempt{Verdict: webhook.Success}}, counts: map[string]int{}}
	w.Alerter = New("host-1", slog.New(slog.DiscardHandler), func(kind, result string) { w.counts[kind+" "+result]++ })
	w.Configure(config)
	w.Start(w.fakeCollector)
	synctest.Wait()
	return w
}

func config() *Config {
	return &Config{Webhook: "https://h/alerts", Headers: map[string]string{"X-Team": "ops"}, SharedSecret: "hush"}
}

func status(down bool) []engine.DestinationStatus {
	return []engine.DestinationStatus{{Destination: "crm", State: engine.DestinationDown, Status: delivery.Status{Down: down}}}
}

func ended(state tracking.State, reason string) tracking.Ended {
	call := &tracking.Call{ID: "0192f0f4", Type: "track", Event: "Order Completed"}
	return tracking.Ended{Destination: "crm", CallID: call.ID, Call: call, Attempt: 1, Outcome: tracking.Outcome{State: state, Reason: reason}}
}

// run advances the time and waits for all goroutines to block.
func run(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// golden compares a request with testdata/NAME.
func golden(t *testing.T, name string, r sender.Request) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, append(r.Body, '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(r.Body)+"\n", "run go test with -update if that is right, and read what changed")
}

// TestAlertFormats checks that each kind of alert is raised and recovers, in both formats.
func TestAlertFormats(t *testing.T) {
	for _, c := range []struct {
		name      string
		make, end func(w *world)
	}{
		{
			"destination",
			func(w *world) {
				w.Observe(ended(tracking.StatePending, "https://crm.example/secret?key=1: responded with 500 <busy> & \u2028"))
				w.set(func(f *fakeCollector) { f.statuses = status(true) })
			},
			func(w *world) { w.set(func(f *fakeCollector) { f.statuses = status(false) }) },
		},
		{
			"destination-paused",
			func(w *world) { w.set(func(f *fakeCollector) { f.statuses = status(true) }) },
			func(w *world) { w.set(func(f *fakeCollector) { f.statuses[0].Paused = true }) },
		},
		{
			"destination-gone",
			func(w *world) {
				w.set(func(f *fakeCollector) { f.statuses = status(false); f.statuses[0].GoneSince = time.Now() })
			},
			func(w *world) { w.set(func(f *fakeCollector) { f.statuses = nil }) },
		},
		{
			"given-up",
			func(w *world) {
				for range 1234 {
					w.Observe(ended(tracking.StateFailed, "https://crm.example/hook: responded with 400 Bad Request"))
				}
			},
			func(*world) {},
		},
		{
			"queue",
			func(w *world) {
				w.set(func(f *fakeCollector) { f.health = journal.Health{Bytes: 7e9, LimitBytes: 8 << 30} })
			},
			func(w *world) { w.set(func(f *fakeCollector) { f.health.Bytes = 4e9 }) },
		},
		{
			"storage",
			func(w *world) {
				w.set(func(f *fakeCollector) {
					f.err = fmt.Errorf("journal: calls are refused until the disk has room: %w", syscall.ENOSPC)
				})
			},
			func(w *world) { w.set(func(f *fakeCollector) { f.err = nil }) },
		},
		{
			"replicas",
			func(w *world) {
				w.set(func(f *fakeCollector) {
					f.health.Replicas = []journal.Replica{{Stream: "analytics-CALLS", Server: "b", State: journal.ReplicaOffline}, {Stream: "analytics-STATE", Server: "b", State: journal.ReplicaOffline}}
				})
			},
			func(w *world) { w.set(func(f *fakeCollector) { f.health.Replicas = nil }) },
		},
	} {
		for _, format := range []string{"json", "slack"} {
			t.Run(c.name+" "+format, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					to := config()
					to.Format = format
					w := newWorld(to)
					defer w.Close()
					c.make(w)
					run(DefaultAfter + 2*checkInterval)
					sent := w.take()
					if c.name == "given-up" { // this alert recovers when no further calls fail
						require.Len(t, sent, 2)
						golden(t, c.name+"-raised."+format, sent[0])
						golden(t, c.name+"-recovered."+format, sent[1])
						return
					}
					require.Len(t, sent, 1)
					golden(t, c.name+"-raised."+format, sent[0])
					c.end(w)
					run(2 * time.Minute)
					sent = w.take()
					require.Len(t, sent, 1)
					golden(t, c.name+"-recovered."+format, sent[0])
				})
			})
		}
	}
}

func TestAlertsAreSignedLikeDeliveries(t *testing.T) {
	for _, signature := range []webhook.Signature{webhook.SignatureService, webhook.SignatureStandard, webhook.SignatureBoth} {
		synctest.Test(t, func(t *testing.T) {
			to := config()
			to.Signature = signature
			w := newWorld(to)
			defer w.Close()
			w.Observe(ended(tracking.StateFailed, "responded with 400"))
			run(checkInterval)
			sent := w.take()
			require.Len(t, sent, 1)
			r := sent[0]
			assert.Equal(t, to.Settings().Webhooks[0], r.Endpoint)
			assert.Equal(t, 1, r.Number)
			if signature != webhook.SignatureStandard {
				assert.NoError(t, webhook.Verify("hush", r.Body, r.Signature))
			}
			if signature != webhook.SignatureService {
				want, err := webhook.SignStandard("hush", r.MessageID, r.SignedAt, r.Body)
				require.NoError(t, err)
				assert.Equal(t, want, r.Standard)
			}
		})
	}
}

// TestOneAlertPerMinute checks that at most one alert per minute reports failed calls, and that
// each call is in exactly one alert.
func TestOneAlertPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		defer w.Close()
		for range 600 {
			w.Observe(ended(tracking.StateFailed, "responded with 400"))
			run(time.Second)
		}
		run(10 * time.Minute)
		sent, at := w.takeTimes()
		var calls int64
		for _, r := range sent {
			var a alert
			require.NoError(t, json.Unmarshal(r.Body, &a))
			calls += a.Calls
		}
		assert.EqualValues(t, 600, calls)
		for i := range at[1:] {
			assert.GreaterOrEqual(t, at[i+1].Sub(at[i]), every)
		}
		assert.GreaterOrEqual(t, len(at), 9)
	})
}

// TestFailedAlertsAreRetried checks that a failing webhook receives the same alert with the same
// ID after increasing delays, and does not block other work.
func TestFailedAlertsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		defer w.Close()
		w.set(func(f *fakeCollector) {
			f.answer = webhook.Attempt{Verdict: webhook.Temporary, Error: "responded with 500"}
			f.takes = 5 * time.Second
		})
		w.Observe(ended(tracking.StateFailed, "responded with 400"))
		run(4 * time.Minute)
		sent, at := w.takeTimes()
		require.GreaterOrEqual(t, len(sent), 6)
		assert.Less(t, len(sent), 10)
		for i := range sent {
			assert.Equal(t, sent[0].MessageID, sent[i].MessageID)
			assert.Equal(t, sent[0].Body, sent[i].Body)
			assert.Equal(t, i+1, sent[i].Number)
			if i > 0 {
				assert.GreaterOrEqual(t, at[i].Sub(at[i-1]), checkInterval)
				assert.LessOrEqual(t, at[i].Sub(at[i-1]), maxBackoff+5*time.Second+2*checkInterval)
			}
		}
		w.set(func(f *fakeCollector) { f.answer = webhook.Attempt{Verdict: webhook.Success} })
		run(3 * time.Minute)
		assert.Len(t, w.take(), 2, "what it had not received, and that it is over")
		w.Close()
		assert.Equal(t, 2, w.counts["given_up sent"])
		assert.Equal(t, len(sent), w.counts["given_up failed"])
	})
}

func TestRetryAfterOfAnAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		defer w.Close()
		w.set(func(f *fakeCollector) {
			f.answer = webhook.Attempt{Verdict: webhook.Temporary, Status: 429, RetryAfter: 3 * time.Minute}
		})
		w.Observe(ended(tracking.StateFailed, "responded with 400"))
		run(2*time.Minute + 50*time.Second)
		assert.Len(t, w.take(), 1)
		run(20 * time.Second)
		assert.Len(t, w.take(), 1)
	})
}

func TestNoAlertsWithoutAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Close()
		w.Observe(ended(tracking.StateFailed, "responded with 400"))
		w.set(func(f *fakeCollector) { f.statuses = status(true) })
		run(time.Hour)
		assert.Empty(t, w.take())
		w.Configure(config())
		run(DefaultAfter + checkInterval)
		assert.Len(t, w.take(), 1)
		w.Configure(nil)
		w.set(func(f *fakeCollector) { f.statuses = status(false) })
		run(time.Hour)
		assert.Empty(t, w.take())
	})
}

func TestNewWebhookReceivesCurrentAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		defer w.Close()
		w.set(func(f *fakeCollector) { f.statuses = status(true) })
		run(DefaultAfter + 2*checkInterval)
		require.Len(t, w.take(), 1)
		same := config()
		same.SharedSecret = "other"
		w.Configure(same)
		run(time.Hour)
		assert.Empty(t, w.take(), "it knows")
		other := config()
		other.Webhook = "https://other/"
		w.Configure(other)
		synctest.Wait()
		sent := w.take()
		require.Len(t, sent, 1)
		assert.Equal(t, "https://other/", sent[0].Endpoint.URL)
	})
}

// TestWebhookChangesDuringARequest changes the webhook during a request. The previous webhook
// must receive nothing more, and the new webhook must receive all alerts.
func TestWebhookChangesDuringARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		defer w.Close()
		w.set(func(f *fakeCollector) { f.takes = checkInterval / 2 })
		w.Observe(ended(tracking.StateFailed, "responded with 400"))
		of := ended(tracking.StateFailed, "responded with 400")
		of.Destination = "mail"
		w.Observe(of)
		run(checkInterval + checkInterval/4)
		other := config()
		other.Webhook = "https://other/"
		w.Configure(other)
		run(10 * time.Second)
		var urls []string
		for _, r := range w.take() {
			urls = append(urls, r.Endpoint.URL)
		}
		assert.Equal(t, []string{"https://h/alerts", "https://other/", "https://other/"}, urls)
	})
}

func TestCloseCancelsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(config())
		w.set(func(f *fakeCollector) { f.takes = time.Hour })
		w.Observe(ended(tracking.StateFailed, "responded with 400"))
		run(checkInterval)
		before := time.Now()
		w.Close()
		assert.Zero(t, time.Since(before))
		assert.Empty(t, w.counts)
	})
}

func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name string
		s    engine.DestinationStatus
		bad  bool
	}{
		{"idle", engine.DestinationStatus{State: engine.DestinationIdle}, false},
		{"delivering", engine.DestinationStatus{State: engine.DestinationDelivering, RecentAttempts: 3, RecentFailures: 1}, false},
		{"failing", engine.DestinationStatus{State: engine.DestinationFailing, RecentAttempts: 2, RecentFailures: 1}, true},
		{"down", engine.DestinationStatus{State: engine.DestinationDown, Status: delivery.Status{Down: true}}, true},
		{"held and down", engine.DestinationStatus{State: engine.DestinationHeld, Status: delivery.Status{Down: true}}, true},
		{"held", engine.DestinationStatus{State: engine.DestinationHeld}, false},
		{"paused and down", engine.DestinationStatus{State: engine.DestinationPaused, Status: delivery.Status{Paused: true, Down: true}}, false},
		{"gone", engine.DestinationStatus{State: engine.DestinationGone, Status: delivery.Status{GoneSince: start}}, true},
		{"disabled and down", engine.DestinationStatus{State: engine.DestinationDisabled, Status: delivery.Status{Down: true}}, false},
	} {
		assert.Equal(t, c.bad, ofDestination(&c.s).bad, c.name)
	}
	for _, c := range []struct {
		bytes, limit int64
		wasNear, bad bool
	}{{79, 100, false, false}, {80, 100, false, true}, {79, 100, true, true}, {74, 100, true, false}, {100, 0, false, false}} {
		assert.Equal(t, c.bad, ofQueue(journal.Health{Bytes: c.bytes, LimitBytes: c.limit}, c.wasNear).bad, "%+v", c)
	}
	for _, c := range []struct {
		err error
		bad bool
	}{{nil, false}, {fmt.Errorf("%w: it holds 3 of 3 bytes", journal.ErrFull), false}, {journal.ErrClosed, false}, {errors.New("the cluster has no leader"), true}} {
		assert.Equal(t, c.bad, ofStorage(c.err).bad, "%v", c.err)
	}
}
