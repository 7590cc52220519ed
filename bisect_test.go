package analytics_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// strict returns a function that refuses batches with at least one of the given calls.
func strict(calls map[string]bool) func(int, post) answer {
	return func(_ int, p post) answer {
		for _, call := range p.body.Batch {
			if calls[call["messageId"].(string)] {
				return answer{status: 400}
			}
		}
		return answer{}
	}
}

// sendBatch sends a batch of n calls to a collector that refuses some of them. It returns the IDs
// of the lost calls and the number of requests.
func sendBatch(t *testing.T, n int, refused map[string]bool, cfg analytics.Config) (lost map[string]bool, requests int) {
	synctest.Test(t, func(t *testing.T) {
		lost = map[string]bool{}
		c := &collector{decide: strict(refused)}
		cfg.FlushAt, cfg.CloseTimeout = n, time.Hour
		cfg.Callback = func(r analytics.Result) {
			if r.Err != nil {
				lost[r.MessageId] = true
			}
		}
		client := newClient(t, c, cfg)
		for i := range n {
			require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: fmt.Sprint(i)}}))
		}
		_ = client.Close()
		s := client.Stats()
		requireSum(t, s)
		require.Zero(t, s.Bytes)
		require.Zero(t, s.Pending)
		require.EqualValues(t, len(lost), s.Dropped.Refused)
		require.EqualValues(t, n-len(lost), s.Delivered)
		requests = len(c.all())
	})
	return lost, requests
}

// A few bad calls do not affect the other calls. The client finds them with few requests.
func TestBadCallsAreFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tries := 5
	if testing.Short() {
		tries = 1
	}
	for _, n := range []int{2, 3, 7, 20, 100, 640} {
		for k := 1; k < 8 && k < n; k++ {
			for range tries {
				refused := map[string]bool{}
				for _, i := range rnd.Perm(n)[:k] {
					refused[fmt.Sprint(i)] = true
				}
				cfg := analytics.Config{Gzip: k == 3}
				if k == 4 {
					cfg.Spool = t.TempDir()
				}
				lost, requests := sendBatch(t, n, refused, cfg)
				require.Equal(t, refused, lost, "%d of %d", k, n)
				log := bits.Len(uint(n))
				require.LessOrEqual(t, requests, min(2*n, 2*k*log+(k+1)*log), "%d of %d", k, n)
			}
		}
	}
}

// The number of requests is bounded, regardless of the number and positions of the bad calls.
func TestManyBadCallsAreBounded(t *testing.T) {
	for title, c := range map[string]struct {
		bad      func(i int) bool
		requests int
		lost     int // maximum number of lost calls, out of 640
	}{
		"all":          {func(int) bool { return true }, 11, 640},
		"all but one":  {func(i int) bool { return i != 77 }, 11, 640},
		"one half":     {func(i int) bool { return i < 320 }, 257, 320},
		"every second": {func(i int) bool { return i%2 == 1 }, 257, 640},
		"every 20th":   {func(i int) bool { return i%20 == 7 }, 257, 160},
	} {
		t.Run(title, func(t *testing.T) {
			refused := map[string]bool{}
			for i := range 640 {
				if c.bad(i) {
					refused[fmt.Sprint(i)] = true
				}
			}
			lost, requests := sendBatch(t, 640, refused, analytics.Config{})
			require.LessOrEqual(t, requests, c.requests)
			require.LessOrEqual(t, len(lost), c.lost)
			for id := range refused {
				require.Contains(t, lost, id)
			}
		})
	}
}

// A client that is closed while it splits a batch still accounts for all parts of the batch.
func TestCloseWhileBadCallsAreFound(t *testing.T) {
	for _, spool := range []string{"", t.TempDir()} {
		for after := range 15 { // after is the number of requests before Close
			synctest.Test(t, func(t *testing.T) {
				refuse := strict(map[string]bool{"3": true, "17": true})
				c := &collector{decide: func(i int, p post) answer {
					if i >= after {
						return answer{hang: true}
					}
					return refuse(i, p)
				}}
				client := newClient(t, c, analytics.Config{Spool: spool, CloseTimeout: time.Second})
				for i := range 20 {
					require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: fmt.Sprint(i)}}))
				}
				_ = client.Close()
				s := client.Stats()
				requireSum(t, s)
				require.Zero(t, s.Bytes)
				require.LessOrEqual(t, s.Dropped.Refused, int64(2))
				require.Equal(t, spool != "", s.Dropped.Shutdown == 0)
				if spool != "" {
					next := newClient(t, &collector{}, analytics.Config{Spool: spool})
					require.NoError(t, next.Close())
					require.Equal(t, s.Pending, next.Stats().Delivered)
				}
			})
		}
	}
}
