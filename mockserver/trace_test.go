package mockserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tracestate  = "vendor=1,other=2"
)

// tracedHooks records the trace headers of requests by host.
type tracedHooks struct {
	mu   sync.Mutex // guards the fields below
	got  map[string][][2]string
	fail bool
}

func (th *tracedHooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.got[r.Host] = append(th.got[r.Host], [2]string{r.Header.Get("traceparent"), r.Header.Get("tracestate")})
	if th.fail {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// answer sets the response of later requests to 503 or 200.
func (th *tracedHooks) answer(fail bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.fail = fail
}

// take returns and clears the recorded headers.
func (th *tracedHooks) take() map[string][][2]string {
	th.mu.Lock()
	defer th.mu.Unlock()
	got := th.got
	th.got = map[string][][2]string{}
	return got
}

func newTraced(t *testing.T) (*engine.Collector, *tracedHooks) {
	th := &tracedHooks{got: map[string][][2]string{}}
	config := engine.Config{Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(th)}, Jitter: func() float64 { return 0.5 }}
	for _, as := range []webhook.TraceContext{"", webhook.TraceParent, webhook.TraceAll, webhook.TraceNone} {
		name := string(as)
		if as == "" {
			name = "default"
		}
		d := hook(name, "http://"+name)
		d.TraceContext = as
		config.Destinations = append(config.Destinations, d)
	}
	return newCollector(t, config), th
}

// sendTraced sends a batch with headers.
func sendTraced(t *testing.T, h http.Handler, header http.Header, ids ...string) {
	t.Helper()
	var calls []string
	for _, id := range ids {
		calls = append(calls, `{"type":"track","event":"e","userId":"u","messageId":"`+id+`"}`)
	}
	req := httptest.NewRequest("POST", "/v1/batch", strings.NewReader(`{"batch":[`+strings.Join(calls, ",")+`]}`))
	req.SetBasicAuth("web", "")
	for name, values := range header {
		req.Header[name] = values
	}
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	require.Equal(t, 200, res.Code, res.Body)
}

func wantTraced(n int) map[string][][2]string {
	want := map[string][][2]string{}
	for range n {
		want["default"] = append(want["default"], [2]string{traceparent, ""})
		want["parent"] = append(want["parent"], [2]string{traceparent, ""})
		want["all"] = append(want["all"], [2]string{traceparent, tracestate})
		want["none"] = append(want["none"], [2]string{"", ""})
	}
	return want
}

func traceHeader() http.Header {
	return http.Header{"Traceparent": {traceparent}, "Tracestate": {tracestate}}
}

func TestTraceContextReachesWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, th := newTraced(t)
		sendTraced(t, c, traceHeader(), "a", "b")
		synctest.Wait()
		assert.Equal(t, wantTraced(2), th.take())

		for name, replayed := range map[string]tracking.State{"all": tracking.StateDelivered, "parent": tracking.StateDelivered} {
			n, err := c.Replay(t.Context(), name, engine.Selection{State: replayed})
			require.NoError(t, err)
			require.Equal(t, 2, n)
			synctest.Wait()
			assert.Equal(t, map[string][][2]string{name: wantTraced(2)[name]}, th.take(), "a replay of delivered calls")
		}
	})
}

func TestTraceSurvivesRetriesAndReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, th := newTraced(t)
		th.answer(true)
		sendTraced(t, c, traceHeader(), "a")
		synctest.Wait()
		th.take()
		time.Sleep(time.Second) // longer than the first backoff
		assert.Equal(t, wantTraced(1), th.take())
		time.Sleep(5 * time.Hour) // longer than the retry window
		th.take()
		th.answer(false)
		for _, name := range []string{"default", "all"} {
			n, err := c.Replay(t.Context(), name, engine.Selection{})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			synctest.Wait()
			assert.Equal(t, map[string][][2]string{name: wantTraced(1)[name]}, th.take())
		}
	})
}

func TestRequestsWithoutAValidTraceHaveNone(t *testing.T) {
	for name, header := range map[string]http.Header{
		"none":              {},
		"one that is wrong": {"Traceparent": {"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"}, "Tracestate": {tracestate}},
		"two":               {"Traceparent": {traceparent, traceparent}},
		"a state alone":     {"Tracestate": {tracestate}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, th := newTraced(t)
				sendTraced(t, c, header, "a")
				synctest.Wait()
				none := [][2]string{{"", ""}}
				assert.Equal(t, map[string][][2]string{"default": none, "parent": none, "all": none, "none": none}, th.take())
			})
		})
	}
}
