package analytics_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

func TestConfigurationIsReadAtTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := analytics.New("key")
		client.Client.Transport = c
		client.Endpoint = "https://set.example"
		client.Size = 2
		client.Logger = new(lines).logger()
		require.Error(t, client.Track(&analytics.Track{}), "an invalid call is not the first one")
		client.Interval = time.Second
		track(t, client, "a", 1)
		client.Endpoint = "https://late.example"
		client.Size = 1
		client.Interval = time.Hour
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{1}, c.sizes())
		require.Equal(t, "https://set.example/v1/batch", c.all()[0].url)
		track(t, client, "b", 2)
		synctest.Wait()
		require.Equal(t, []int{1, 2}, c.sizes())
		require.NoError(t, client.Close())
	})
}

func TestContextIsNotReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		shared := map[string]interface{}{"app": map[string]interface{}{"name": "first"}}
		client := newClient(t, c, analytics.Config{Context: shared})
		shared["app"].(map[string]interface{})["name"] = "second"
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		require.Equal(t, map[string]interface{}{"name": "first"}, c.all()[0].body.Context["app"])
	})
}

func TestBadEndpointUntilMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := analytics.New("key")
		client.Client.Transport = c
		client.Endpoint = "localhost:8765"
		for range 3 {
			require.ErrorContains(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), "Endpoint")
		}
		require.NoError(t, client.Flush(t.Context()))
		require.EqualValues(t, 3, client.Stats().Rejected.Invalid)
		client.Endpoint = "http://localhost:8765"
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		require.Equal(t, []int{1}, c.sizes())
	})
}

func TestNewStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest fails the test if a goroutine remains
		analytics.New("key")
		_, err := analytics.NewWithConfig("key", analytics.Config{})
		require.NoError(t, err)
	})
}

func TestClose(t *testing.T) {
	t.Run("before the first call", func(t *testing.T) {
		client := analytics.New("key")
		require.NoError(t, client.Close())
		require.NoError(t, client.Close())
		require.NoError(t, client.Flush(t.Context()))
		require.ErrorIs(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrClosed)
		require.Equal(t, analytics.Stats{Rejected: analytics.Rejects{Closed: 1}}, client.Stats())
	})
	t.Run("often, and at the same time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := always(answer{delay: time.Second})
			client := newClient(t, c, analytics.Config{})
			track(t, client, "e", 30)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { require.NoError(t, client.Close()) })
			}
			synctest.Wait()
			require.ErrorIs(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrClosed, "while Close runs")
			wg.Wait()
			require.NoError(t, client.Close())
			require.ErrorIs(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrClosed)
			require.EqualValues(t, 30, client.Stats().Delivered)
			require.EqualValues(t, 2, client.Stats().Rejected.Closed)
		})
	})
	t.Run("one 503 loses nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := first(answer{status: 503})
			client := newClient(t, c, analytics.Config{FlushAt: 100})
			track(t, client, "e", 100)
			require.NoError(t, client.Close())
			require.EqualValues(t, 100, client.Stats().Delivered)
		})
	})
	t.Run("hung collector", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := always(answer{hang: true})
			client := newClient(t, c, analytics.Config{CloseTimeout: 3 * time.Second})
			track(t, client, "e", 130)
			start := time.Now()
			err := client.Close()
			require.Equal(t, 3*time.Second, time.Since(start))
			require.EqualError(t, err, "analytics: 130 calls not delivered: context deadline exceeded")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, err, client.Close())
			s := client.Stats()
			require.Equal(t, analytics.Drops{Shutdown: 130}, s.Dropped)
			require.Zero(t, s.Bytes)
			requireSum(t, s)
		})
	})
	t.Run("waiting for a retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{decide: func(int, post) answer {
				return answer{status: 503, header: http.Header{"Retry-After": {"200"}}}
			}}
			client := newClient(t, c, analytics.Config{})
			track(t, client, "e", 20)
			start := time.Now()
			err := client.Close()
			require.Equal(t, 20*time.Second, time.Since(start))
			require.ErrorContains(t, err, "20 calls not delivered: context deadline exceeded: the latest failure: the collector responded with 503")
		})
	})
}

