package jetstream_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestCallsAreDeliveredWhileASourceIsConnected connects a destination to another source under
// load. Every accepted call must be delivered.
func TestCallsAreDeliveredWhileASourceIsConnected(t *testing.T) {
	t.Parallel()
	j := open(t, jetstream.Options{Dir: t.TempDir()})
	for round := range 5 {
		name := fmt.Sprint("d", round)
		before := attach(t, j, name, "web")
		var goingOn sync.WaitGroup
		worked := make(chan struct{})
		goingOn.Go(func() {
			for n := 0; ; n++ {
				l, err := before.Next(t.Context(), journal.Want{})
				if err != nil {
					return // the destination is attached again
				}
				if err := l.Finish(within(t), all(l.Entry(), tracking.StateDelivered)); err != nil {
					t.Error(err)
				}
				if n == 5 {
					close(worked)
				}
			}
		})
		attached := make(chan struct{})
		for _, source := range []string{"web", "app"} {
			goingOn.Go(func() {
				for i := 0; !isClosed(attached); i++ {
					calls := journaltest.Calls(source, fmt.Sprint(name, source, i), 1)
					if err := j.Append(within(t), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: calls}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		select {
		case <-worked:
		case <-within(t).Done():
			t.Fatal("nothing is delivered")
		}
		r := attach(t, j, name, "web", "app")
		close(attached)
		goingOn.Wait()
		work(t, r, int(ledgerOf(t, j, name).Pending), delivered)
		ok(t, j.Detach(within(t), name))
	}
}

// all returns a result in which all calls of an entry have the same state.
func all(e journal.Entry, state tracking.State) journal.Result {
	r := journal.Result{Outcomes: make([]tracking.Outcome, len(e.Calls))}
	for i := range r.Outcomes {
		r.Outcomes[i].State = state
	}
	return r
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
