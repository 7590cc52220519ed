package analytics_test

import (
	"strings"
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

		// One second after a flush there are two seconds left.
		time.Sleep(time.Second)
		track(t, client, "b", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 1}, c.sizes())
		require.Equal(t, 6*time.Second, c.all()[1].at.Sub(start))

		// Long after one, calls are still gathered.
		time.Sleep(time.Hour)
		track(t, client, "c", 1)
		time.Sleep(time.Second)
		track(t, client, "d", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 1, 2}, c.sizes())
	})
}

func TestBatchStaysUnderLimit(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{}
			client := newClient(t, c, analytics.Config{FlushAt: 100, Gzip: gzip})
			for i := range 100 {
				require.NoError(t, client.Track(&analytics.Track{
					Event: name("big", i), UserId: "u",
					Properties: map[string]interface{}{"text": strings.Repeat("x", 30_000)},
				}))
			}
			require.NoError(t, client.Close())
			taken := c.taken("event")
			require.Len(t, taken, 100)
			for _, p := range c.all() {
				require.NoError(t, p.err)
				require.LessOrEqual(t, len(p.raw), analytics.MaxBatchBytes)
			}
			require.Len(t, c.all(), 7, "16 calls of 30 KB fit into 500 KB")
		})
	}
}

func TestCallOver32KB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		err := client.Track(&analytics.Track{
			Event: "too big", UserId: "u",
			Properties: map[string]interface{}{"text": strings.Repeat("x", 33*1024)},
		})
		var tooLarge *analytics.TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, "track", tooLarge.Kind)
		require.Greater(t, tooLarge.Size, 33*1024)
		require.Equal(t, 32768, tooLarge.Limit)
		track(t, client, "small", 1)
		require.NoError(t, client.Close())
		require.Equal(t, []int{1}, c.sizes())
		require.EqualValues(t, 1, client.Stats().Rejected.TooLarge)
	})
}
