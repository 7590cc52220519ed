package delivery

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

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
