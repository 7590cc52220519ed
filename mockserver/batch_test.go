package mockserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A batchHook is a webhook that receives batches.
type batchHook struct {
	mu       sync.Mutex // guards the fields below
	requests [][]string // messageIds
	refuse   map[string]bool
	status   int
}

func (b *batchHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var calls []struct{ MessageID string }
	if err := json.Unmarshal(body, &calls); err != nil {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	var response webhook.BatchResponse
	for _, c := range calls {
		ids = append(ids, c.MessageID)
		if b.refuse[c.MessageID] {
			response.Failed = append(response.Failed, webhook.FailedCall{MessageID: c.MessageID, Reason: "unknown user"})
		}
	}
	b.requests = append(b.requests, ids)
	if b.status != 0 {
		w.WriteHeader(b.status)
		return
	}
	_ = json.NewEncoder(w).Encode(response)
}

// take returns the number of requests and of calls since the last take.
func (b *batchHook) take() (requests, calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ids := range b.requests {
		calls += len(ids)
	}
	requests, b.requests = len(b.requests), nil
	return requests, calls
}

func (b *batchHook) respond(status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = status
}

// single returns a batch with one call.
func single(id, user string) string {
	return fmt.Sprintf(`{"batch":[{"type":"track","event":"E","userId":%q,"messageId":%q}]}`, user, id)
}

func TestBatchedDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/batch")
		d.Batch = webhook.Batch{Calls: 50}
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
		hook := &batchHook{refuse: map[string]bool{"m-7": true}}
		h.answer("/batch", hook.ServeHTTP)
		for i := range 220 { // each call is an entry of its own
			send(t, srv, single(fmt.Sprint("m-", i), fmt.Sprint("u", i)))
		}
		time.Sleep(2 * time.Second)
		requests, calls := hook.take()
		assert.Equal(t, 220, calls)
		assert.Equal(t, 5, requests)
		l := account(t, srv)
		assert.EqualValues(t, 219, l.Delivered)
		assert.EqualValues(t, 1, l.Failed)

		// An error applies to all calls of the batch, and they are sent again.
		hook.respond(http.StatusServiceUnavailable)
		send(t, srv, track("n", 40))
		time.Sleep(2 * time.Second)
		assert.EqualValues(t, 40, account(t, srv).Pending)
		hook.respond(0)
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 259, account(t, srv).Delivered)
		hook.take()

		// A pause sends no batch that waits, and loses no call.
		send(t, srv, track("o", 10))
		d.Paused = true
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		time.Sleep(2 * time.Second)
		_, calls = hook.take()
		assert.Zero(t, calls, "a batch was sent after the pause began")
		d.Paused = false
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		time.Sleep(2 * time.Second)
		_, calls = hook.take()
		assert.Equal(t, 10, calls)
		assert.EqualValues(t, 269, account(t, srv).Delivered)
	})
}

func TestBatchedDestinationInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/batch")
		d.Batch, d.Order = webhook.Batch{Calls: 10, Wait: webhook.Duration(100 * time.Millisecond)}, tracking.OrderUser
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
		hook := &batchHook{}
		h.answer("/batch", hook.ServeHTTP)
		for i := range 100 {
			send(t, srv, single(fmt.Sprintf("m-%d-%d", i%20, i/20), fmt.Sprint("u", i%20)))
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 100, account(t, srv).Delivered)
		next := map[int]int{}
		for _, ids := range hook.requests {
			users := map[int]bool{}
			for _, id := range ids {
				var user, n int
				_, err := fmt.Sscanf(id, "m-%d-%d", &user, &n)
				require.NoError(t, err)
				assert.False(t, users[user], "two calls of a user in one batch")
				assert.Equal(t, next[user], n)
				users[user] = true
				next[user]++
			}
		}
	})
}

func TestReloadKeepsConcurrencyOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/batch")
		d.Batch, d.Concurrency = webhook.Batch{Calls: 10, Wait: webhook.Duration(10 * time.Millisecond)}, 2
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
		var open, most atomic.Int64
		h.answer("/batch", func(http.ResponseWriter, *http.Request) {
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			open.Add(-1)
		})
		for i := range 6 {
			send(t, srv, single(fmt.Sprint("m-", i), "u"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 6, account(t, srv).Delivered)
		assert.EqualValues(t, 2, most.Load())
	})
}

func TestTestCallOfABatchedDestination(t *testing.T) {
	hook := &batchHook{}
	receiver := httptest.NewServer(hook)
	t.Cleanup(receiver.Close)
	srv := mockserver.RunT(t, mockserver.Config{})
	status, answer := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","webhooks":[{"url":"`+receiver.URL+`"}],"batch":{"calls":100,"wait":"250ms"}}`)
	require.Equal(t, http.StatusCreated, status, answer)
	assert.Equal(t, object{"calls": 100.0, "wait": "250ms"}, answer["batch"])
	status, answer = askAdmin(t, srv, "POST", "/destinations/crm/test", `{}`)
	require.Equal(t, http.StatusOK, status, answer)
	requests, calls := hook.take()
	assert.Equal(t, [2]int{1, 1}, [2]int{requests, calls})

	for body, problem := range map[string]string{
		`{"batch":{"calls":1}}`:                   "batch.calls: is 1: use a number from 2 to 1,000",
		`{"batch":{"wait":"1s"}}`:                 "batch.calls: is missing",
		`{"batch":{"calls":2,"bytes":5}}`:         "batch.bytes: is 5",
		`{"batch":{"calls":2,"wait":"1h"}}`:       "batch.wait: is 1h0m0s",
		`{"batch":{"calls":2,"wait":"for ever"}}`: "use a duration such as 1s",
	} {
		status, answer = askAdmin(t, srv, "PATCH", "/destinations/crm", body)
		assert.GreaterOrEqual(t, status, 400, body)
		assert.Contains(t, answer["message"], problem, body)
	}
}
