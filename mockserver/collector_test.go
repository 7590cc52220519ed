package mockserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// post sends a body with a write key.
func post(t *testing.T, url, writeKey, body string) (int, map[string]any) {
	t.Helper()
	res, answer := postFull(t, url, writeKey, body)
	return res.StatusCode, answer
}

// postFull is like post and returns the whole response. Its body is already read.
func postFull(t *testing.T, url, writeKey, body string) (*http.Response, map[string]any) {
	t.Helper()
	res, text := ask(t, http.MethodPost, url, body, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(writeKey+":")))
	return res, answer(t, text)
}

// track returns the body of a batch of n track calls.
func track(prefix string, n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"Tested","userId":"u%d","messageId":"%s-%d"}`, i, prefix, i))
	}
	return `{"batch":[` + strings.Join(calls, ",") + `]}`
}

// within returns a context with the test's time limit.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A receiver is a webhook that counts requests and has a configurable response.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		rec.bodies, rec.heads = append(rec.bodies, string(body)), append(rec.heads, r.Header.Clone())
		n := len(rec.bodies)
		rec.mu.Unlock()
		if answer != nil {
			answer(n, w, r)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *receiver) got() ([]string, []http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...), append([]http.Header(nil), r.heads...)
}

func TestCallReachesASignedWebhook(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{{
		Name: "hook",
		Settings: webhook.Settings{
			Webhooks:     []webhook.Endpoint{{URL: rec.URL + "/in", Headers: map[string]string{"X-Team": "growth"}}},
			SharedSecret: "s3cret",
		},
	}}})
	status, answer := post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"track","event":"Signed Up","userId":"u1","messageId":"m1",
		"properties":{"plan":"Pro","seats":12345678901234567890},"timestamp":"2026-01-02T03:04:05Z"}],
		"context":{"library":{"name":"test"}},"sentAt":"2026-01-02T03:04:06Z"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"success": true}, answer)

	calls, err := srv.Wait(within(t), 1, mockserver.DeliveredTo("hook"))
	require.NoError(t, err)
	call := calls[0]
	assert.Equal(t, "Signed Up", call.Event)
	assert.Equal(t, json.Number("12345678901234567890"), call.Properties()["seats"])
	assert.Equal(t, map[string]any{"library": map[string]any{"name": "test"}}, call.Context())
	assert.Equal(t, call.ReceivedAt.Add(-time.Second), call.Timestamp)

	bodies, heads := rec.got()
	require.Len(t, bodies, 1)
	assert.JSONEq(t, fmt.Sprintf(`{"version":1,"type":"track","userId":"u1","event":"Signed Up","properties":{"plan":"Pro","seats":12345678901234567000},
		"context":{"library":{"name":"test"}},"timestamp":%q}`, call.Timestamp.Format("2006-01-02T15:04:05.000Z")), bodies[0])
	require.NoError(t, webhook.Verify("s3cret", []byte(bodies[0]), heads[0].Get("X-Signature")))
	assert.Equal(t, "growth", heads[0].Get("X-Team"))
	assert.Equal(t, "m1", heads[0].Get("X-Message-Id"))
	assert.Equal(t, "1", heads[0].Get("X-Attempt"))

	require.NoError(t, srv.Ready(t.Context()))
	require.NoError(t, srv.Close())
	assert.Error(t, srv.Ready(t.Context()), "it is closed")
}

func TestDuplicateCallsAreStoredOnce(t *testing.T) {
	srv := mockserver.RunT(t)
	var wg sync.WaitGroup
	var answered atomic.Int32
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if status, _ := post(t, srv.URL+"/v1/batch", "key", track("m", 20)); status == http.StatusOK {
					answered.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 40, answered.Load())
	assert.Len(t, srv.Calls(), 20)
	post(t, srv.URL+"/v1/batch", "other", track("m", 20))
	assert.Len(t, srv.Calls(), 40, "ids are those of a source")
	srv.Clear()
	post(t, srv.URL+"/v1/batch", "key", track("m", 20))
	assert.Len(t, srv.Calls(), 20)
}

func TestInvalidCallsDoNotRejectTheirBatch(t *testing.T) {
	const body = `{"batch":[{"type":"track","userId":"u","event":"E"},{"type":"track","userId":"u"},{"type":"nonsense","userId":"u"},
		{"type":"identify"},{"type":"group","userId":"u"},{"type":"alias","userId":"u"},{"type":"page","userId":"u","properties":[]},
		{"type":"identify","userId":"u","traits":1},{"type":"page","userId":"u","timestamp":"yesterday"},7,
		{"type":"identify","userId":"u","traits":{"x":"` + "%s" + `"}}]}`
	large := fmt.Sprintf(body, strings.Repeat("x", 33_000))
	want := []tracking.Code{tracking.CodeNoEvent, tracking.CodeUnknownType, tracking.CodeNoUser, tracking.CodeNoGroup,
		tracking.CodeNoPrevious, tracking.CodeBadProperties, tracking.CodeBadTraits, tracking.CodeBadTimestamp,
		tracking.CodeNotObject, tracking.CodeCallTooLarge}
	codes := func(srv *mockserver.Server) (codes []tracking.Code) {
		for i, r := range srv.Rejections() {
			assert.Equal(t, i+1, r.Index)
			codes = append(codes, r.Code)
		}
		return codes
	}

	lenient := mockserver.RunT(t)
	status, _ := post(t, lenient.URL+"/v1/batch", "key", large)
	assert.Equal(t, http.StatusOK, status)
	assert.Len(t, lenient.Calls(), 1)
	assert.Equal(t, want, codes(lenient))

	strict := mockserver.RunT(t, mockserver.Config{Strict: true})
	status, answer := post(t, strict.URL+"/v1/batch", "key", large)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Len(t, answer["calls"], len(want))
	assert.Empty(t, strict.Calls())
	assert.Equal(t, want, codes(strict))
}

func TestUnknownWriteKeysAreRefused(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "right-key-123"}}})
	status, answer := post(t, srv.URL+"/v1/batch", "wrong-key-123", track("m", 1))
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Equal(t, "unknown_write_key", answer["code"])
	assert.NotContains(t, answer["message"], "wrong-key-123")
	status, _ = post(t, srv.URL+"/v1/batch", "right-key-123", track("m", 1))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "web", srv.Calls()[0].Source)
}
