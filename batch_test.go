package analytics_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

func TestFlushAt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		flushAt int
		calls   int
		want    []int
	}{
		{"two full and a rest", 20, 45, []int{20, 20, 5}},
		{"all full", 20, 40, []int{20, 20}},
		{"each by itself", 1, 3, []int{1, 1, 1}},
		{"default", 0, 21, []int{20, 1}},
		{"negative is default", -3, 21, []int{20, 1}},
	} {
		for _, closing := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{false: ", FlushAfter", true: ", Close"}[closing], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &collector{}
					client := newClient(t, c, analytics.Config{FlushAt: tt.flushAt, MaxInFlight: 1})
					track(t, client, "e", tt.calls)
					if !closing {
						time.Sleep(5 * time.Second)
						synctest.Wait()
						require.Equal(t, tt.want, c.sizes())
					}
					require.NoError(t, client.Close())
					require.Equal(t, tt.want, c.sizes())
					for i := range tt.calls {
						require.Equal(t, 1, c.taken("event")[name("e", i)])
					}
				})
			})
		}
	}
}

func TestFlushAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{FlushAfter: 3 * time.Second})
		defer client.Close()
		start := time.Now()
		track(t, client, "a", 2)
		time.Sleep(2999 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, c.all())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{2}, c.sizes())

		// One second of the interval has passed, so the next batch is sent after two more seconds.
		time.Sleep(time.Second)
		track(t, client, "b", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 1}, c.sizes())
		require.Equal(t, 6*time.Second, c.all()[1].at.Sub(start))

		// A long time after the previous batch, two calls still share a batch.
		time.Sleep(time.Hour)
		track(t, client, "c", 1)
		time.Sleep(time.Second)
		track(t, client, "d", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 1, 2}, c.sizes())
	})
}

// A batch can reach exactly the maximum size.
func TestBatchLimitIsExact(t *testing.T) {
	empty := callSize(t, 0)
	envelope := bodySize(t) - empty
	for _, over := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{}
			client := newClient(t, c, analytics.Config{FlushAt: 1000, MaxInFlight: 1})
			left := analytics.MaxBatchBytes - envelope + over
			for i := 0; left > 0; i++ {
				size := min(left, 30_000)
				if rest := left - size - 1; rest > 0 && rest < 1000 {
					size -= 1000
				}
				require.NoError(t, client.Track(sized(size-empty)))
				left -= size + len(",")
			}
			require.NoError(t, client.Close())
			require.Len(t, c.all(), 1+over)
			if over == 0 {
				require.Len(t, c.all()[0].raw, analytics.MaxBatchBytes)
			}
		})
	}
}

func TestCallLimitIsExact(t *testing.T) {
	empty := callSize(t, 0)
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		require.NoError(t, client.Track(sized(32768-empty)))
		require.EqualError(t, client.Track(sized(32769-empty)), "analytics: track: the call is 32769 bytes as JSON, over the limit of 32768; its largest field is userId")
		require.NoError(t, client.Close())
		require.Equal(t, []int{1}, c.sizes())
	})
}

func sized(pad int) *analytics.Track {
	return &analytics.Track{Event: "e", UserId: "u" + strings.Repeat("x", pad)}
}

// bodySize returns the size of a request body that contains only the call sized(0).
func bodySize(t *testing.T) (n int) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		require.NoError(t, client.Track(sized(0)))
		require.NoError(t, client.Close())
		n = len(c.all()[0].raw)
	})
	return n
}

// callSize returns the size of the call sized(pad) as JSON.
func callSize(t *testing.T, pad int) int {
	client := analytics.New("key")
	err := client.Track(sized(pad + analytics.MaxCallBytes))
	var tooLarge *analytics.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.NoError(t, client.Close())
	return tooLarge.Size - analytics.MaxCallBytes
}

// Several goroutines make calls of random sizes while others call Flush and Stats or wait for the
// interval. Each call must arrive once, and each goroutine's calls must arrive in order. A flush
// returns only after its calls have arrived. No batch exceeds the maximum size.
func TestOpenBatchConcurrentSafe(t *testing.T) {
	const callers, calls = 8, 150
	for name, config := range map[string]analytics.Config{
		"plain":                {FlushAt: 50},
		"often sealed":         {FlushAt: 3, FlushAfter: time.Millisecond},
		"sealed by size":       {FlushAt: 10_000},
		"little memory":        {FlushAt: 10_000, MaxBytes: 256 << 10},
		"compressed":           {FlushAt: 50, Gzip: true},
		"with ids of calls":    {FlushAt: 50, Callback: func(analytics.Result) {}},
		"with calls on a disk": {FlushAt: 50, Spool: "a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if config.Spool != "" {
				config.Spool = t.TempDir()
			}
			config.WhenFull, config.MaxInFlight, config.CloseTimeout = analytics.Block, 1, time.Minute
			c := &collector{}
			client := newClient(t, c, config)
			var group sync.WaitGroup
			for g := range callers {
				group.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(g), 1))
					user := fmt.Sprint(g)
					for i := range calls {
						size := rnd.IntN(300)
						if rnd.IntN(8) == 0 {
							size = rnd.IntN(30_000)
						}
						err := client.Track(&analytics.Track{
							Event: strconv.Itoa(i), UserId: user, Properties: map[string]interface{}{"text": strings.Repeat("x", size)},
						})
						if err != nil {
							t.Error(err)
						}
						switch rnd.IntN(40) {
						case 0:
							if err := client.Flush(t.Context()); err != nil || c.taken("userId")[user] != i+1 {
								t.Errorf("a flush returned %v with %d of %d calls delivered", err, c.taken("userId")[user], i+1)
							}
						case 1:
							if s := client.Stats(); s.Accepted != s.Delivered+s.Dropped.Total()+s.Pending || s.Accepted <= int64(i) {
								t.Errorf("after %d calls of one of %d callers: %+v", i+1, callers, s)
							}
						}
					}
				})
			}
			group.Wait()
			require.NoError(t, client.Close())
			var next [callers]int
			for _, p := range c.all() {
				require.NoError(t, p.err)
				require.LessOrEqual(t, len(p.raw), analytics.MaxBatchBytes)
				require.LessOrEqual(t, len(p.body.Batch), config.FlushAt)
				for _, call := range p.body.Batch {
					g, err := strconv.Atoi(call["userId"].(string))
					require.NoError(t, err)
					require.Equal(t, strconv.Itoa(next[g]), call["event"], "the calls of one goroutine keep their order")
					next[g]++
				}
			}
			for g := range next {
				require.Equal(t, calls, next[g])
			}
			s := client.Stats()
			require.Equal(t, int64(callers*calls), s.Accepted)
			require.Equal(t, s.Accepted, s.Delivered)
			require.Zero(t, s.Bytes)
		})
	}
}
