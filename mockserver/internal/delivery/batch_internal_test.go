package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestBatchFailsOnce checks that a failed request with many calls counts as one failure of the
// destination, and that the calls are retried.
func TestBatchFailsOnce(t *testing.T) {
	for name, failure := range map[string]webhook.Attempt{
		"refused by the server": {Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"},
		"not connected":         {NotConnected: true, Verdict: webhook.Temporary, Reason: webhook.ReasonConnection, Error: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, memory, events := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt { return failure })
				d := oneWebhook("d")
				d.Batch = webhook.Batch{Calls: 20}
				w.Update(d, nil)
				w.Start()
				defer w.Stop()
				var ids []string
				for i := range 20 {
					ids = append(ids, fmt.Sprint("m", i))
				}
				for batches := 1; batches <= downAfter; batches++ {
					appendCalls(t, memory, ids...)
					synctest.Wait()
					s := w.Status()
					assert.Equal(t, batches, s.Failures)
					assert.Equal(t, batches == downAfter, s.Down)
				}
				pending := 0
				for _, e := range events.events {
					if ended, ok := e.(tracking.Ended); ok && ended.State == tracking.StatePending {
						pending++
					}
				}
				assert.Equal(t, len(ids)*downAfter, pending)
			})
		})
	}
}

// TestBatchesPerWebhook checks that each webhook gets its own batches, even if two have the same URL and share
// its limit of simultaneous requests, and that the size of a request does not change this limit.
func TestBatchesPerWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, running, most := map[string]int{}, 0, 0
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			name := r.Endpoint.Headers["Name"]
			mu.Lock()
			calls[name], running = calls[name]+r.Calls, running+1
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		d := oneWebhook("d")
		d.Webhooks = []webhook.Endpoint{{URL: "http://h/", Headers: map[string]string{"Name": "a"}}, {URL: "http://h/", Headers: map[string]string{"Name": "b"}}}
		d.Batch = webhook.Batch{Calls: 100, Bytes: 1000} // about seven calls
		w.Update(d, nil)
		w.Start()
		var ids []string
		for i := range 200 {
			ids = append(ids, fmt.Sprint("m", i))
		}
		appendCalls(t, memory, ids...)
		time.Sleep(time.Minute)
		w.Stop()
		assert.Equal(t, map[string]int{"a": 200, "b": 200}, calls)
		assert.Equal(t, batchRequests, most)
	})
}
