package delivery

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestContextOfRequest(t *testing.T) {
	rs := requests{parent: newScope(t.Context())}
	_, ok := FromContext(rs.parent)
	assert.False(t, ok, "another context")
	ctx := rs.context(Info{Destination: "d", Source: "s"})
	info, ok := FromContext(ctx)
	assert.True(t, ok)
	assert.Equal(t, Info{Destination: "d", Source: "s"}, info)
	rs.parent.end()
	assert.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestRequestsEndWithOwnership(t *testing.T) {
	owned, release := context.WithCancel(t.Context())
	rs := requests{parent: newScope(t.Context()), owned: owned}
	assert.NoError(t, rs.context(Info{}).Err())
	release()
	assert.ErrorIs(t, rs.context(Info{}).Err(), context.Canceled)
}

// TestOrderWaitsForTrailingRequests checks that the first request of an order is sent to a webhook after
// the last request without an order has ended.
func TestOrderWaitsForTrailingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 3 * time.Second
		var mu sync.Mutex
		var began []time.Duration // of the requests to the slow webhook
		start := time.Now()
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			if r.Endpoint.URL != "http://h/1" {
				mu.Lock()
				began = append(began, time.Since(start))
				mu.Unlock()
				time.Sleep(slow)
			}
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		d := oneWebhook("d")
		d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: "http://h/2"})
		w.Update(d, nil)
		w.Start()
		appendCalls(t, memory, "m")
		synctest.Wait()
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		appendCalls(t, memory, "n")
		time.Sleep(time.Minute)
		w.Stop()
		assert.Equal(t, []time.Duration{0, slow}, began)
	})
}

// TestConcurrencyLimitsEachWebhook checks that the number of requests to a webhook is limited if the
// destination sets the concurrency, even if another webhook accepts all calls immediately.
func TestConcurrencyLimitsEachWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			if r.Endpoint.URL != "http://h/1" {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running--
			}
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		d := oneWebhook("d")
		d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: "http://h/2"})
		d.Concurrency = 3
		w.Update(d, nil)
		w.Start()
		appendCalls(t, memory, "a", "b", "c", "d", "e", "f", "g", "h", "i")
		time.Sleep(time.Minute)
		w.Stop()
		assert.Equal(t, 3, most)
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 9, ledgers[0].Delivered)
	})
}

func TestTrailingRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs requests
		many, few := make(chan answer), make(chan answer)
		assert.True(t, rs.leave(many, maxTrailing-2))
		assert.False(t, rs.leave(few, 3), "one too many")
		assert.True(t, rs.leave(few, 2))
		many <- answer{}
		synctest.Wait()
		assert.EqualValues(t, maxTrailing-1, rs.trailing.Load())
		close(many)
		close(few)
		rs.concurrent.Wait()
		assert.Zero(t, rs.trailing.Load())
	})
}
