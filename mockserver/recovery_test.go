package mockserver_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestRecoveredDestinationIsNotFailing checks that attempts from before a recovery do not count, also
// if there are few calls.
func TestRecoveredDestinationIsNotFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/d")}})
		now := func() engine.DestinationStatus { return srv.Engine().Status()[0] }
		h.answer("/d", status(http.StatusServiceUnavailable))
		send(t, srv, track("m", 3))
		time.Sleep(time.Hour)
		before := now()
		assert.Equal(t, engine.DestinationFailing, before.State)
		assert.Greater(t, before.RecentFailures, 10)

		h.answer("/d", status(http.StatusOK))
		time.Sleep(time.Hour)
		s := now()
		assert.Equal(t, engine.DestinationDelivering, s.State)
		assert.Equal(t, 3, s.RecentAttempts)
		assert.Zero(t, s.RecentFailures)
	})
}

// TestBriefRecoveryDoesNotCount checks that the state of a destination that fails most calls does not
// change with each success.
func TestBriefRecoveryDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/d")}})
		var n atomic.Int64
		h.answer("/d", func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1)%20 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		for i := range 200 {
			send(t, srv, single(fmt.Sprint("m-", i), "u"))
			synctest.Wait()
			if s := srv.Engine().Status()[0]; i > 0 && s.State == engine.DestinationDelivering {
				assert.Fail(t, "delivering", "after call %d: %+v", i, s)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestFailedBatchIsOneRecentFailure checks that the state of a destination counts requests, not the calls
// in them.
func TestFailedBatchIsOneRecentFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/d")
		d.Batch = webhook.Batch{Calls: 100}
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
		for _, code := range []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable} {
			time.Sleep(time.Second)
			h.answer("/d", status(code))
			send(t, srv, track(fmt.Sprint(time.Now().Unix(), "-"), 100))
			synctest.Wait()
		}
		s := srv.Engine().Status()[0]
		assert.Equal(t, engine.DestinationDelivering, s.State)
		assert.Equal(t, []int{3, 1}, []int{s.RecentAttempts, s.RecentFailures})
		assert.Equal(t, []int64{3, 1}, []int64{s.Measures.Hour.Attempts, s.Measures.Hour.Failed})
	})
}
