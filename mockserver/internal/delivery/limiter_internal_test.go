package delivery

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// If calls begin as early as possible for 20 seconds, their rate is the configured rate, within
// a tolerance for catchUp and wakeStep.
func TestLimiterRate(t *testing.T) {
	for _, perSecond := range []float64{0.1, 0.5, 1, 3, 50, 150, 333, 1000, 7500, 100_000} {
		var l limiter
		l.setRate(perSecond)
		start := time.Now()
		now := start
		begun := 0
		const seconds = 20
		for now.Sub(start) < seconds*time.Second {
			at := l.next(now)
			if at.IsZero() {
				l.begin(now)
				begun++
				continue
			}
			assert.True(t, at.After(now))
			now = at
		}
		assert.InDelta(t, perSecond*seconds, begun, 1.001+perSecond*catchUp.Seconds()+perSecond*wakeStep.Seconds(), "%v a second", perSecond)
	}
}

func TestLimiterHoldsUntilTheLatestTime(t *testing.T) {
	var l limiter
	now := time.Now()
	assert.False(t, l.isActive())
	l.pauseUntil(now.Add(time.Minute))
	l.pauseUntil(now.Add(time.Second))
	assert.Equal(t, now.Add(time.Minute), l.next(now.Add(time.Second)))
	assert.True(t, l.isActive())
	later := now.Add(time.Minute)
	assert.True(t, l.next(later).IsZero())
	l.begin(later)
	assert.False(t, l.isActive(), "an expired pause has no effect")
	l.pauseUntil(later.Add(time.Minute))
	l.release()
	assert.True(t, l.next(later).IsZero())
}

// After a pause, the calls of at most the duration catchUp may begin at once.
func TestLimiterCatchesUpLittle(t *testing.T) {
	var l limiter
	l.setRate(1000)
	now := time.Now().Add(time.Hour)
	burst := 0
	for ; l.next(now).IsZero(); burst++ {
		l.begin(now)
	}
	assert.Equal(t, int(catchUp/time.Millisecond)+1, burst)
	l.setRate(0)
	assert.True(t, l.next(now).IsZero())
}

// A new rate also applies to the call that waits.
func TestLimiterAppliesANewRateAtOnce(t *testing.T) {
	var l limiter
	now := time.Now()
	for _, seconds := range []int{1000, 10, 100} {
		l.setRate(1 / float64(seconds))
		if seconds == 1000 {
			l.begin(now)
		}
		assert.WithinDuration(t, now.Add(time.Duration(seconds)*time.Second), l.next(now), catchUp)
	}
	l.setRate(0)
	assert.Zero(t, l.next(now))
}

// TestRetryAfterOfOldURLIsIgnored checks that a Retry-After of the previous URL does not pause the
// new one.
func TestRetryAfterOfOldURLIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		taken := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(got)
		}
		var w *Worker
		var memory journal.Journal
		w, memory, _ = newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			if r.Endpoint.URL == "http://h/1" {
				d := oneWebhook("d")
				d.Webhooks[0].URL = "http://h/2"
				w.Update(d, nil)
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, RetryAfter: time.Minute, Error: "busy"}
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r.MessageID)
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Start()
		appendCalls(t, memory, "1")
		synctest.Wait()
		appendCalls(t, memory, "2")
		synctest.Wait()
		assert.Equal(t, []string{"2"}, taken())
		time.Sleep(time.Minute)
		synctest.Wait()
		w.Stop()
		assert.Equal(t, []string{"2", "1"}, taken())
	})
}
