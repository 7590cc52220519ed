package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// newIngestInto returns a handler that calls *j as its journal.
func newIngestInto(j *journalFunc) *testIngest {
	return newIngest(func(c *ingest.Config) {
		c.Journal = journalFunc(func(ctx context.Context, b event.Batch) error { return (*j)(ctx, b) })
	})
}

func takeAll(context.Context, event.Batch) error { return nil }

func TestResponsesToStoreFailures(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("the disk is on fire"), http.StatusServiceUnavailable, "unavailable"},
		{fmt.Errorf("%w: it is on fire", journal.ErrFull), http.StatusTooManyRequests, "queue_full"},
	} {
		j := journalFunc(func(context.Context, event.Batch) error { return test.err })
		in := newIngestInto(&j)
		for range 2 { // the failed first attempt must not make the second one a duplicate
			res := in.post("/v1/batch", track("m", 3))
			assert.Equal(t, test.status, res.Code)
			assert.Equal(t, "5", res.Header().Get("Retry-After"))
			assert.Equal(t, test.code, decode(t, res)["code"])
			assert.NotContains(t, res.Body.String(), "fire")
		}
		assert.Empty(t, in.Stored())
	}
}

// TestRefusedRequestsDoNotCountDuplicates checks that duplicates are counted when a request is
// accepted, not when it is refused.
func TestRefusedRequestsDoNotCountDuplicates(t *testing.T) {
	j := journalFunc(takeAll)
	in := newIngestInto(&j)
	require.Equal(t, http.StatusOK, in.post("/v1/batch", track("m", 1)).Code)
	j = func(context.Context, event.Batch) error { return errors.New("not this time") }
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, in.post("/v1/batch", track("m", 2)).Code)
	}
	assert.Empty(t, in.repeats)
	j = takeAll
	require.Equal(t, http.StatusOK, in.post("/v1/batch", track("m", 2)).Code)
	assert.Equal(t, map[string]int{"m-0": 1}, in.repeats)
}

// TestCallsAreStoredOnceAfterSenderTimeout checks that calls are stored once if the sender
// disconnects during the append and sends the calls again, before and after they are stored.
func TestCallsAreStoredOnceAfterSenderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var appended atomic.Int64
		release := make(chan struct{})
		j := journalFunc(func(ctx context.Context, b event.Batch) error {
			stored := make(chan struct{})
			go func() {
				<-release
				appended.Add(int64(len(b.Calls)))
				close(stored)
			}()
			select {
			case <-stored:
				return nil
			case <-ctx.Done(): // the sender disconnected; store the batch anyway
				return ctx.Err()
			}
		})
		in := newIngestInto(&j)
		send := func(patience time.Duration) <-chan int {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			status := make(chan int, 1)
			go func() {
				defer cancel()
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/batch", strings.NewReader(track("m", 3)))
				req.SetBasicAuth("key", "")
				res := httptest.NewRecorder()
				in.ServeHTTP(res, req)
				status <- res.Code
			}()
			return status
		}
		first := send(time.Second)
		time.Sleep(2 * time.Second)
		assert.Equal(t, http.StatusServiceUnavailable, <-send(time.Second), "another sender that disconnects")
		time.AfterFunc(time.Second, func() { close(release) })
		assert.Equal(t, http.StatusOK, <-send(time.Minute), "a waiting sender learns that its calls are stored")
		assert.Equal(t, http.StatusOK, <-first, "a response that no one reads")
		assert.Equal(t, int64(3), appended.Load())
		assert.Len(t, in.Stored(), 3)
	})
}

// TestCallsAreStoredOnceAfterUncertainAppend checks that calls are stored once if the journal
// abandons an append and determines later how many calls are stored.
func TestCallsAreStoredOnceAfterUncertainAppend(t *testing.T) {
	for stored := range 4 {
		synctest.Test(t, func(t *testing.T) {
			known := make(chan struct{})
			j := journalFunc(func(context.Context, event.Batch) error {
				return &journal.AppendError{Err: errors.New("no answer"), Stored: func() int { <-known; return stored }}
			})
			in := newIngestInto(&j)
			send := func() int { return in.post("/v1/batch", track("m", 3)).Code }
			assert.Equal(t, http.StatusServiceUnavailable, send())
			assert.Equal(t, http.StatusServiceUnavailable, send(), "no request waits for an uncertain append")
			again := []string{}
			j = func(_ context.Context, b event.Batch) error {
				for _, call := range b.Calls {
					again = append(again, call.ID)
				}
				return nil
			}
			close(known)
			synctest.Wait()
			assert.Len(t, in.Stored(), stored)
			assert.Equal(t, http.StatusOK, send())
			assert.Equal(t, []string{"m-0", "m-1", "m-2"}[stored:], again)
			assert.Len(t, in.Stored(), 3)
		})
	}
}

// TestDuplicateWaitsForPendingRequest checks two requests with the same call. If the request that
// stores the call fails, the other one must not respond with 200.
func TestDuplicateWaitsForPendingRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, first := make(chan struct{}), true
		j := journalFunc(func(context.Context, event.Batch) error {
			if !first {
				return nil
			}
			first = false
			<-release
			return errors.New("not this time")
		})
		in := newIngestInto(&j)
		var requests sync.WaitGroup
		status := make([]int, 2)
		for i := range status {
			requests.Go(func() { status[i] = in.post("/v1/batch", track("m", 2-i)).Code })
			synctest.Wait()
		}
		close(release)
		requests.Wait()
		assert.Equal(t, []int{http.StatusServiceUnavailable, http.StatusOK}, status)
		require.Len(t, in.Stored(), 1)
		assert.Equal(t, "m-0", in.Stored()[0].ID)
		assert.Empty(t, in.repeats)
	})
}

func TestDeduplicationPerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIngest(func(c *ingest.Config) { c.Dedup = ingest.NewDedup(time.Hour, 100) })
		send := func(prefix string, n int) int {
			before := len(in.Stored())
			require.Equal(t, http.StatusOK, in.post("/v1/batch", track(prefix, n)).Code)
			return len(in.Stored()) - before
		}
		assert.Equal(t, 10, send("a", 10))
		assert.Equal(t, 0, send("a", 10))
		assert.Equal(t, 5, send("a", 15))
		time.Sleep(59 * time.Minute)
		assert.Equal(t, 0, send("a", 15), "within the window")
		time.Sleep(time.Hour)
		send("b", 1)
		time.Sleep(time.Hour)
		send("b", 1)
		assert.Equal(t, 15, send("a", 15), "after two windows the calls are new")
		for i := range 10 {
			send(fmt.Sprint("c", i), 50)
		}
		assert.Equal(t, 50, send("c0", 50), "the oldest were dropped")
		assert.Equal(t, 0, send("c0", 50), "the newest were not")
	})
}
