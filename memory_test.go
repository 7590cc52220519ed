package analytics

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// silent is a transport that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// raceDetector reports whether the tests run under the race detector.
var raceDetector bool

func silentClient(t *testing.T, cfg Config) *Client {
	cfg.HTTPClient = &http.Client{Transport: silent{}}
	cfg.Logger = log.New(io.Discard, "", 0)
	client, err := NewWithConfig("key", cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(t, client.Shutdown(ended))
	})
	return client
}

func TestCallDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	for name, m := range map[string]*Track{"S": smallTrack(), "L": largeTrack()} {
		for _, spool := range []string{"", t.TempDir()} {
			client := silentClient(t, Config{FlushAt: 1 << 20, Spool: spool})
			for range 3 {
				require.NoError(t, client.Track(m))
			}
			// So many fit into one batch, whose buffer is all that grows, and one
			// segment of a spool.
			require.Zero(t, testing.AllocsPerRun(500, func() {
				if err := client.Track(m); err != nil {
					t.Error(err)
				}
			}), "%s %s", name, spool)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if err := client.Track(&Track{UserId: m.UserId, Event: m.Event, Properties: m.Properties}); err != nil {
					t.Error(err)
				}
			}), "the message itself, %s %s", name, spool)
		}
	}
}

// Neither do a value that a call carries, or the integrations of the client, but for the
// list of values, which grows with the batch.
func TestCallWithValueAndDefaultsDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	client := silentClient(t, Config{
		FlushAt: 1 << 20, Integrations: Integrations{}.DisableAll().Enable("Webhooks"),
		Value: func(ctx context.Context) interface{} { return ctx },
	})
	for name, m := range map[string]*Track{"without integrations": smallTrack(), "with some": largeTrack()} {
		require.NoError(t, client.Enqueue(t.Context(), m))
		require.Zero(t, testing.AllocsPerRun(500, func() {
			if err := client.Enqueue(t.Context(), m); err != nil {
				t.Error(err)
			}
		}), name)
	}
}

// A spool allocates for each segment, not for each call.
func TestSpoolAllocatesForSegmentsAlone(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	client, err := NewWithConfig("key", Config{
		FlushAt: 100, WhenFull: Block, Spool: t.TempDir(), HTTPClient: &http.Client{Transport: taker{}},
	})
	require.NoError(t, err)
	m := largeTrack()
	const calls = 20_000 // a dozen segments
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		require.NoError(t, client.Track(m))
	}
	require.NoError(t, client.Close())
	runtime.ReadMemStats(&after)
	each := float64(after.Mallocs-before.Mallocs) / calls
	t.Logf("%.3f allocations a call", each)
	require.Less(t, each, 1.0, "of which requests, of 100 calls each, take about 40")
}

// With the collector down, memory stays within the budget and what Config adds.
func TestMemoryStaysWithinTheBudget(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	const budget = 4 << 20
	for _, cfg := range []Config{
		{},
		{FlushAt: 1},
		{FlushAt: 10_000},
		{Gzip: true},
		{FlushAt: 10_000, Gzip: true, WhenFull: DropOldest},
		{WhenFull: DropOldest, Callback: func(Result) {}},
	} {
		cfg.MaxBytes = budget
		t.Run(fmt.Sprintf("FlushAt %d, Gzip %v, WhenFull %d", cfg.FlushAt, cfg.Gzip, cfg.WhenFull), func(t *testing.T) {
			before := heap()
			client := silentClient(t, cfg)
			rnd := rand.New(rand.NewPCG(3, 4))
			m := largeTrack()
			full := 0
			for full < 100 && client.Stats().Accepted < 15_000 {
				m.Properties["revenue"] = rnd.Float64()
				if client.Track(m) != nil {
					full++
				}
			}
			used := heap() - before
			s := client.Stats()
			require.LessOrEqual(t, s.Bytes, int64(budget))
			require.Equal(t, s.Accepted, s.Delivered+s.Dropped.Total()+s.Pending)
			bound := int64(budget + (defaultMaxInFlight+2)*MaxBatchBytes + 2<<20)
			require.LessOrEqual(t, used, bound)
			if full > 0 {
				require.Greater(t, used, int64(budget/3), "the budget counts what is not there")
			}
		})
	}
}

// A client that is full takes its budget and a third: what waits is not on the heap, which
// the garbage collector lets grow to twice of what is in use.
func TestFullClientTakesItsBudgetAndAThird(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	const budget = 64 << 20
	for _, c := range []struct {
		name string
		call *Track
		cfg  Config
	}{
		{"L in batches of 20", largeTrack(), Config{FlushAt: 20}},
		{"L in batches of 640", largeTrack(), Config{FlushAt: 640}},
		{"S in batches of 100", smallTrack(), Config{FlushAt: 100}},
		{"S in batches of 20, compressed", smallTrack(), Config{FlushAt: 20, Gzip: true, MaxBytes: budget / 4}},
		{"L in batches of 20, of which the oldest are dropped", largeTrack(), Config{FlushAt: 20, WhenFull: DropOldest}},
	} {
		c.cfg.MaxBytes = orDefault(c.cfg.MaxBytes, budget)
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			client := silentClient(t, c.cfg)
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for full := 0; full < 100 && client.Stats().Dropped.Overflow < 20_000; {
						if client.Track(c.call) != nil {
							full++
						}
					}
				})
			}
			callers.Wait()
			s := client.Stats()
			require.LessOrEqual(t, s.Bytes, c.cfg.MaxBytes)
			require.Greater(t, s.Bytes, c.cfg.MaxBytes*7/8)
			p := client.running.Load()
			onHeap := heap() - before
			p.mu.Lock()
			outside := p.outbox.parked() + p.outbox.idle()
			p.mu.Unlock()
			t.Logf("%.1f MB on the heap, %.1f MB outside", float64(onHeap)/1e6, float64(outside)/1e6)
			require.LessOrEqual(t, outside+2*onHeap, c.cfg.MaxBytes+budget/3-10<<20, "a process takes 10 MB without")
		})
	}
}

