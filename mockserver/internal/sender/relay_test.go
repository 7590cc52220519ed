package sender_test

import (
	"compress/gzip"
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

// An otherCollector is a transport that reads batches like the tracking API.
type otherCollector struct {
	mu      sync.Mutex // guards the fields below
	batches []relayedBatch
	respond func(n int, b relayedBatch) (status int, header http.Header) // nil for 200
}

type relayedBatch struct {
	header http.Header
	text   string
	Batch  []struct{ MessageID string }
	SentAt time.Time
}

func (o *otherCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	b := relayedBatch{header: r.Header}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	b.text = string(text)
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches = append(o.batches, b)
	status, header := http.StatusOK, http.Header{}
	if o.respond != nil {
		status, header = o.respond(len(o.batches), b)
	}
	const other = `{"failed":["a"]}` // not a webhook.BatchResponse
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(other)), Header: header}, nil
}

// newRelay returns a function that concurrently sends identify calls with the given messageIds, and
// returns their results.
func newRelay(t *testing.T, o *otherCollector, settings webhook.Settings) func(number int, ids ...string) []webhook.Attempt {
	s, err := sender.New(webhook.SenderConfig{Transport: o}, nil)
	require.NoError(t, err)
	settings.Type, settings.WriteKey = webhook.TypeRelay, "key"
	require.NoError(t, settings.Validate())
	b := sender.NewBatcher(&settings, make(chan struct{}, 4), s.Send)
	return func(number int, ids ...string) []webhook.Attempt {
		attempts := make([]webhook.Attempt, len(ids))
		var all sync.WaitGroup
		for i, id := range ids {
			call := fmt.Sprintf(`{"type":"identify","userId":"u","messageId":%q}`, id)
			request, err := sender.NewElement(&settings, sender.Content{ID: id, Body: []byte(call), Number: number})
			require.NoError(t, err)
			request.Endpoint = settings.Endpoints()[0]
			all.Go(func() { attempts[i] = b.Send(t.Context(), request, func() bool { return false }) })
		}
		all.Wait()
		return attempts
	}
}

