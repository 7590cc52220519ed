package sender_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A batchReceiver is a transport that records batches.
type batchReceiver struct {
	mu      sync.Mutex // guards got
	got     [][]string // messageIds of each request
	headers []http.Header
	respond func(ids []string) (status int, body string) // nil for 200
}

func (b *batchReceiver) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var calls []struct{ MessageID string }
	if err := json.Unmarshal(body, &calls); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	if again, err := webhook.Canonical(nil, body); err != nil || string(again) != string(body) {
		return nil, fmt.Errorf("not canonical: %s", body)
	}
	ids := []string{}
	for _, c := range calls {
		ids = append(ids, c.MessageID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got, b.headers = append(b.got, ids), append(b.headers, r.Header)
	status, text := http.StatusOK, ""
	if b.respond != nil {
		status, text = b.respond(ids)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Header: http.Header{}}, nil
}

// newBatcher returns a function that sends calls concurrently and returns their results. Calls whose
// IDs begin with "old" are obsolete.
func newBatcher(t *testing.T, r *batchReceiver, batch webhook.Batch) func(ids ...string) []webhook.Attempt {
	s, err := sender.New(webhook.SenderConfig{Transport: r}, nil)
	require.NoError(t, err)
	settings := &webhook.Settings{Batch: batch, SharedSecret: "s3cret", Signature: webhook.SignatureBoth}
	b := sender.NewBatcher(settings, make(chan struct{}, 4), s.Send)
	return func(ids ...string) []webhook.Attempt {
		results := make([]webhook.Attempt, len(ids))
		var all sync.WaitGroup
		for i, id := range ids {
			call := fmt.Sprintf(`{"type":"identify","userId":"u","messageId":%q,"timestamp":"2026-01-01T00:00:00.000Z"}`, id)
			request, err := sender.NewElement(settings, sender.Content{ID: id, Body: []byte(call), Number: 1 + i})
			require.NoError(t, err)
			request.Endpoint.URL = "http://hook"
			all.Go(func() {
				results[i] = b.Send(t.Context(), request, func() bool { return strings.HasPrefix(id, "old") })
			})
			synctest.Wait() // keeps the order of the calls
		}
		all.Wait()
		return results
	}
}

func verdicts(results []webhook.Attempt) (all []webhook.Verdict) {
	for _, r := range results {
		all = append(all, r.Verdict)
	}
	return all
}

func TestBatches(t *testing.T) {
	ok, temporary, permanent := webhook.Success, webhook.Temporary, webhook.Permanent
	refuses := func(bad string, status int) func(ids []string) (int, string) {
		return func(ids []string) (int, string) {
			if slices.Contains(ids, bad) {
				return status, ""
			}
			return http.StatusOK, ""
		}
	}
	for name, test := range map[string]struct {
		batch    webhook.Batch
		ids      string
		respond  func(ids []string) (int, string)
		requests string
		verdicts []webhook.Verdict
		took     time.Duration
	}{
		"a full batch is sent at once":    {webhook.Batch{Calls: 2}, "a b c d", nil, "a b, c d", []webhook.Verdict{ok, ok, ok, ok}, 0},
		"the rest is sent after the wait": {webhook.Batch{Calls: 2, Wait: webhook.Duration(3 * time.Second)}, "a b c", nil, "a b, c", []webhook.Verdict{ok, ok, ok}, 3 * time.Second},
		"the wait is one second":          {webhook.Batch{Calls: 10}, "a", nil, "a", []webhook.Verdict{ok}, time.Second},
		"the array is limited":            {webhook.Batch{Calls: 10, Bytes: 1000}, "a b " + strings.Repeat("c", 800) + " d", nil, "a b, " + strings.Repeat("c", 800) + ", d", nil, time.Second},
		"obsolete calls are not sent":     {webhook.Batch{Calls: 4}, "old1 a old2 b", nil, "a b", []webhook.Verdict{temporary, ok, temporary, ok}, 0},
		"no empty batch is sent":          {webhook.Batch{Calls: 2}, "old1 old2", nil, "", []webhook.Verdict{temporary, temporary}, 0},
		"an error applies to all":         {webhook.Batch{Calls: 3}, "a b c", refuses("b", 503), "a b c", []webhook.Verdict{temporary, temporary, temporary}, 0},
		"a refused call fails alone":      {webhook.Batch{Calls: 4}, "a b c d", refuses("c", 400), "a b c d, a b, c d, c, d", []webhook.Verdict{ok, ok, permanent, ok}, 0},
		"a wrong address refuses all":     {webhook.Batch{Calls: 4}, "a b c d", refuses("c", 404), "a b c d", []webhook.Verdict{permanent, permanent, permanent, permanent}, 0},
		"the response refuses calls": {webhook.Batch{Calls: 3}, "a b c", func([]string) (int, string) {
			return 200, `{"failed":[{"messageId":"a","retry":true},{"messageId":"c","reason":"no"}]}`
		}, "a b c", []webhook.Verdict{temporary, ok, permanent}, 0},
		"another body means success":      {webhook.Batch{Calls: 2}, "a b", func([]string) (int, string) { return 202, "thanks" }, "a b", []webhook.Verdict{ok, ok}, 0},
		"null names no calls":             {webhook.Batch{Calls: 2}, "a b", func([]string) (int, string) { return 200, `{"failed":null}` }, "a b", []webhook.Verdict{ok, ok}, 0},
		"an unknown messageId is ignored": {webhook.Batch{Calls: 2}, "a b", func([]string) (int, string) { return 200, `{"failed":[{"messageId":"x"}]}` }, "a b", []webhook.Verdict{ok, ok}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &batchReceiver{respond: test.respond}
				began := time.Now()
				attempts := newBatcher(t, r, test.batch)(strings.Fields(test.ids)...)
				assert.Equal(t, test.took, time.Since(began))
				var requests []string
				for _, ids := range r.got {
					requests = append(requests, strings.Join(ids, " "))
				}
				want := slices.DeleteFunc(strings.Split(test.requests, ", "), func(ids string) bool { return ids == "" })
				assert.ElementsMatch(t, want, requests)
				if test.verdicts != nil {
					assert.Equal(t, test.verdicts, verdicts(attempts))
				}
			})
		})
	}
}

func TestBatchHeadersAndResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchReceiver{respond: func([]string) (int, string) {
			return 200, `{"failed":[{"messageId":"b","reason":"` + strings.Repeat("x", 500) + `"}]}`
		}}
		attempts := newBatcher(t, r, webhook.Batch{Calls: 2})("a", "b")
		h := r.headers[0]
		assert.Equal(t, "2", h.Get("X-Attempt"))
		assert.Empty(t, h.Get("X-Message-Id"))
		assert.Regexp(t, `^batch_[0-9a-f]{32}$`, h.Get("Webhook-Id"))
		assert.NotEmpty(t, h.Get("X-Signature"))
		assert.NotEmpty(t, h.Get("Webhook-Signature"))
		assert.Equal(t, 2, attempts[0].Calls)
		assert.JSONEq(t, `{"version":1,"type":"identify","userId":"u","traits":{},"timestamp":"2026-01-01T00:00:00.000Z","messageId":"a"}`, string(attempts[0].RequestBody))
		assert.Equal(t, 1, attempts[0].Number)
		assert.Len(t, attempts[1].Error, len("refused in the response to the batch: ")+200+len("…"))
		assert.Equal(t, attempts[1].Error, sender.Cause(&attempts[1]), "the response lists other calls, too")
	})
}

// TestUnreadableBatchResponse checks that calls are not lost if the receiver lists failed calls in another
// format.
func TestUnreadableBatchResponse(t *testing.T) {
	for _, body := range []string{
		`{"failed":["a"]}`, `{"failed":"a"}`, `{"failed":{"messageId":"a"}}`, `{"failed":[{"messageId":17}]}`, `{"failed":[{"messageId":"a","retry":"yes"}]}`,
		`{"failed":[{"id":"a"}]}`, `{"failed":[null]}`, `{"Failed":["a"]}`, `{"failed":[{"messageId":"a"},]}`, `[{"messageId":"a","failed":true}]`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &batchReceiver{respond: func([]string) (int, string) { return 200, body }}
			for _, a := range newBatcher(t, r, webhook.Batch{Calls: 2})("a", "b") {
				assert.Equal(t, webhook.Temporary, a.Verdict, body)
				assert.Equal(t, `cannot read "failed" in the response: use {"failed": [{"messageId": "m-17"}]}`, sender.Cause(&a))
			}
		})
	}
}