// Shutdown abandons a transport that ignores its context.
func TestShutdownAbandonsHangingTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: func(int, post) answer { time.Sleep(time.Hour); return answer{} }}
		client := newClient(t, c, analytics.Config{})
		track(t, client, "e", 100)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorContains(t, client.Shutdown(ctx), "100 calls not delivered")
		require.LessOrEqual(t, time.Since(start), 4*time.Second)
		requireSum(t, client.Stats())
		require.Zero(t, client.Stats().Pending)
		time.Sleep(time.Hour) // the transport's goroutines return after an hour
	})
}

func TestShutdownWithDoneContextKeepsDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, &collector{}, analytics.Config{})
		track(t, client, "e", 40)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, client.Shutdown(ctx))
	})
}

func TestConcurrentShutdownsOfAnUnusedClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 {
		client := analytics.New("key")
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() { assert.NoError(t, client.Shutdown(ctx)) })
		}
		running.Wait()
	}
}

// The second Shutdown reports the refused batch again, although its context is already done.
func TestShutdownAgainReturnsTheSameError(t *testing.T) {
	for range 20 { // select chooses at random, so one run might miss a bug
		synctest.Test(t, func(t *testing.T) {
			client := newClient(t, always(answer{status: 403}), analytics.Config{})
			track(t, client, "e", 20)
			want := client.Close()
			require.Error(t, want)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Equal(t, want, client.Shutdown(ctx))
		})
	}
}

// A call that is dropped on shutdown reports the error of its last attempt.
func TestShutdownReportsErrorOfLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		var results []analytics.Result
		c := always(answer{status: 503})
		client := newClient(t, c, analytics.Config{
			CloseTimeout: time.Second, Logger: log.logger(),
			Callback: func(r analytics.Result) { results = append(results, r) },
		})
		track(t, client, "e", 1)
		require.Error(t, client.Close())
		synctest.Wait()
		require.Len(t, results, 1)
		var dropped *analytics.DropError
		require.ErrorAs(t, results[0].Err, &dropped)
		require.Equal(t, analytics.DropShutdown, dropped.Reason)
		require.Equal(t, 503, dropped.Status)
		require.ErrorContains(t, dropped.Err, "503")
		require.Contains(t, log.String(), "lost 1 call: shutdown, attempt ")
		require.Contains(t, log.String(), "503")
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down bool
		c := &collector{decide: func(i int, p post) answer {
			switch {
			case p.body.Batch[0]["event"] == "refused-000":
				return answer{status: 401}
			case down:
				return answer{err: errRefusedConn}
			}
			return answer{delay: time.Second}
		}}
		client := newClient(t, c, analytics.Config{CloseTimeout: time.Hour})
		require.NoError(t, client.Flush(t.Context()), "before the first call")

		start := time.Now()
		track(t, client, "a", 45)
		require.NoError(t, client.Flush(t.Context()))
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 45, client.Stats().Delivered)

		// A flush does not wait for calls that are made after it has started.
		track(t, client, "b", 1)
		done := make(chan error)
		go func() { done <- client.Flush(t.Context()) }()
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		track(t, client, "c", 1)
		require.NoError(t, <-done)
		require.EqualValues(t, 1, client.Stats().Pending)
		require.NoError(t, client.Flush(t.Context()))

		// Only the first flush reports a drop, even if the drop happened before the flush.
		for _, early := range []bool{false, true} {
			track(t, client, "refused", 20)
			if early {
				synctest.Wait()
				require.Zero(t, client.Stats().Pending)
			}
			err := client.Flush(t.Context())
			require.ErrorContains(t, err, "20 calls not delivered: the latest failure: the collector responded with 401")
			require.NoError(t, client.Flush(t.Context()))
		}

		down = true
		track(t, client, "d", 30)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := client.Flush(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errRefusedConn)
		require.ErrorContains(t, err, "30 calls not delivered (30 still queued)")
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, err, &undelivered)
		require.EqualValues(t, 30, undelivered.Pending)
		require.EqualValues(t, 30, undelivered.Calls())

		down = false
		require.NoError(t, client.Close())
		require.NoError(t, client.Flush(t.Context()), "after Close")
	})
}

