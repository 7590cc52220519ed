package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// ingestEvents is an Observer that keeps what it is told.
type ingestEvents struct {
	mu     sync.Mutex // guards events
	events []event.Event
}

func (l *ingestEvents) Observe(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// counts returns how many calls were accepted, and how many requests were refused.
func (l *ingestEvents) counts() (accepted, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		switch e := e.(type) {
		case event.Accepted:
			accepted += len(e.Calls)
		case event.Refusal:
			refused++
		}
	}
	return accepted, refused
}

// discardJournal takes every batch and keeps none.
type discardJournal struct{}

func (discardJournal) Append(context.Context, event.Batch) error { return nil }

// newTestIngest returns a handler for some sources, and what its observer is told.
func newTestIngest(limits tracking.Limits, sources func() []tracking.Source) (*Handler, *ingestEvents) {
	events := &ingestEvents{}
	return NewHandler(Config{
		Journal: discardJournal{}, Observer: events, Dedup: NewDedup(time.Hour, 10_000),
		Log: slog.New(slog.DiscardHandler), Limits: DefaultLimits(limits),
		Sources:      func() *SourceTable { return NewSourceTable(sources(), false) },
		Integrations: func(string) []string { return nil },
		IsHTTPS:      func(*http.Request) bool { return false },
		Health:       http.NotFoundHandler(), Ready: http.NotFoundHandler(),
	}), events
}

// sendTracks sends a batch of n calls, whose messageIds begin with prefix.
func sendTracks(t *testing.T, h http.Handler, writeKey, prefix string, n int) (status int, retryAfter, message string) {
	t.Helper()
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"Tested","userId":"u","messageId":"%s-%d"}`, prefix, i))
	}
	req := httptest.NewRequest(http.MethodPost, "/v1/batch", strings.NewReader(`{"batch":[`+strings.Join(calls, ",")+`]}`))
	req.SetBasicAuth(writeKey, "")
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	var got answer
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
	return res.Code, res.Header().Get("Retry-After"), got.Message
}

func TestSourcesAreHeldToTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, events := newTestIngest(tracking.Limits{CallsPerSecond: 50}, func() []tracking.Source {
			return []tracking.Source{{Name: "slow", WriteKey: "slow-key", CallsPerSecond: 10}, {Name: "usual", WriteKey: "usual-key"}}
		})
		status, _, _ := sendTracks(t, h, "slow-key", "a", 40)
		assert.Equal(t, http.StatusOK, status, "a batch of more than a second's calls passes")
		status, after, message := sendTracks(t, h, "slow-key", "b", 1)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Equal(t, "4", after, "30 calls too many, and one more, at 10 a second")
		assert.Equal(t, `source "slow" sends more than its 10 calls a second; send again in 4s`, message)
		status, _, _ = sendTracks(t, h, "usual-key", "c", 50)
		assert.Equal(t, http.StatusOK, status, "another source is not held up")
		status, after, _ = sendTracks(t, h, "usual-key", "d", 1)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Equal(t, "1", after)

		time.Sleep(4 * time.Second)
		status, _, _ = sendTracks(t, h, "slow-key", "b", 1)
		assert.Equal(t, http.StatusOK, status)
		accepted, refused := events.counts()
		assert.Equal(t, 91, accepted)
		assert.Equal(t, 2, refused)
	})
}

func TestWhatIsSentWithoutARateDoesNotCountLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 0
		h, _ := newTestIngest(tracking.Limits{}, func() []tracking.Source {
			return []tracking.Source{{Name: "s", WriteKey: "key", CallsPerSecond: limit}}
		})
		for i, n := range []int{10, 0, 10} {
			limit = n
			status, _, _ := sendTracks(t, h, "key", fmt.Sprint(i), 5)
			assert.Equal(t, http.StatusOK, status)
			if n == 0 {
				status, _, _ = sendTracks(t, h, "key", "many", 2_000)
				assert.Equal(t, http.StatusOK, status)
			}
		}
	})
}
