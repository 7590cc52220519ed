package queue_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// oneMessage opens a journal with n calls for a destination in message 2 of CALLS.
func oneMessage(ctx context.Context, t *testing.T, n int) (*jetstream.Journal, *queue.Queue, journal.Reader) {
	t.Helper()
	j, err := jetstream.Open(ctx, jetstream.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", n)}))
	return j, queue.Of(r), r
}

// TestEndedAttemptIsNotLeasedAgain delivers a message again, in the same or another way, while its
// attempt ends.
func TestEndedAttemptIsNotLeasedAgain(t *testing.T) {
	for name, receive := range map[string]func(t *testing.T, q *queue.Queue, calls, retry *natsjetstream.RawStreamMsg){
		"in its turn": func(_ *testing.T, q *queue.Queue, calls, _ *natsjetstream.RawStreamMsg) { q.ReceiveInTurn(calls) },
		"ahead of others": func(t *testing.T, q *queue.Queue, calls, _ *natsjetstream.RawStreamMsg) {
			assert.NoError(t, q.ReceiveAhead(calls, "web"))
		},
		"for a retry": func(_ *testing.T, q *queue.Queue, _, retry *natsjetstream.RawStreamMsg) { q.ReceiveRetry(retry) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			j, q, r := oneMessage(ctx, t, 1)
			calls, err := q.Stored(ctx, 2)
			require.NoError(t, err)
			next, err := r.Next(ctx, journal.Want{})
			require.NoError(t, err)
			var again *natsjetstream.RawStreamMsg
			if name == "for a retry" {
				require.NoError(t, next.Finish(ctx, journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, 1)}))
				next, err = r.Next(ctx, journal.Want{})
				require.NoError(t, err)
				number := strconv.FormatUint(record.Ref{Seq: calls.Sequence}.Number(), 10)
				again, err = j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject("due", record.Token("crm"), number))
				require.NoError(t, err)
			}
			delivered := journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}
			items, counted := q.EndWhile(next, delivered, func() { receive(t, q, calls, again) })
			assert.True(t, counted)
			assert.Zero(t, items, "items left")
		})
	}
}

// TestReplayReceivedBeforeOrderingIsOrdered receives a replay while the reader accepts any order.
func TestReplayReceivedBeforeOrderingIsOrdered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, q, r := oneMessage(ctx, t, 1)
	next, err := r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	replayed := next.Entry().Calls
	require.NoError(t, next.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
	require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "n", 1)}))
	require.NoError(t, j.Replay(ctx, "crm", replayed, nil, tracking.StateDelivered))
	retry, err := j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject("due", record.Token("crm"), "*"))
	require.NoError(t, err)
	q.ReceiveRetry(retry)
	for _, want := range []string{"n-0", replayed[0].ID} {
		next, err := r.Next(ctx, journal.Want{InOrder: true})
		require.NoError(t, err)
		assert.Equal(t, want, next.Entry().Calls[0].ID)
	}
}

// TestMessageReadAheadIsLeasedInOrder checks that a reader that delivers in order leases a message that
// was read ahead.
func TestMessageReadAheadIsLeasedInOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, q, r := oneMessage(ctx, t, 1)
	calls, err := q.Stored(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, q.ReceiveAhead(calls, "web"))
	next, err := r.Next(ctx, journal.Want{InOrder: true})
	require.NoError(t, err)
	assert.Equal(t, "m-0", next.Entry().Calls[0].ID)
}

// TestMessageIsReturnedWithAllParts checks that a message stays in the queue with all its parts if
// a reader has just returned one of them. The server would redeliver all parts together.
func TestMessageIsReturnedWithAllParts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, q, r := oneMessage(ctx, t, record.PartCalls+1)
	first, err := r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	came := time.Now()
	first.Return()
	messages, items := q.GiveBack(came)
	assert.Equal(t, 0, messages, "given back while one part was just returned")
	assert.Equal(t, 2, items)
	messages, items = q.GiveBack(time.Now())
	assert.Equal(t, 1, messages)
	assert.Equal(t, 0, items)
}

