package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A journalFunc is a journal with a function as its Append method.
type journalFunc func(context.Context, event.Batch) error

func (f journalFunc) Append(ctx context.Context, b event.Batch) error { return f(ctx, b) }

// testIngest is a handler that records its events.
type testIngest struct {
	*ingest.Handler

	mu         sync.Mutex // guards the fields below
	stored     []tracking.Call
	repeats    map[string]int // number of duplicates by messageId
	rejections []tracking.Rejection
	refusals   []event.Refusal
}

func (in *testIngest) Observe(e event.Event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch e := e.(type) {
	case event.Accepted:
		in.stored = append(in.stored, e.Calls...)
	case event.Repeated:
		for _, call := range e.Calls {
			in.repeats[call.ID]++
		}
	case tracking.Rejection:
		in.rejections = append(in.rejections, e)
	case event.Refusal:
		in.refusals = append(in.refusals, e)
	}
}

// Stored returns the stored calls.
func (in *testIngest) Stored() []tracking.Call {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stored
}

// newIngest returns a handler with a journal that accepts every batch. Without sources it accepts
// every write key. change modifies the configuration; it may be nil.
func newIngest(change func(*ingest.Config), sources ...tracking.Source) *testIngest {
	in := &testIngest{repeats: map[string]int{}}
	table := ingest.NewSourceTable(sources, len(sources) == 0, []byte("key"))
	config := ingest.Config{
		Journal:  journalFunc(func(context.Context, event.Batch) error { return nil }),
		Observer: in, Dedup: ingest.NewDedup(24*time.Hour, 1_000_000),
		Log: slog.New(slog.DiscardHandler), Limits: ingest.DefaultLimits(tracking.Limits{}),
		Sources:      func() *ingest.SourceTable { return table },
		Integrations: func(string) []string { return nil },
		IsHTTPS:      func(*http.Request) bool { return false },
		ClientOf:     func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() },
		Health:       http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Ready:        http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}
	if change != nil {
		change(&config)
	}
	in.Handler = ingest.NewHandler(config)
	return in
}

// ask sends a request with header lines "Name: value".
func (in *testIngest) ask(method, path string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, body)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	res := httptest.NewRecorder()
	in.ServeHTTP(res, req)
	return res
}

// withKey is a header line with the write key "key".
const withKey = "Authorization: Basic a2V5Og=="

// post sends a body with the write key "key".
func (in *testIngest) post(path, body string) *httptest.ResponseRecorder {
	return in.ask(http.MethodPost, path, strings.NewReader(body), withKey)
}

// decode decodes the JSON of a response.
func decode(t *testing.T, res *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var got map[string]any
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &got), res.Body)
	return got
}

// success is the response to stored calls.
const success = `{"success": true}`

// track returns a batch of n track calls.
func track(prefix string, n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"Tested","userId":"u%d","messageId":"%s-%d"}`, i, prefix, i))
	}
	return `{"batch":[` + strings.Join(calls, ",") + `]}`
}
