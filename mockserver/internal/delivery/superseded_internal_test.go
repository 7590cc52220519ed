package delivery

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestChangesApplyWhileSupersededWaits checks changes between the admission of a call and its request.
func TestChangesApplyWhileSupersededWaits(t *testing.T) {
	const wait = 2 * time.Second // of Superseded; the change happens in the middle
	for name, test := range map[string]struct {
		change func(w *Worker)
		sentAt time.Duration
		url    string
	}{
		"none":        {func(*Worker) {}, wait, "http://h/1"},
		"Retry-After": {func(w *Worker) { w.PauseUntil(time.Now().Add(time.Minute)) }, time.Minute + wait/2 + wait, "http://h/1"},
		"pause":       {pauseForMinute, time.Minute + wait/2 + wait, "http://h/1"},
		"new URL":     {func(w *Worker) { w.Update(webhookAt("http://h/2"), nil) }, wait, "http://h/2"},
		"filter": {func(w *Worker) {
			w.Update(tracking.Destination{Name: "d", Types: tracking.Filter{Deny: []string{"track"}}}, nil)
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var sentAt atomic.Int64
				var url atomic.Value
				url.Store("")
				w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
					sentAt.Store(int64(time.Since(start)))
					url.Store(r.Endpoint.URL)
					return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
				})
				w.Superseded = func(context.Context, *tracking.Call) string { time.Sleep(wait); return "" }
				w.Start()
				appendCalls(t, memory, "m")
				time.Sleep(wait / 2)
				test.change(w)
				time.Sleep(2 * time.Minute)
				w.Stop()
				assert.Equal(t, test.sentAt, time.Duration(sentAt.Load()))
				assert.Equal(t, test.url, url.Load())
			})
		})
	}
}

func webhookAt(url string) tracking.Destination {
	d := oneWebhook("d")
	d.Webhooks[0].URL = url
	return d
}

func pauseForMinute(w *Worker) {
	paused := oneWebhook("d")
	paused.Paused = true
	w.Update(paused, nil)
	time.AfterFunc(time.Minute, func() { w.Update(oneWebhook("d"), nil) })
}

// TestCallIsSupersededInABatch checks that a call that is superseded while it waits for its batch is
// not sent.
func TestCallIsSupersededInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			sent.Add(int64(r.Calls))
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		d := oneWebhook("d")
		d.Batch = webhook.Batch{Calls: 10, Wait: webhook.Duration(time.Second)}
		w.Update(d, nil)
		var newer atomic.Bool
		w.Superseded = func(_ context.Context, c *tracking.Call) string {
			if newer.Load() && c.ID == "m" {
				return "superseded"
			}
			return ""
		}
		w.Start()
		appendCalls(t, memory, "m", "n")
		time.Sleep(time.Second / 2)
		newer.Store(true)
		time.Sleep(time.Minute)
		w.Stop()
		assert.EqualValues(t, 1, sent.Load())
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		require.Len(t, ledgers, 1)
		assert.EqualValues(t, 1, ledgers[0].Filtered)
	})
}