func TestResponsesWithoutFailedCalls(t *testing.T) {
	for _, body := range []string{`{}`, `ok`, `{"failed":[]}`, `{"failed":null}`, `{"received":2,"failed":0}`, `{"failed": false}`, `{"failed":""}`, `{"failed":{}}`} {
		synctest.Test(t, func(t *testing.T) {
			r := &batchReceiver{respond: func([]string) (int, string) { return 200, body }}
			for _, a := range newBatcher(t, r, webhook.Batch{Calls: 2})("a", "b") {
				assert.Equal(t, webhook.Success, a.Verdict, body)
			}
		})
	}
}

func TestCanceledBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := sender.New(webhook.SenderConfig{Transport: &batchReceiver{}}, nil)
		require.NoError(t, err)
		settings := &webhook.Settings{Batch: webhook.Batch{Calls: 10}}
		b := sender.NewBatcher(settings, make(chan struct{}, 4), s.Send)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		a := b.Send(ctx, sender.Request{Endpoint: webhook.Endpoint{URL: "http://hook"}, Body: []byte("{}"), MessageID: "a", Number: 1}, func() bool { return false })
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		assert.Equal(t, webhook.ReasonCanceled, a.Reason)
	})
}

// TestOneResultOfARequestIsNotShared checks that the results of a request are shared except for one: of
// a call with the fewest attempts.
func TestOneResultOfARequestIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchReceiver{respond: func(ids []string) (int, string) {
			if len(ids) > 2 {
				return http.StatusRequestEntityTooLarge, ""
			}
			return http.StatusServiceUnavailable, ""
		}}
		s, err := sender.New(webhook.SenderConfig{Transport: r}, nil)
		require.NoError(t, err)
		b := sender.NewBatcher(&webhook.Settings{Batch: webhook.Batch{Calls: 5}}, make(chan struct{}, 4), s.Send)
		var shared [5]bool
		for i, attempt := range []int{1, 3, 2, 1, 1} { // the first is obsolete; the others are sent in two requests
			go func() {
				request := sender.Request{Endpoint: webhook.Endpoint{URL: "http://hook"}, Body: []byte(`{"messageId":"m"}`), Number: attempt}
				shared[i] = b.Send(t.Context(), request, func() bool { return i == 0 }).Shared
			}()
			synctest.Wait() // keeps the order of the calls
		}
		synctest.Wait()
		assert.Equal(t, [5]bool{false, true, false, false, true}, shared)
	})
}

// TestBatchesInFlightAreLimited checks that a batch accepts further calls while it waits for a slot.
func TestBatchesInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		running, most := 0, 0
		b := sender.NewBatcher(&webhook.Settings{Batch: webhook.Batch{Calls: 10, Wait: webhook.Duration(10 * time.Millisecond)}}, make(chan struct{}, 2), func(_ context.Context, r sender.Request) webhook.Attempt {
			mu.Lock()
			sizes, running = append(sizes, r.Calls), running+1
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		var all sync.WaitGroup
		for range 15 {
			all.Go(func() {
				a := b.Send(t.Context(), sender.Request{Body: []byte("{}")}, func() bool { return false })
				assert.Equal(t, webhook.Success, a.Verdict)
			})
			time.Sleep(50 * time.Millisecond)
		}
		all.Wait()
		assert.Equal(t, 2, most)
		assert.Equal(t, []int{1, 1, 10, 3}, sizes)
	})
}

// TestBatchDoesNotRetainLongResponses checks that a result with the beginning of a long response does not
// keep the whole response in memory.
func TestBatchDoesNotRetainLongResponses(t *testing.T) {
	long := make([]byte, 2*sender.KeptBody)
	b := sender.NewBatcher(&webhook.Settings{Batch: webhook.Batch{Calls: 2, Wait: 1}}, make(chan struct{}, 1), func(context.Context, sender.Request) webhook.Attempt {
		return webhook.Attempt{Status: http.StatusInternalServerError, Verdict: webhook.Temporary, ResponseBody: long}
	})
	a := b.Send(t.Context(), sender.Request{Body: []byte("{}")}, func() bool { return false })
	long[0] = 'x'
	require.Len(t, a.ResponseBody, sender.KeptBody)
	assert.Zero(t, a.ResponseBody[0])
}