// What waits outside of the heap comes back as it was, in its order.
func TestParkedBatchesAreDelivered(t *testing.T) {
	for _, cfg := range []Config{
		{FlushAt: 20},
		{FlushAt: 640},
		{FlushAt: 100, Gzip: true},
		{FlushAt: 100, Spool: t.TempDir()},
		{FlushAt: 20, WhenFull: DropOldest},
	} {
		t.Run(fmt.Sprintf("FlushAt %d, Gzip %v, WhenFull %v, spool %v", cfg.FlushAt, cfg.Gzip, cfg.WhenFull, cfg.Spool != ""), func(t *testing.T) {
			shut := &gated{open: make(chan struct{})}
			cfg.HTTPClient, cfg.MaxBytes, cfg.MaxInFlight = &http.Client{Transport: shut}, 12<<20, 1
			client, err := NewWithConfig("key", cfg)
			require.NoError(t, err)
			m := &Track{UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 2_000)}}
			rnd := rand.New(rand.NewPCG(5, 6))
			parked := func() int64 {
				p := client.running.Load()
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.outbox.parked()
			}
			made := 0
			for made == 0 || parked() < 4<<20 && client.Stats().Dropped.Total() < 1_000 {
				if cfg.Gzip { // or it becomes too small
					m.Properties["text"] = randomText(rnd, 2_000)
				}
				m.Event = fmt.Sprintf("event-%06d", made)
				require.NoError(t, client.Track(m))
				made++
			}
			close(shut.open)
			require.NoError(t, client.Flush(t.Context()))
			s := client.Stats()
			require.EqualValues(t, made, s.Delivered+s.Dropped.Overflow)
			require.Len(t, shut.events, int(s.Delivered))
			require.True(t, slices.IsSorted(shut.events))
			require.NoError(t, client.Close())
			p := client.running.Load()
			require.Zero(t, p.budget.used)
			require.Zero(t, p.outbox.idle()+p.outbox.parked(), "memory that no garbage collector takes back")
		})
	}
}

// randomText makes a text that does not become shorter by compression than by a half.
func randomText(rnd *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(rnd.Uint32()%26)
	}
	return string(text)
}

// gated is a transport that takes the events of batches once it is open.
type gated struct {
	open   chan struct{}
	events []string
}

var eventName = regexp.MustCompile(`event-\d{6}`)

func (g *gated) RoundTrip(r *http.Request) (*http.Response, error) {
	<-g.open
	src := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		src = z
	}
	text, err := io.ReadAll(src)
	if err != nil {
		return nil, err
	}
	g.events = append(g.events, eventName.FindAllString(string(text), -1)...)
	return taker{}.RoundTrip(r)
}

// Memory that the runtime adds by rounding up is counted: up to a fifth at these sizes.
func TestMemoryIsCountedAsItIsAllocated(t *testing.T) {
	const budget = 16 << 20
	for _, size := range []int{4_500, 30_000} {
		before := heap()
		client := silentClient(t, Config{FlushAt: 1, MaxBytes: budget})
		m := &Track{UserId: "u", Event: "e", Properties: map[string]interface{}{"text": strings.Repeat("x", size)}}
		for client.Track(m) == nil {
		}
		require.LessOrEqual(t, heap()-before, int64(budget+budget/20), "calls of %d bytes", size)
	}
}

// refusing is a transport that refuses every batch with a long text.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	text := io.NopCloser(strings.NewReader(strings.Repeat("\x01", maxQuoted)))
	return &http.Response{StatusCode: http.StatusForbidden, Body: text, Request: r}, nil
}

// Results that a callback has not taken are counted with their errors.
func TestErrorsNotTakenAreCounted(t *testing.T) {
	const budget = 4 << 20
	release := make(chan struct{})
	before := heap()
	client, err := NewWithConfig("key", Config{
		FlushAt: 1, MaxBytes: budget, HTTPClient: &http.Client{Transport: refusing{}}, Logger: log.New(io.Discard, "", 0),
		Callback: func(Result) { <-release }, CloseTimeout: 5 * time.Minute, // some 15,000 results are passed on
	})
	require.NoError(t, err)
	for client.Stats().Rejected.QueueFull == 0 {
		_ = client.Track(&Track{UserId: "u", Event: "e"})
	}
	require.Error(t, client.Flush(t.Context()))
	require.LessOrEqual(t, heap()-before, int64(budget+budget/10))
	close(release)
	require.NoError(t, client.Close())
	require.Zero(t, client.Stats().Bytes)
}

// The id of a result does not keep a larger string in memory that it is a part of.
func TestResultCopiesTheMessageID(t *testing.T) {
	large := strings.Repeat("m", 1<<20)
	k := call{Message: Message{MessageId: large[:36]}}
	id := k.id(nil)
	require.Equal(t, k.MessageId, id)
	require.NotSame(t, unsafe.StringData(large), unsafe.StringData(id))
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