// TestFailedWaitsForStoredCalls checks that a replay of the failed calls includes all calls that
// the ledger counts as failed.
func TestFailedWaitsForStoredCalls(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, q, r := oneMessage(ctx, t, 1)
	next, err := r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	may, ended := make(chan struct{}), make(chan error, 1)
	q.SettleWhen(may)
	go func() {
		ended <- next.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateFailed}}})
	}()
	require.Eventually(t, func() bool {
		all, err := j.Ledger(ctx)
		return err == nil && all[0].Failed == 1
	}, time.Minute, time.Millisecond)
	listed := 0
	list := func(ctx context.Context) error {
		return j.Failed(ctx, "crm", func(journal.FailedCall) bool { listed++; return true })
	}
	soon, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	require.ErrorIs(t, list(soon), context.DeadlineExceeded, "lists the failed calls before they are stored")
	close(may)
	require.NoError(t, <-ended)
	require.NoError(t, list(ctx))
	assert.Equal(t, 1, listed)
}

// TestNextRetriesAreReadAhead checks that a lease of a due retry begins to read the calls of the
// next ones.
func TestNextRetriesAreReadAhead(t *testing.T) {
	const parts = 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, q, r := oneMessage(ctx, t, parts*record.PartCalls)
	var first []journal.Lease
	for range parts {
		l, err := r.Next(ctx, journal.Want{NoRetries: true})
		require.NoError(t, err)
		first = append(first, l)
	}
	for _, l := range first {
		require.NoError(t, l.Finish(ctx, journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, record.PartCalls)}))
	}
	raw, err := j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject("due", record.Token("crm"), ">"))
	require.NoError(t, err)
	for seq := raw.Sequence - parts + 1; seq <= raw.Sequence; seq++ {
		raw, err := j.JS.Get(ctx, j.Names.Stream(record.StreamRetry), seq)
		require.NoError(t, err)
		q.ReceiveRetry(raw)
	}
	_, err = r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	require.Equal(t, parts-1, q.AwaitReads())
	require.NoError(t, j.JS.Delete(ctx, j.Names.Stream(record.StreamCalls), 2))
	for range parts - 1 {
		l, err := r.Next(ctx, journal.Want{})
		require.NoError(t, err)
		assert.Len(t, l.Entry().Calls, record.PartCalls)
	}
}

// TestNextAttemptDoesNotWaitForFailedCalls checks that a call is leased again even if another call of
// its entry has failed and cannot be stored in FAILED.
func TestNextAttemptDoesNotWaitForFailedCalls(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, q, r := oneMessage(ctx, t, 2)
	next, err := r.Next(ctx, journal.Want{InOrder: true})
	require.NoError(t, err)
	q.FailToStoreFailed()
	require.NoError(t, next.Finish(ctx, journal.Result{Parked: true, Outcomes: []tracking.Outcome{{State: tracking.StateFailed}, {State: tracking.StatePending}}}))
	ended := next.Entry()
	r.Resume(ended.Position(1))
	next, err = r.Next(ctx, journal.Want{InOrder: true})
	require.NoError(t, err)
	assert.Equal(t, 2, next.Entry().Attempt)
}

// TestUnreadableReplayFails checks that replayed calls fail permanently if the store has lost their message.
// They must not stay pending, because messages of CALLS are removed only up to the first pending call.
func TestUnreadableReplayFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, _, r := oneMessage(ctx, t, 2)
	next, err := r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	delivered := slices.Repeat([]tracking.Outcome{{State: tracking.StateDelivered}}, 2)
	require.NoError(t, next.Finish(ctx, journal.Result{Outcomes: delivered}))
	require.NoError(t, j.Replay(ctx, "crm", next.Entry().Calls, nil, tracking.StateDelivered))
	require.NoError(t, j.JS.Delete(ctx, j.Names.Stream(record.StreamCalls), 3))

	soon, stop := context.WithCancel(ctx)
	defer stop()
	leased := make(chan error, 1)
	go func() {
		_, err := r.Next(soon, journal.Want{})
		leased <- err
	}()
	require.Eventually(t, func() bool {
		all, err := j.Ledger(ctx)
		return err == nil && all[0].Pending == 0 && all[0].Failed == 2
	}, 10*time.Second, time.Millisecond)
	stop()
	require.ErrorIs(t, <-leased, context.Canceled)
}