func TestRelayedBody(t *testing.T) {
	settings := &webhook.Settings{Type: webhook.TypeRelay, WriteKey: "key"}
	now := time.Date(2026, 11, 26, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	for name, c := range map[string]struct{ stored, relayed string }{
		"times": {
			`{"type":"track","event":"A","receivedAt":"2026-01-01T00:00:01.000Z","sentAt":"2025-01-01T00:00:00.000Z","originalTimestamp":"2024-12-31T23:59:59.000Z","timestamp":"2026-01-01T00:00:00.000Z"}`,
			`{"type":"track","event":"A","timestamp":"2026-01-01T00:00:00.000Z"}`,
		},
		"keys with escapes":      {`{"sent\u0041t":"2025-01-01T00:00:00.000Z","type":"page"}`, `{"type":"page"}`},
		"digits and white space": {`{ "type" : "track", "properties": {"id": 9007199254740993, "sentAt": 1} }`, `{"type" : "track","properties": {"id": 9007199254740993, "sentAt": 1}}`},
		"a list of destinations": {`{"integrations":{"All":false,"Webhooks":{"destinations":["relay"]}},"type":"page"}`, `{"type":"page"}`},
		"context and integrations": {
			`{"context":{"ip":"192.0.2.1","library":{"name":"analytics.js"}},"integrations":{"All":false},"type":"alias"}`,
			`{"context":{"ip":"192.0.2.1","library":{"name":"analytics.js"}},"integrations":{"All":false},"type":"alias"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sender.NewCallRequest(settings, sender.Content{ID: "m", Body: []byte(c.stored), Number: 1, At: now})
			require.NoError(t, err)
			assert.Equal(t, `{"batch":[`+c.relayed+`],"sentAt":"2026-11-26T11:00:00.005Z"}`, string(r.Body))
		})
	}
}

func TestRelayLimitsCallSize(t *testing.T) {
	settings := &webhook.Settings{Type: webhook.TypeRelay, WriteKey: "key"}
	call := func(size int) sender.Content {
		const empty = `{"type":"page","userId":""}`
		return sender.Content{Body: []byte(strings.Replace(empty, `""`, `"`+strings.Repeat("u", size-len(empty))+`"`, 1))}
	}
	_, err := sender.NewElement(settings, call(32<<10))
	require.NoError(t, err)
	_, err = sender.NewElement(settings, call(32<<10+1))
	require.EqualError(t, err, "the call has 32769 bytes; other collectors accept at most 32768")
}

func TestRelayHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &otherCollector{}
		send := newRelay(t, o, webhook.Settings{})
		send(1, "a")
		send(3, "a")
		require.Len(t, o.batches, 2)
		first, third := o.batches[0], o.batches[1]
		id := first.header.Get(webhook.RelayHeader)
		assert.NotEmpty(t, id)
		assert.Equal(t, http.Header{
			"Authorization": {"Basic a2V5Og=="}, "Content-Encoding": {"gzip"}, "Content-Type": {"application/json"},
			"User-Agent": {"analytics-go/1.0"}, "X-Relay-Id": {id},
		}, first.header)
		assert.Equal(t, "2", third.header.Get("X-Retry-Count"))
		assert.True(t, third.SentAt.After(first.SentAt), "sentAt is the time of the request")
	})
}

func TestRelayedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &otherCollector{}
		var ids []string
		for i := range 250 {
			ids = append(ids, fmt.Sprintf("%064d", i))
		}
		newRelay(t, o, webhook.Settings{Batch: webhook.Batch{Bytes: 4970}})(1, ids...)
		var got []string
		for _, b := range o.batches {
			assert.LessOrEqual(t, len(b.text), 4970)
			for _, c := range b.Batch {
				got = append(got, c.MessageID)
			}
		}
		assert.ElementsMatch(t, ids, got)
		size := len(o.batches[0].text)
		assert.Greater(t, size, 4800, "the batch has room for another call")

		o.batches = nil
		newRelay(t, o, webhook.Settings{})(1, ids...)
		var sizes []int
		for _, b := range o.batches {
			sizes = append(sizes, len(b.Batch))
		}
		assert.ElementsMatch(t, []int{100, 100, 50}, sizes)
	})
}

func TestRelayResponses(t *testing.T) {
	for _, c := range []struct {
		status     int
		retryAfter string // or X-RateLimit-Reset, after a colon
		verdict    webhook.Verdict
		pause      time.Duration
		error      string
	}{
		{status: 200, verdict: webhook.Success},
		{status: 202, verdict: webhook.Success},
		{status: 302, verdict: webhook.Permanent, error: `responded with 302 (Found) to "": redirects are not followed; use the final URL`},
		{status: 400, verdict: webhook.Permanent, error: "responded with 400 (Bad Request)"},
		{status: 401, verdict: webhook.Temporary, pause: time.Minute, error: "responded with 401 (Unauthorized); check the write key"},
		{status: 403, verdict: webhook.Temporary, pause: time.Minute, error: "responded with 403 (Forbidden); check the write key"},
		{status: 404, verdict: webhook.Permanent, error: "responded with 404 (Not Found)"},
		{status: 408, verdict: webhook.Temporary, error: "responded with 408 (Request Timeout)"},
		{status: 410, verdict: webhook.Temporary, error: "responded with 410 (Gone)"},
		{status: 413, verdict: webhook.Permanent, error: "responded with 413 (Request Entity Too Large)"},
		{status: 429, retryAfter: "7", verdict: webhook.Temporary, pause: 7 * time.Second, error: "responded with 429 (Too Many Requests)"},
		{status: 429, retryAfter: "3600", verdict: webhook.Temporary, pause: sender.MaxPause, error: "responded with 429 (Too Many Requests)"},
		{status: 429, retryAfter: ":9", verdict: webhook.Temporary, pause: 9 * time.Second, error: "responded with 429 (Too Many Requests)"},
		{status: 460, verdict: webhook.Temporary, error: "responded with 460"},
		{status: 500, verdict: webhook.Temporary, error: "responded with 500 (Internal Server Error)"},
		{status: 501, verdict: webhook.Permanent, error: "responded with 501 (Not Implemented)"},
		{status: 503, retryAfter: "5", verdict: webhook.Temporary, pause: 5 * time.Second, error: "responded with 503 (Service Unavailable)"},
		{status: 508, verdict: webhook.Temporary, pause: time.Minute, error: "responded with 508 (Loop Detected); the endpoint is this collector"},
		{status: 511, retryAfter: "5", verdict: webhook.Permanent, error: "responded with 511 (Network Authentication Required)"},
	} {
		t.Run(fmt.Sprint(c.status, c.retryAfter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &otherCollector{respond: func(int, relayedBatch) (int, http.Header) {
					after, reset, _ := strings.Cut(c.retryAfter, ":")
					return c.status, http.Header{"Retry-After": {after}, "X-Ratelimit-Reset": {reset}}
				}}
				a := newRelay(t, o, webhook.Settings{})(1, "a")[0]
				assert.Equal(t, c.verdict, a.Verdict)
				assert.Equal(t, c.error, a.Error)
				assert.Equal(t, c.pause, sender.RequestedPause(&a))
				if c.verdict != webhook.Temporary {
					assert.Zero(t, a.RetryAfter)
				}
			})
		})
	}
}

// A receiver that does not read gzip gets uncompressed requests after its first response.
func TestRelayStopsCompressing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &otherCollector{respond: func(_ int, b relayedBatch) (int, http.Header) {
			if b.header.Get("Content-Encoding") != "" {
				return http.StatusUnsupportedMediaType, nil
			}
			return http.StatusOK, nil
		}}
		send := newRelay(t, o, webhook.Settings{})
		a := send(1, "a")[0]
		assert.Equal(t, webhook.Temporary, a.Verdict)
		assert.Equal(t, "responded with 415 (Unsupported Media Type); later requests are not compressed", a.Error)
		assert.Equal(t, webhook.Success, send(2, "a")[0].Verdict)
		o.respond = func(int, relayedBatch) (int, http.Header) { return http.StatusUnsupportedMediaType, nil }
		assert.Equal(t, webhook.Permanent, send(1, "b")[0].Verdict)
	})
}

// A call that the receiver refuses fails alone.
func TestRelayFindsRefusedCall(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity} {
		synctest.Test(t, func(t *testing.T) {
			accepted := map[string]int{}
			o := &otherCollector{respond: func(_ int, b relayedBatch) (int, http.Header) {
				if slices.ContainsFunc(b.Batch, func(c struct{ MessageID string }) bool { return c.MessageID == "57" }) {
					return status, nil
				}
				for _, c := range b.Batch {
					accepted[c.MessageID]++
				}
				return http.StatusOK, nil
			}}
			var ids []string
			for i := range 100 {
				ids = append(ids, fmt.Sprint(i))
			}
			for i, a := range newRelay(t, o, webhook.Settings{})(1, ids...) {
				want := map[bool]webhook.Verdict{true: webhook.Permanent, false: webhook.Success}[ids[i] == "57"]
				assert.Equal(t, want, a.Verdict, ids[i])
				assert.Equal(t, map[bool]int{false: 1}[ids[i] == "57"], accepted[ids[i]], ids[i])
			}
			assert.LessOrEqual(t, len(o.batches), 1+2*7, "requests")
		})
	}
}
