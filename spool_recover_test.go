package analytics_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// leaveCalls leaves n undelivered calls in a spool. Their names start with prefix.
func leaveCalls(t *testing.T, dir, prefix string, n int) {
	t.Helper()
	client := newClient(t, newDownCollector(), analytics.Config{Spool: dir})
	track(t, client, prefix, n)
	require.Error(t, client.Shutdown(endedContext()))
	require.Len(t, segments(t, dir), 1)
}

// This test covers the client's reports of corruption. Package spool tests how corrupted segments
// are read.
func TestSpoolSkipsCorruptedRecords(t *testing.T) {
	at := func(t *testing.T, data []byte, text string) int {
		i := bytes.Index(data, []byte(text))
		require.Positive(t, i)
		return i
	}
	for title, c := range map[string]struct {
		damage func(t *testing.T, data []byte) []byte
		lost   []string
		silent []string // calls that are lost without being counted
		log    string
	}{

		"several calls": {
			damage: func(t *testing.T, data []byte) []byte {
				clear(data[at(t, data, "call-002"):at(t, data, "call-006")])
				return data
			},
			lost: []string{"call-002", "call-003", "call-004", "call-005", "call-006"}, log: "lost 5 calls: damaged: ",
		},
		"the last record, which seals it": {
			damage: func(t *testing.T, data []byte) []byte { data[len(data)-3]++; return data },
			log:    "no call is known to be lost",
		},
		"torn": {
			damage: func(t *testing.T, data []byte) []byte { return data[:at(t, data, "call-009")] },
			silent: []string{"call-009"}, log: "no call is known to be lost",
		},

		"nothing left": {
			damage: func(t *testing.T, data []byte) []byte { return nil },
			silent: []string{"call-000", "call-001", "call-002", "call-003", "call-004", "call-005", "call-006", "call-007", "call-008", "call-009"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			leaveCalls(t, dir, "call", 10)
			file := segments(t, dir)[0]
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, c.damage(t, data), 0o600))

			var log lines
			up := &collector{}
			client := newClient(t, up, analytics.Config{Spool: dir, Logger: log.logger()})
			err = client.Flush(shortContext(t))
			s := client.Stats()
			requireSum(t, s)
			require.Equal(t, int64(10-len(c.silent)), s.Accepted)
			require.Equal(t, s.Accepted, s.Recovered)
			require.Equal(t, int64(len(c.lost)), s.Dropped.Damaged)
			require.Zero(t, s.Pending)
			require.Equal(t, len(c.lost) > 0, err != nil)
			got := up.taken("event")
			for i := range 10 {
				call := name("call", i)
				if lost := slices.Contains(c.lost, call) || slices.Contains(c.silent, call); lost {
					require.NotContains(t, got, call)
				} else {
					require.Equal(t, 1, got[call], call)
				}
			}
			_ = client.Close()
			require.Contains(t, log.String(), c.log)
			if c.log != "" {
				require.Contains(t, log.String(), file, "where it is")
			} else {
				require.Empty(t, log.String())
			}
			require.Empty(t, segments(t, dir))
		})
	}
}

// Delivered calls are not sent again, even if their segment still exists.
func TestSpoolDoesNotRepeatDeliveredCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		taking := &collector{decide: when(answer{status: 503}, func(i int, p post) bool {
			return strings.HasPrefix(p.body.Batch[0]["event"].(string), "stays")
		})}
		first := newClient(t, taking, analytics.Config{Spool: dir, FlushAt: 5})
		track(t, first, "goes", 10)
		track(t, first, "stays", 5)
		track(t, first, "goes-too", 5)
		time.Sleep(time.Second)
		require.Equal(t, int64(15), first.Stats().Delivered)
		copied := t.TempDir() // a copy of the directory, in the same state as after a kill
		require.NoError(t, os.CopyFS(filepath.Join(copied, "of the living"), os.DirFS(dir)))
		require.Error(t, first.Shutdown(endedContext()))
		for _, dir := range []string{dir, filepath.Join(copied, "of the living")} {
			up := &collector{}
			second := newClient(t, up, analytics.Config{Spool: dir})
			require.NoError(t, second.Flush(shortContext(t)))
			require.NoError(t, second.Close())
			require.Equal(t, int64(5), second.Stats().Recovered)
			require.Equal(t, []int{5}, up.sizes())
			require.Equal(t, 1, up.taken("event")["stays-000"])
		}
	})
}

func TestSpoolOfAnotherSource(t *testing.T) {
	dir := t.TempDir()
	leaveCalls(t, dir, "theirs", 3)
	up := &collector{}
	var log lines
	other, err := analytics.NewWithConfig("another-write-key", analytics.Config{
		Spool: dir, HTTPClient: &http.Client{Transport: up}, Logger: log.logger(),
	})
	require.NoError(t, err)
	track(t, other, "ours", 2)
	require.NoError(t, other.Close())
	require.Equal(t, map[string]int{"ours-000": 1, "ours-001": 1}, up.taken("event"))
	require.Contains(t, log.String(), "1 files of another write key")
	require.Len(t, segments(t, dir), 1)

	again := newClient(t, up, analytics.Config{Spool: dir})
	require.NoError(t, again.Flush(shortContext(t)))
	require.NoError(t, again.Close())
	require.Len(t, up.taken("event"), 5)
}

