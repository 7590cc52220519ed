package analytics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// endedContext returns a context that is done.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// shortContext returns a context with a short timeout.
func shortContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// segments returns the segment files in a directory.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.calls"))
	require.NoError(t, err)
	return files
}

// newDownCollector returns a collector that refuses connections.
func newDownCollector() *collector {
	return always(answer{err: errRefusedConn})
}

// newSwitchedCollector returns a collector that accepts calls while on is true. Otherwise it refuses
// connections.
func newSwitchedCollector(on *atomic.Bool) *collector {
	return &collector{decide: func(int, post) answer {
		if on.Load() {
			return answer{}
		}
		return answer{err: errRefusedConn}
	}}
}

func TestSpoolKeepsCallsAfterClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "as needed")
	first := newClient(t, newDownCollector(), analytics.Config{Spool: dir, FlushAt: 7})
	track(t, first, "left", 100)
	err := first.Shutdown(endedContext())
	var undelivered *analytics.UndeliveredError
	require.ErrorAs(t, err, &undelivered)
	require.Equal(t, int64(100), undelivered.Pending)
	require.Zero(t, undelivered.Dropped.Total())
	requireSum(t, first.Stats())
	require.Equal(t, int64(100), first.Stats().Pending)

	up := &collector{}
	second := newClient(t, up, analytics.Config{Spool: dir, FlushAt: 7})
	track(t, second, "new", 10)
	require.NoError(t, second.Flush(shortContext(t)))
	s := second.Stats()
	requireSum(t, s)
	require.Equal(t, int64(110), s.Delivered)
	require.Equal(t, int64(110), s.Accepted)
	require.Equal(t, int64(100), s.Recovered)
	require.NoError(t, second.Close())
	require.Zero(t, second.Stats().SpoolBytes)
	require.Empty(t, segments(t, dir), "all is delivered")

	require.Len(t, up.taken("event"), 110)
	require.Len(t, up.taken("messageId"), 110)
	for _, p := range up.all() {
		require.NoError(t, p.err)
		require.LessOrEqual(t, len(p.body.Batch), 7)
	}
}

// A call that a later process sends keeps its ID and its timestamp.
func TestSpoolKeepsIdsAndTimes(t *testing.T) {
	dir := t.TempDir()
	var made time.Time
	before := newDownCollector()
	synctest.Test(t, func(t *testing.T) {
		made = time.Now().UTC()
		client := newClient(t, before, analytics.Config{Spool: dir, FlushAt: 1})
		require.NoError(t, client.Track(&analytics.Track{Event: "Song Played", UserId: "u"}))
		require.NoError(t, client.Track(&analytics.Track{
			Event: "Song Played", UserId: "u", Message: analytics.Message{MessageId: "given", Timestamp: "2019-01-02T03:04:05Z"},
		}))
		require.Error(t, client.Shutdown(endedContext()))
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		up := &collector{}
		client := newClient(t, up, analytics.Config{Spool: dir})
		require.NoError(t, client.Flush(shortContext(t)), "a flush is enough to send what there is")
		require.NoError(t, client.Close())
		require.Equal(t, []int{2}, up.sizes())
		body := up.all()[0].body
		require.Equal(t, made.Add(time.Hour).Format("2006-01-02T15:04:05.000Z"), body.SentAt)
		require.Equal(t, made.Format("2006-01-02T15:04:05.000Z"), body.Batch[0]["timestamp"])
		require.Equal(t, "2019-01-02T03:04:05.000Z", body.Batch[1]["timestamp"])
		require.Equal(t, "given", body.Batch[1]["messageId"])
		for id := range before.taken("messageId") {
			require.Contains(t, up.taken("messageId"), id)
		}
	})
}

// Flush also waits for calls that are only on the disk.
func TestSpoolTakesTheOverflow(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		t.Run(fmt.Sprint("Gzip ", gzip), func(t *testing.T) {
			var up atomic.Bool
			c := &collector{decide: func(int, post) answer {
				if up.Load() {
					return answer{}
				}
				return answer{status: 503, delay: time.Millisecond}
			}}
			dir := t.TempDir()
			client := newClient(t, c, analytics.Config{
				Spool: dir, SpoolMaxBytes: 4 << 20, MaxBytes: 128 << 10, FlushAt: 10, MaxInFlight: 1, Gzip: gzip,
			})
			const calls = 2000
			for i := range calls {
				require.NoError(t, client.Track(&analytics.Track{
					Event: "e", UserId: "u", Properties: map[string]interface{}{"text": fmt.Sprintf("%0100d", i)},
					Message: analytics.Message{MessageId: fmt.Sprint(i)},
				}))
			}
			s := client.Stats()
			require.LessOrEqual(t, s.Bytes, int64(128<<10))
			require.Greater(t, s.SpoolBytes, int64(calls*200))
			require.Equal(t, int64(calls), s.Pending)
			up.Store(true)
			require.NoError(t, client.Flush(shortContext(t)))
			require.NoError(t, client.Close())
			s = client.Stats()
			requireSum(t, s)
			require.Equal(t, int64(calls), s.Delivered)
			require.Zero(t, s.SpoolBytes)
			require.Empty(t, segments(t, dir))
			last := -1
			for _, p := range c.all() {
				require.NoError(t, p.err)
				var i int
				for _, call := range p.body.Batch {
					_, err := fmt.Sscan(call["messageId"].(string), &i)
					require.NoError(t, err)
					require.LessOrEqual(t, i, last+1, "the order is kept")
					last = max(last, i)
				}
			}
			require.Equal(t, calls-1, last)
		})
	}
}

