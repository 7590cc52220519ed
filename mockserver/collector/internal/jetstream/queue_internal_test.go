package jetstream

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// oneCall opens a journal that has one call for a destination.
func oneCall(ctx context.Context, t *testing.T) (*Journal, *queue, journal.Reader) {
	t.Helper()
	j, err := Open(ctx, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
	return j, j.queues.all()[0], r
}

// A message may come again, on the same way or another, while what it is about ends.
func TestWhatEndsWhileItComesAgainIsNotHandedOutAgain(t *testing.T) {
	for name, come := range map[string]func(t *testing.T, q *queue, calls, retry *jetstream.RawStreamMsg){
		"in its turn": func(_ *testing.T, q *queue, calls, _ *jetstream.RawStreamMsg) {
			q.gotCalls(context.Background(), &nats.Msg{Subject: calls.Subject, Header: calls.Header, Data: calls.Data}, calls.Sequence, 0)
		},
		"ahead of others": func(t *testing.T, q *queue, calls, _ *jetstream.RawStreamMsg) {
			assert.NoError(t, q.overtook(calls, "web"))
		},
		"for a retry": func(_ *testing.T, q *queue, _, retry *jetstream.RawStreamMsg) {
			q.gotRetry(context.Background(), &nats.Msg{Subject: retry.Subject, Data: retry.Data}, 0, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			j, q, r := oneCall(ctx, t)
			calls, err := j.calls.GetMsg(ctx, j.acked.Load())
			require.NoError(t, err)
			next, err := r.Next(ctx, journal.Want{})
			require.NoError(t, err)
			var again *jetstream.RawStreamMsg
			if name == "for a retry" {
				require.NoError(t, next.Finish(ctx, journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, 1)}))
				next, err = r.Next(ctx, journal.Want{})
				require.NoError(t, err)
				number := strconv.FormatUint(record.Ref{Seq: calls.Sequence}.Number(), 10)
				again, err = j.retry.GetLastMsgForSubject(ctx, j.Names.Subject("due", record.Token("crm"), number))
				require.NoError(t, err)
			}
			l := next.(*lease)
			o, _ := l.outcome(journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}})
			came := make(chan struct{})
			q.mu.Lock()
			go func() {
				defer close(came)
				come(t, q, calls, again)
			}()
			assert.Equal(t, resultState{counted: true}, <-j.results.write(o)) // meanwhile what has come waits for the queue
			delete(q.items, l.item.Ref)                                       // as it is dropped
			delete(q.messages, l.item.Ref.Seq)
			q.mu.Unlock()
			<-came
			q.mu.Lock()
			defer q.mu.Unlock()
			assert.Empty(t, q.items, "what is to be done")
		})
	}
}

// What was on its way on a connection that is made again comes again, though the server
// has handed it out.
func TestWhatWasOnItsWayComesAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, q, r := oneCall(ctx, t)
	for _, id := range []string{"n", "o"} {
		require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", id, 1)}))
	}
	q.mu.Lock()
	q.fresh.want(2)
	for waiting := 0; waiting < 2 && ctx.Err() == nil; runtime.Gosched() { // one of them to be taken
		waiting, _, _ = q.fresh.sub.Pending()
	}
	q.fresh.reset()
	q.mu.Unlock()
	var got []string
	for len(got) < 3 {
		l, err := r.Next(ctx, journal.Want{})
		require.NoError(t, err, "%v came", got)
		got = append(got, l.Entry().Calls[0].ID)
		require.NoError(t, l.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
	}
	all, err := j.Verify(ctx)
	require.NoError(t, err)
	assert.True(t, all[0].OK(), "%+v", all[0])
	assert.Zero(t, all[0].Pending)
}
