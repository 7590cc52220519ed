package jetstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	webhooks "github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestOutage delivers the calls of some users with and without an outage, and logs the duration.
// ORDER_OUTAGE sets the number of users, the number of calls, the seconds of the outage, the
// status of each response during the outage (0 makes connections fail), and the percentage of
// requests that fail afterwards. If it is set, the test also runs on a cluster.
func TestOutage(t *testing.T) {
	t.Parallel()
	users, calls, seconds, status, bad := 20, 500, 1, http.StatusServiceUnavailable, 0
	text := os.Getenv("ORDER_OUTAGE")
	if text != "" {
		_, err := fmt.Sscanf(text, "%d,%d,%d,%d,%d", &users, &calls, &seconds, &status, &bad)
		ok(t, err)
	}
	options := map[string]func(t *testing.T) jetstream.Options{
		"embedded": func(t *testing.T) jetstream.Options { return jetstream.Options{Dir: t.TempDir()} },
	}
	if text != "" {
		options["cluster"] = func(t *testing.T) jetstream.Options {
			return jetstream.Options{NATS: &jetstream.NATS{URL: startCluster(t).url()}}
		}
	}
	for where, options := range options {
		t.Run(where, func(t *testing.T) {
			o := options(t)
			j, err := jetstream.Open(jetstream.Within(t), o)
			ok(t, err)
			defer func() { ok(t, j.Close()) }()
			for _, order := range []tracking.Order{tracking.OrderNone, tracking.OrderUser} {
				for _, down := range []int{0, seconds} {
					deliverAfter(t, j, order, users, calls, time.Duration(down)*time.Second, status, bad)
				}
			}
		})
	}
}

// An outage is a receiver that is down at first.
type outage struct {
	delivery.AliasStore
	calls     int
	status    int
	bad       int // percentage of requests that fail after the outage
	up        atomic.Bool
	failed    atomic.Int64
	delivered atomic.Int64
	last      []atomic.Int64 // last call of each user
	first     chan struct{}  // closed when a call is delivered
	most      chan struct{}  // closed when nine of ten calls are delivered
	all       chan struct{}  // closed when all calls are delivered
	late      atomic.Int64   // number of calls received before an earlier call of the same user
}

func (o *outage) Observe(event.Event) {}

func (o *outage) Load(context.Context) ([][2]event.Key, error) { return nil, nil }

// Send responds after two milliseconds.
func (o *outage) Send(_ context.Context, r webhooks.Request) webhook.Attempt {
	time.Sleep(2 * time.Millisecond)
	if !o.up.Load() {
		o.failed.Add(1)
		return webhook.Attempt{Verdict: webhook.Temporary, Status: o.status, NotConnected: o.status == 0, Error: "down"}
	}
	if rand.IntN(100) < o.bad {
		o.failed.Add(1)
		return webhook.Attempt{Verdict: webhook.Temporary, Status: http.StatusServiceUnavailable, Error: "busy"}
	}
	var user, n int64
	_, _ = fmt.Sscanf(r.MessageID, "%d-%d", &user, &n)
	if o.last[user].Swap(n) > n {
		o.late.Add(1)
	}
	switch o.delivered.Add(1) {
	case 1:
		close(o.first)
	case int64(o.calls * 9 / 10):
		close(o.most)
	case int64(o.calls):
		close(o.all)
	}
	return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
}

func deliverAfter(t *testing.T, j *jetstream.Journal, order tracking.Order, users, calls int, down time.Duration, status, bad int) {
	o := &outage{calls: calls, status: status, bad: bad, last: make([]atomic.Int64, users), first: make(chan struct{}), most: make(chan struct{}), all: make(chan struct{})}
	name := fmt.Sprintf("%s-%v", order, down)
	reader, err := j.Attach(jetstream.Within(t), name, []string{name})
	ok(t, err)
	const each = 10
	for n := 0; n < calls; n += each {
		b := event.Batch{Source: name, ReceivedAt: time.Now()}
		for i := n; i < min(n+each, calls); i++ {
			user := i * 7919 % users
			id := fmt.Sprintf("%d-%d", user, i)
			b.Calls = append(b.Calls, tracking.Call{
				ID: id, Source: name, Type: "track", UserID: fmt.Sprint(user), ReceivedAt: b.ReceivedAt,
				Body: fmt.Appendf(nil, `{"type":"track","event":"E","userId":"%d","messageId":%q,"timestamp":"2026-01-01T00:00:00.000Z"}`, user, id),
			})
		}
		ok(t, j.Append(jetstream.Within(t), b))
	}
	before, err := j.Scheduled(jetstream.Within(t))
	ok(t, err)
	d := tracking.Destination{Name: name}
	d.Webhooks, d.Order = []webhook.Endpoint{{URL: "http://h/"}}, order
	o.up.Store(down == 0)
	w := delivery.NewWorker(d, reader, delivery.WorkerConfig{Sender: o, Observer: o, Aliases: o, Log: slog.New(slog.DiscardHandler), Jitter: rand.Float64, Concurrency: 32})
	w.Start()
	defer w.Stop()
	time.Sleep(down)
	o.up.Store(true)
	began := time.Now()
	patience := time.After(4 * time.Minute)
	var first, most time.Duration
	select {
	case <-o.first:
		first = time.Since(began)
	case <-patience:
	}
	select {
	case <-o.most:
		most = time.Since(began)
		select {
		case <-o.all:
		case <-patience:
		}
	case <-patience:
	}
	took := time.Since(began)
	after, err := j.Scheduled(jetstream.Within(t))
	ok(t, err)
	t.Logf("%d: order %s, %d users, %d calls, down for %v: %d failed, the first call after %.1f s, 90 %% after %.1f s, %d after %.1f s, RETRY grew by %d",
		status, order, users, calls, down, o.failed.Load(), first.Seconds(), most.Seconds(), o.delivered.Load(), took.Seconds(), after-before)
	if order != tracking.OrderUser {
		return
	}
	if o.delivered.Load() < int64(calls) {
		t.Errorf("%d of %d calls were delivered", o.delivered.Load(), calls)
	}
	if o.late.Load() > 0 {
		t.Errorf("%d calls were overtaken", o.late.Load())
	}
	if after-before > uint64(o.failed.Load()) {
		t.Errorf("%d retries were scheduled where %d attempts failed", after-before, o.failed.Load())
	}
}