// filling returns a client with a small memory budget and a collector that never responds.
func filling(t *testing.T, policy analytics.FullPolicy) (*analytics.Client, *collector) {
	c := always(answer{hang: true})
	return newClient(t, c, analytics.Config{MaxBytes: 128 << 10, WhenFull: policy, CloseTimeout: time.Second}), c
}

func kilobyte(event string) *analytics.Track {
	return &analytics.Track{Event: event, UserId: "u", Properties: map[string]interface{}{"text": string(make([]byte, 150))}}
}

func TestFullRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := filling(t, analytics.Reject)
		start := time.Now()
		accepted := 0
		for range 500 {
			if err := client.Track(kilobyte("e")); err == nil {
				accepted++
			} else {
				require.ErrorIs(t, err, analytics.ErrQueueFull)
			}
			require.LessOrEqual(t, client.Stats().Bytes, int64(128<<10))
		}
		require.Zero(t, time.Since(start), "a caller was held")
		require.Greater(t, accepted, 80)
		require.Less(t, accepted, 130)
		s := client.Stats()
		require.EqualValues(t, 500-accepted, s.Rejected.QueueFull)
		require.EqualValues(t, accepted, s.Accepted)
		require.Error(t, client.Close())
	})
}

// The client uses almost all of its memory, even if the free buffers are larger than the remaining
// budget.
func TestFullClientUsesItsWholeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		c := &collector{decide: func(int, post) answer { return answer{hang: down} }}
		client := newClient(t, c, analytics.Config{MaxBytes: 700_000, FlushAt: 400, CloseTimeout: time.Second})
		for range 2 {
			for range 400 {
				require.NoError(t, client.Track(kilobyte("e")))
			}
			synctest.Wait()
			down = true
		}
		accepted := 0
		for client.Track(kilobyte("e")) == nil {
			accepted++
		}
		require.Greater(t, accepted, 100)
		require.Greater(t, client.Stats().Bytes, int64(690_000))
		require.LessOrEqual(t, client.Stats().Bytes, int64(700_000))
		require.Error(t, client.Close())
	})
}

// The smallest memory budget is enough for the largest call with the largest context and ID.
func TestFullTakesTheLargestCall(t *testing.T) {
	for _, policy := range []analytics.FullPolicy{analytics.Reject, analytics.Block, analytics.DropOldest} {
		synctest.Test(t, func(t *testing.T) {
			client := newClient(t, &collector{}, analytics.Config{
				MaxBytes: 128 << 10, WhenFull: policy, Callback: func(analytics.Result) {},
				Context: map[string]interface{}{"text": strings.Repeat("x", 32_600)},
			})
			for range 3 {
				m := &analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: strings.Repeat("m", 32_600)}}
				require.NoError(t, client.Enqueue(t.Context(), m))
				require.NoError(t, client.Flush(t.Context()))
				synctest.Wait() // wait until the callback has returned
			}
			require.NoError(t, client.Close())
		})
	}
}

func TestFullBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := always(answer{delay: time.Second})
		client := newClient(t, c, analytics.Config{MaxBytes: 128 << 10, WhenFull: analytics.Block, MaxInFlight: 1, CloseTimeout: time.Hour})
		for range 500 {
			require.NoError(t, client.Track(kilobyte("e")))
			require.LessOrEqual(t, client.Stats().Bytes, int64(128<<10))
		}
		require.Greater(t, time.Since(start), 10*time.Second, "no call waited")
		require.NoError(t, client.Close())
		require.EqualValues(t, 500, client.Stats().Delivered)
	})
}

func TestFullBlocksUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := filling(t, analytics.Block)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		var err error
		for err == nil {
			err = client.Enqueue(ctx, kilobyte("e"))
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 1, client.Stats().Rejected.QueueFull)

		// Track has no context. It returns when the client is closed.
		blocked := make(chan error)
		go func() { blocked <- client.Track(kilobyte("late")) }()
		synctest.Wait()
		go client.Close()
		require.ErrorIs(t, <-blocked, analytics.ErrClosed)
		require.Error(t, client.Close())
	})
}

func TestFullDropsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		c := &collector{decide: func(i int, p post) answer { return answer{hang: down} }}
		var dropped []string
		client := newClient(t, c, analytics.Config{
			MaxBytes: 256 << 10, WhenFull: analytics.DropOldest, MaxInFlight: 1, CloseTimeout: time.Hour,
			Callback: func(r analytics.Result) {
				if r.Err != nil {
					require.ErrorContains(t, r.Err, "overflow")
					dropped = append(dropped, r.MessageId)
				}
			},
		})
		for i := range 600 {
			m := kilobyte("e")
			m.MessageId = name("m", i)
			require.NoError(t, client.Track(m))
			require.LessOrEqual(t, client.Stats().Bytes, int64(256<<10))
			requireSum(t, client.Stats())
			synctest.Wait()
		}
		down = false
		err := client.Close()
		s := client.Stats()
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, err, &undelivered)
		require.Equal(t, s.Dropped, undelivered.Dropped)
		require.Greater(t, s.Dropped.Overflow, int64(100))
		require.Equal(t, s.Dropped.Overflow, s.Dropped.Total())
		require.EqualValues(t, 600, s.Accepted)
		require.Len(t, dropped, int(s.Dropped.Overflow))
		// The first batch was already being sent, so the second batch was dropped.
		require.Equal(t, "m-020", dropped[0])
		require.Equal(t, name("m", 20+len(dropped)-1), dropped[len(dropped)-1])
		require.EqualValues(t, 1, c.taken("messageId")["m-599"])
	})
}

func TestCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: when(answer{status: 403}, func(i int, p post) bool {
			return p.body.Batch[0]["type"] == "page"
		})}
		ended := map[string]analytics.Result{}
		var client *analytics.Client
		var log lines
		client = newClient(t, c, analytics.Config{FlushAt: 1, Logger: log.logger(), Callback: func(r analytics.Result) {
			if _, twice := ended[r.MessageId]; twice {
				t.Errorf("%s ended twice", r.MessageId)
			}
			ended[r.MessageId] = r
			if r.MessageId == "t-1" {
				// A callback may make calls and flush the client.
				require.NoError(t, client.Track(&analytics.Track{Event: "from the callback", UserId: "u", Message: analytics.Message{MessageId: "t-2"}}))
				_ = client.Flush(t.Context()) // Flush may report the refused page call
				panic("callback trouble")
			}
		}})
		require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: "t-1"}}))
		require.NoError(t, client.Page(&analytics.Page{UserId: "u", Message: analytics.Message{MessageId: "p-1"}}))
		require.NoError(t, client.Group(&analytics.Group{UserId: "u", GroupId: "g"}))
		synctest.Wait()
		require.Error(t, client.Page(&analytics.Page{Message: analytics.Message{MessageId: "not accepted"}}))
		_ = client.Close()

		require.Len(t, ended, 4)
		require.Equal(t, analytics.Result{MessageId: "t-1", Type: "track"}, ended["t-1"])
		require.Equal(t, analytics.Result{MessageId: "t-2", Type: "track"}, ended["t-2"])
		var drop *analytics.DropError
		require.ErrorAs(t, ended["p-1"].Err, &drop)
		require.Equal(t, analytics.DropRefused, drop.Reason)
		require.Equal(t, 403, drop.Status)
		require.Contains(t, log.String(), `the callback panicked on track "t-1": callback trouble`)
		delete(ended, "t-1")
		delete(ended, "t-2")
		delete(ended, "p-1")
		for id, r := range ended {
			require.Regexp(t, uuids, id)
			require.Equal(t, analytics.Result{MessageId: id, Type: "group"}, r)
		}
	})
}

// The results for a slow callback stay within the memory budget.
func TestSlowCallbackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		client := newClient(t, &collector{}, analytics.Config{MaxBytes: 128 << 10, Callback: func(analytics.Result) { <-release }})
		full := false
		for range 5000 {
			full = full || client.Track(kilobyte("e")) != nil
			synctest.Wait()
			require.LessOrEqual(t, client.Stats().Bytes, int64(128<<10))
		}
		require.True(t, full)
		close(release)
		require.NoError(t, client.Close())
		require.Zero(t, client.Stats().Bytes)
	})
}
