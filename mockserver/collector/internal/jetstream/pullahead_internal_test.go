package jetstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// deliverAll delivers all entries that journal i receives until ctx ends.
func (s *sharing) deliverAll(ctx context.Context, i int, delivered chan<- string) {
	for {
		l, err := s.readers[i].Next(ctx, journal.Want{})
		if ctx.Err() != nil {
			return
		}
		if !assert.NoError(s, err) {
			return
		}
		assert.NoError(s, l.Finish(s.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
		delivered <- l.Entry().Calls[0].ID
	}
}

// TestOneRequestForSeveralMessages checks that a process that alone receives messages requests several
// at once. If two processes receive messages and one stops delivering, no messages wait in it.
func TestOneRequestForSeveralMessages(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		delivered := make(chan string)
		send := func(n int) {
			for range n {
				s.append("a", 1)
				<-delivered
				time.Sleep(time.Second)
			}
		}
		first, stopFirst := context.WithCancel(t.Context())
		go s.deliverAll(first, 0, delivered)
		send(40)
		require.LessOrEqual(t, s.streams[0].requests.Load(), int64(15))

		second, stopSecond := context.WithCancel(t.Context())
		defer stopSecond()
		go s.deliverAll(second, 1, delivered)
		send(20)
		stopFirst()
		late := 0
		for range 10 {
			s.append("b", 1)
			select {
			case <-delivered:
			case <-time.After(time.Second):
				late++
			}
		}
		require.LessOrEqual(t, late, 1, "the first process had requested one message")
		for range late {
			<-delivered
		}
	})
}