// This test fills a spool under each policy.
func TestSpoolIsFull(t *testing.T) {
	fill := func(t *testing.T, client *analytics.Client, calls int) (refused int) {
		for i := range calls {
			err := client.Track(&analytics.Track{
				Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 1000)},
				Message: analytics.Message{MessageId: fmt.Sprint(i)},
			})
			if err != nil {
				require.ErrorIs(t, err, analytics.ErrQueueFull)
				require.ErrorContains(t, err, "SpoolMaxBytes")
				refused++
			}
		}
		return refused
	}
	for _, callback := range []bool{false, true} {
		for _, memory := range []int64{128 << 10, 64 << 20} {
			t.Run(fmt.Sprintf("MaxBytes %d, Callback %v", memory, callback), func(t *testing.T) {
				var mu sync.Mutex
				reported := map[string]int{}
				cfg := analytics.Config{SpoolMaxBytes: 1 << 20, MaxBytes: memory, FlushAt: 10}
				if callback {
					cfg.Callback = func(r analytics.Result) {
						mu.Lock()
						defer mu.Unlock()
						reported[r.MessageId]++
					}
				}
				const calls = 3000
				dir := t.TempDir()
				cfg.Spool = dir
				client := newClient(t, newDownCollector(), cfg)
				refused := fill(t, client, calls)
				require.InDelta(t, calls-800, refused, 200)
				s := client.Stats()
				requireSum(t, s)
				require.Equal(t, int64(refused), s.Rejected.QueueFull)
				require.LessOrEqual(t, s.SpoolBytes, int64(1<<20))
				require.Error(t, client.Shutdown(endedContext()))

				cfg.WhenFull = analytics.DropOldest
				up := newDownCollector()
				client = newClient(t, up, cfg)
				require.Zero(t, fill(t, client, calls))
				s = client.Stats()
				requireSum(t, s)
				require.Equal(t, int64(calls-refused), s.Recovered)
				require.Positive(t, s.Dropped.Overflow)
				require.InDelta(t, 750, s.Pending, 250)
				require.Error(t, client.Shutdown(endedContext()))
				s = client.Stats()
				requireSum(t, s)
				if callback {
					require.Eventually(t, func() bool { // Shutdown returns before the callback has received all results
						mu.Lock()
						defer mu.Unlock()
						total := 0
						for _, n := range reported {
							total += n
						}
						return reported[""] == 0 && total == int(s.Dropped.Total())
					}, time.Minute, time.Millisecond)
				}

				all := &collector{}
				client = newClient(t, all, cfg)
				require.NoError(t, client.Flush(shortContext(t)))
				require.NoError(t, client.Close())
				require.Equal(t, s.Pending, client.Stats().Delivered)
				require.Contains(t, all.taken("messageId"), fmt.Sprint(calls-1), "the newest is there")
			})
		}
	}
}

// Under Block, a process that starts with a full spool waits until the collector is available.
func TestSpoolIsFullFromTheStart(t *testing.T) {
	for _, memory := range []int64{128 << 10, 64 << 20} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			config := analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, MaxBytes: memory, FlushAt: 20}
			first := newClient(t, newDownCollector(), config)
			m := &analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 1000)}}
			left := int64(0)
			for first.Track(m) == nil {
				left++
			}
			require.Error(t, first.Shutdown(endedContext()))

			var on atomic.Bool
			config.WhenFull = analytics.Block
			second := newClient(t, newSwitchedCollector(&on), config)
			var made atomic.Int64
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for range 100 {
						if err := second.Track(m); err != nil {
							t.Error(err)
						}
						made.Add(1)
					}
				})
			}
			time.Sleep(time.Minute)
			require.Less(t, made.Load(), int64(400))
			on.Store(true)
			callers.Wait()
			require.NoError(t, second.Close())
			require.Equal(t, left+400, second.Stats().Delivered)
			requireSum(t, second.Stats())
		})
	}
}

// While the collector refuses all batches, the client drops none. When it accepts other batches, the
// client drops the batch that is never accepted.
func TestSpoolKeepsBatchesDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := &collector{decide: when(answer{status: 500}, func(i int, p post) bool {
			return time.Since(start) < 2*time.Hour || p.body.Batch[0]["event"] == "poison-000"
		})}
		client := newClient(t, c, analytics.Config{Spool: t.TempDir(), FlushAt: 10, MaxInFlight: 2})
		track(t, client, "before", 30)
		track(t, client, "poison", 1)
		require.NoError(t, ignore(client.Flush(endedContext())))
		track(t, client, "after", 30)
		err := client.Flush(t.Context())
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, err, &undelivered)
		require.Equal(t, analytics.Drops{Attempts: 1}, undelivered.Dropped)
		require.Equal(t, int64(60), client.Stats().Delivered)
		require.NoError(t, ignore(client.Close()))
	})
}

func ignore(error) error { return nil }

func TestSpoolDirectoryIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	synctest.Test(t, func(t *testing.T) {
		up := &collector{}
		client := newClient(t, up, analytics.Config{Spool: dir})
		track(t, client, "before", 3)
		require.NoError(t, os.RemoveAll(dir))
		time.Sleep(2 * time.Second) // the client detects the removal within a second
		track(t, client, "after", 1)
		require.Len(t, segments(t, dir), 1)
		second := newClient(t, up, analytics.Config{Spool: dir})
		require.ErrorContains(t, second.Track(&analytics.Track{Event: "e", UserId: "u"}), "in use", "the lock is taken again")

		// If the directory cannot be created again, each call returns an error.
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		time.Sleep(2 * time.Second)
		for range 2 {
			require.ErrorIs(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrSpool)
		}
		require.NoError(t, client.Close())
		s := client.Stats()
		requireSum(t, s)
		require.Equal(t, int64(4), s.Delivered)
		require.Equal(t, int64(2), s.Rejected.Spool)
	})
}
