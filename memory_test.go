package analytics

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// silent is a transport that never responds.
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
			// These calls fit into one batch and one segment, so only the batch's buffer can
			// grow.
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

// Config.Value and Config.Integrations do not cause allocations per call. Only the list of values
// grows with the batch.
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

// A client with a spool allocates memory for each segment, not for each call.
func TestSpoolAllocatesPerSegment(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	client, err := NewWithConfig("key", Config{
		FlushAt: 100, WhenFull: Block, Spool: t.TempDir(), HTTPClient: &http.Client{Transport: taker{}},
	})
	require.NoError(t, err)
	m := largeTrack()
	const calls = 20_000 // these calls fill about 12 segments
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

// While the collector is unavailable, memory stays within MaxBytes plus the documented overhead.
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

// The budget includes the memory that the runtime adds when it rounds sizes up, which is up to a
// fifth for these sizes.
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

// refusing is a transport that refuses each batch with a long message.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	text := io.NopCloser(strings.NewReader(strings.Repeat("\x01", wire.MaxRepeated)))
	return &http.Response{StatusCode: http.StatusForbidden, Body: text, Request: r}, nil
}

// The memory budget includes the errors in results that the callback has not received.
func TestErrorsNotTakenAreCounted(t *testing.T) {
	const budget = 4 << 20
	release := make(chan struct{})
	before := heap()
	client, err := NewWithConfig("key", Config{
		FlushAt: 1, MaxBytes: budget, HTTPClient: &http.Client{Transport: refusing{}}, Logger: log.New(io.Discard, "", 0),
		Callback: func(Result) { <-release }, CloseTimeout: 5 * time.Minute, // the callback receives about 15,000 results during Close
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

// The message ID in a result is a copy. Otherwise it would keep the caller's larger string in memory.
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