func TestSpoolConcurrentSafe(t *testing.T) {
	dir := t.TempDir()
	c := &collector{decide: when(answer{status: 503}, func(i int, _ post) bool {
		return i%100 == 7
	})}
	var reported atomic.Int64
	client := newClient(t, c, analytics.Config{
		Spool: dir, SpoolMaxBytes: 1 << 20, WhenFull: analytics.Block, MaxBytes: 128 << 10, FlushAt: 13, CloseTimeout: 5 * time.Minute,
		Callback: func(r analytics.Result) { reported.Add(1) },
	})
	const callers, calls = 8, 1000
	var group sync.WaitGroup
	for g := range callers {
		group.Go(func() {
			for i := range calls {
				if err := client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: fmt.Sprint(g, " ", i)}}); err != nil {
					t.Error(err)
				}
				if i%100 == 0 {
					requireSum(t, client.Stats())
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, client.Close())
	s := client.Stats()
	requireSum(t, s)
	require.Equal(t, int64(callers*calls), s.Delivered)
	require.Equal(t, s.Delivered, reported.Load())
	require.Len(t, c.taken("messageId"), callers*calls)
	require.Empty(t, segments(t, dir))
}

// Under Block, a call waits for memory for a short time, while the collector may still accept calls.
func TestSpoolUnderBlock(t *testing.T) {
	const calls = 500
	fill := func(t *testing.T, client *analytics.Client) (took time.Duration) {
		start := time.Now()
		for range calls {
			require.NoError(t, client.Track(&analytics.Track{
				Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 1000)},
			}))
		}
		return time.Since(start)
	}
	config := analytics.Config{WhenFull: analytics.Block, MaxBytes: 128 << 10, FlushAt: 10, MaxInFlight: 1, CloseTimeout: time.Minute}
	t.Run("a collector that takes calls", func(t *testing.T) {
		config.Spool = t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			up := always(answer{delay: 10 * time.Millisecond})
			client := newClient(t, up, config)
			require.Greater(t, fill(t, client), 300*time.Millisecond, "50 batches take 500")
			require.NoError(t, client.Close())
			require.Len(t, up.taken("messageId"), calls)
		})
	})
	t.Run("one that does not", func(t *testing.T) {
		config.Spool = t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			c := always(answer{hang: true})
			client := newClient(t, c, config)
			require.Equal(t, 250*time.Millisecond, fill(t, client), "one call waits")
			require.Equal(t, int64(calls), client.Stats().Pending)
			require.Error(t, client.Shutdown(endedContext()))
		})
	})
	t.Run("a context that ends", func(t *testing.T) {
		config.Spool = t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			c := always(answer{hang: true})
			client := newClient(t, c, config)
			start := time.Now()
			for range calls {
				require.NoError(t, client.Enqueue(endedContext(), &analytics.Track{
					Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 1000)},
				}), "there is room on the disk")
			}
			require.Zero(t, time.Since(start))
			require.Equal(t, int64(calls), client.Stats().Pending)
			require.Error(t, client.Shutdown(endedContext()))
		})
	})
}

// If Close times out, a waiting Flush returns too.
func TestSpoolFlushEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, newDownCollector(), analytics.Config{Spool: t.TempDir()})
		track(t, client, "left", 3)
		flushed := make(chan error, 1)
		go func() { flushed <- client.Flush(context.Background()) }()
		synctest.Wait()
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, client.Close(), &undelivered)
		require.ErrorContains(t, undelivered, "kept in the spool")
		require.Equal(t, int64(3), undelivered.Pending)
		require.ErrorAs(t, <-flushed, &undelivered)
		require.Equal(t, int64(3), undelivered.Pending)
		require.ErrorAs(t, client.Flush(context.Background()), &undelivered)
	})
}

func TestSpoolIsLocked(t *testing.T) {
	dir := t.TempDir()
	first := newClient(t, &collector{}, analytics.Config{Spool: dir})
	track(t, first, "a", 1)
	second := newClient(t, &collector{}, analytics.Config{Spool: dir})
	err := second.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "in use by another client of this process")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("process 7 on web-1 (shop)\n"), 0o600))
	err = second.Flush(context.Background())
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorContains(t, err, "in use by process 7 on web-1 (shop)")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("\x00"+strings.Repeat("x", 1000)), 0o600))
	require.ErrorContains(t, second.Flush(context.Background()), "in use by another process;")
	require.Equal(t, int64(1), second.Stats().Rejected.Spool)
	third := newClient(t, &collector{}, analytics.Config{Spool: dir})
	require.Zero(t, third.Stats())
	require.ErrorContains(t, third.Close(), "in use by", "there may be calls of an earlier process")
	require.NoError(t, first.Close())
	track(t, second, "b", 1)
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
}

func TestSpoolErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	client := newClient(t, &collector{}, analytics.Config{Spool: filepath.Join(file, "dir")})
	err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorIs(t, client.Close(), syscall.ENOTDIR, "there may be calls of an earlier process")

	require.NoError(t, os.Remove(file))
	again := newClient(t, &collector{}, analytics.Config{Spool: filepath.Join(file, "dir")})
	require.NoError(t, again.Track(&analytics.Track{Event: "e", UserId: "u"}), "once it can be made, it is used")
	require.NoError(t, again.Close())
	require.True(t, errors.Is(again.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrClosed))
}
