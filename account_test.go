package analytics_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// For random configurations, failures and calls, the test checks that each call is accounted for, that
// no call blocks forever, and that concurrent calls of Close return in time. The seed determines
// everything except the scheduling of goroutines. ACCOUNT_SEEDS sets the number of seeds.
func TestAccountHoldsUnderFailures(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 3
	}
	if n, err := strconv.Atoi(os.Getenv("ACCOUNT_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { // synctest fails the test if a goroutine remains
				testAccount(t, &dice{rnd: rand.New(rand.NewPCG(uint64(seed), 11))}, dir)
			})
		})
	}
}

// dice is a random source that is safe for concurrent use.
type dice struct {
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

func (d *dice) roll(sides int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(sides)
}

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rnd.Int64N(int64(most) + 1))
}

// pick returns one of its arguments at random.
func pick[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

func testAccount(t *testing.T, d *dice, dir string) {
	const makers, each = 8, 150
	cfg := randomConfig(d, dir)
	t.Logf("%+v", cfg)
	var reported results
	if d.roll(2) == 0 {
		cfg.Callback = reported.take(pick(d, 0, 0, time.Millisecond))
	}
	flaky := newFlakyCollector(d)
	c := &collector{decide: func(i int, p post) answer {
		if n := len(p.body.Batch); cfg.Value != nil && p.values != n || cfg.Value == nil && p.values != 0 {
			t.Errorf("a batch of %d calls has %d values", n, p.values)
		}
		return flaky(i, p)
	}}
	client := newClient(t, c, cfg)
	var wg sync.WaitGroup
	for range makers {
		wg.Go(func() { makeCalls(t, d, client, each) })
	}
	if d.roll(2) == 0 {
		time.Sleep(d.upTo(5 * time.Second)) // the callers continue during Close
	} else {
		wg.Wait()
	}
	start := time.Now()
	var err, again error
	var closing sync.WaitGroup
	closing.Go(func() { err = client.Close() })
	closing.Go(func() { again = client.Close() })
	closing.Wait()
	require.Equal(t, err, again)
	require.LessOrEqual(t, time.Since(start), cfg.CloseTimeout+3*time.Second)
	wg.Wait()

	s := client.Stats()
	requireSum(t, s)
	require.Zero(t, s.Bytes)
	require.EqualValues(t, makers*each, s.Accepted+s.Rejected.Total())
	if cfg.Spool == "" {
		require.Zero(t, s.Pending)
	} else if require.GreaterOrEqual(t, s.Pending, int64(0)); s.Pending > 0 {
		require.Error(t, err)
	}
	if cfg.Callback != nil {
		require.EqualValues(t, s.Delivered+s.Dropped.Total(), reported.calls)
		require.Equal(t, reported.calls, len(reported.ids), "a call was reported twice")
	}
	require.GreaterOrEqual(t, int64(len(c.taken("messageId"))), s.Delivered)
}

func randomConfig(d *dice, dir string) analytics.Config {
	cfg := analytics.Config{
		FlushAt:      pick(d, 1, 2, 20, 1000),
		FlushAfter:   time.Millisecond + d.upTo(5*time.Second),
		MaxInFlight:  pick(d, 1, 2, 4),
		MaxAttempts:  pick(d, 1, 3, 10),
		MaxBytes:     pick[int64](d, 128<<10, 200<<10, 1<<20),
		WhenFull:     pick(d, analytics.Reject, analytics.Block, analytics.DropOldest),
		Gzip:         d.roll(2) == 0,
		CloseTimeout: pick(d, time.Second, time.Minute, 100*time.Hour),
		Logger:       new(lines).logger(),
		Verbose:      d.roll(2) == 0,
	}
	if d.roll(2) == 0 {
		cfg.Slog = new(records).logger(slog.LevelDebug)
	}
	if d.roll(2) == 0 {
		cfg.Value = func(ctx context.Context) interface{} { return ctx }
	}
	if d.roll(2) == 0 {
		cfg.Integrations = analytics.Integrations{}.DisableAll()
	}
	if d.roll(4) == 0 {
		cfg.Spool, cfg.SpoolMaxBytes = dir, 1<<20
	}
	return cfg
}

// newFlakyCollector returns a collector that fails at random, at a rate that depends on the seed.
func newFlakyCollector(d *dice) func(int, post) answer {
	good := d.roll(4)
	return func(int, post) answer {
		if d.roll(4) < good {
			return answer{delay: d.upTo(time.Second)}
		}
		return pick(d, answer{}, answer{status: 302}, answer{status: 400}, answer{status: 413}, answer{status: 500}, answer{hang: true},
			answer{err: errRefusedConn}, answer{status: 429, header: http.Header{"Retry-After": {"1"}}})
	}
}

// makeCalls makes n calls of up to 30 KB, with pauses and flushes. Some calls exceed the memory
// limit.
func makeCalls(t *testing.T, d *dice, client *analytics.Client, n int) {
	within := func(most time.Duration, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), d.upTo(most))
		defer cancel()
		_ = do(ctx)
	}
	m := &analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"list": []interface{}{1}}}
	for i := range n { // the loop reuses one message
		m.Properties["pad"] = strings.Repeat("x", d.roll(pick(d, 1, 1, 1, 3000, 30_000)))
		m.Properties["list"].([]interface{})[0] = i
		within(20*time.Second, func(ctx context.Context) error { return client.Enqueue(ctx, m) })
		switch d.roll(100) {
		case 0:
			within(2*time.Second, client.Flush)
		case 1, 2, 3, 4, 5:
			time.Sleep(d.upTo(400 * time.Millisecond))
		}
		if s := client.Stats(); s.Accepted != s.Delivered+s.Dropped.Total()+s.Pending || s.Pending < 0 || s.Bytes < 0 {
			t.Errorf("the sum does not hold: %+v", s)
		}
	}
}

// results records the results that a callback receives.
type results struct {
	calls int
	ids   map[string]bool
}

func (r *results) take(pause time.Duration) func(analytics.Result) {
	r.ids = map[string]bool{}
	return func(one analytics.Result) {
		r.calls++
		r.ids[one.MessageId] = true
		time.Sleep(pause)
	}
}
