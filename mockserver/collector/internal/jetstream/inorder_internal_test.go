package jetstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// unreadable contains streams that fail to read some messages.
type unreadable struct {
	store.Streams
	reads atomic.Int64 // number of reads that will fail
	finds atomic.Int64 // number of searches for a message or a consumer that will fail
}

var errNoResponse = errors.New("no response")

func (u *unreadable) Get(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	if u.reads.Add(-1) >= 0 {
		return nil, errNoResponse
	}
	return u.Streams.Get(ctx, stream, seq)
}

func (u *unreadable) Next(ctx context.Context, stream, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	if u.finds.Add(-1) >= 0 {
		return nil, errNoResponse
	}
	return u.Streams.Next(ctx, stream, subject, from)
}

func (u *unreadable) Consumer(ctx context.Context, stream, name string) (store.Consumer, error) {
	if u.finds.Add(-1) >= 0 {
		return nil, errNoResponse
	}
	return u.Streams.Consumer(ctx, stream, name)
}

// An orderedWorld is a journal in a bubble, with a destination that is delivered in order.
type orderedWorld struct {
	*testing.T
	streams *unreadable
	journal *Journal
	reader  journal.Reader
}

// inOrderOf runs a test with a destination that receives calls of some sources.
func inOrderOf(t *testing.T, sources []string, test func(w *orderedWorld)) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		w := &orderedWorld{T: t, streams: &unreadable{Streams: fakeStreams(t)}}
		var err error
		w.journal, err = openOn(t.Context(), Options{Keep: time.Hour}, w.streams, w.streams)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, w.journal.Close()) })
		<-w.journal.previous.settled
		w.attach(sources)
		test(w)
	})
}

func (w *orderedWorld) attach(sources []string) {
	var err error
	w.reader, err = w.journal.Attach(w.Context(), "crm", sources)
	require.NoError(w, err)
}

// add accepts the call ID-0 of a source.
func (w *orderedWorld) add(source, id string) {
	require.NoError(w, w.journal.Append(w.Context(), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: journaltest.Calls(source, id, 1)}))
}

// next leases the next call.
func (w *orderedWorld) next() journal.Lease {
	l, err := w.reader.Next(within(w), journal.Want{InOrder: true})
	require.NoError(w, err)
	return l
}

// replayFailed ends a call as failed, and replays it.
func (w *orderedWorld) replayFailed(l journal.Lease) {
	require.NoError(w, l.Finish(w.Context(), givenUp))
	require.NoError(w, w.journal.Replay(w.Context(), "crm", listedAsFailed(w.T, w.journal), nil, tracking.StateFailed))
	synctest.Wait()
}

// wantNext compares the IDs of the next calls.
func (w *orderedWorld) wantNext(ids ...string) {
	var got []string
	for range ids {
		got = append(got, w.next().Entry().Calls[0].ID)
	}
	assert.Equal(w, ids, got)
}

// TestUnreadableReplayKeepsItsPlace fails to read the calls of a replay. Later calls must not be leased
// before it.
func TestUnreadableReplayKeepsItsPlace(t *testing.T) {
	inOrderOf(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		w.replayFailed(w.next())
		w.add("web", "second")
		synctest.Wait()
		w.streams.reads.Store(3)
		w.wantNext("first-0", "second-0")
		assert.Negative(w, w.streams.reads.Load())
	})
}

// TestReplayIsLeasedAfterFailedSearch fails to find out whether calls come before a replay. No later
// event wakes the reader.
func TestReplayIsLeasedAfterFailedSearch(t *testing.T) {
	inOrderOf(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		w.replayFailed(w.next())
		w.streams.finds.Store(3)
		w.wantNext("first-0")
		assert.Negative(w, w.streams.finds.Load())
	})
}

// TestReplayDoesNotWaitForCallsOfAnotherSource replays a call after calls of a source that the
// destination receives only later.
func TestReplayDoesNotWaitForCallsOfAnotherSource(t *testing.T) {
	inOrderOf(t, []string{"web"}, func(w *orderedWorld) {
		w.add("web", "first")
		other, err := w.journal.Attach(w.Context(), "ads", []string{"ios"})
		require.NoError(w, err)
		require.NotNil(w, other)
		l := w.next()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		w.add("ios", "earlier")
		_, err = w.reader.Next(ctx, journal.Want{InOrder: true}) // the consumer skips the call
		require.ErrorIs(w, err, context.DeadlineExceeded)
		w.replayFailed(l)
		w.attach([]string{"web", "ios"})
		w.wantNext("first-0")
	})
}

// endElsewhere ends an attempt at call 0 of message 2 in another process. The next attempt is due at a
// time, or parked.
func (w *orderedWorld) endElsewhere(attempt int, due time.Time) *record.Outcome {
	o := &record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 2}, Attempt: attempt, Again: []int{0}, Decided: time.Now(), Due: due}
	w.journal.ledger.With("crm", func(b *ledger.Account) { o.Attached = b.Attached })
	counted, err := w.journal.queues.Record(o)
	require.NoError(w, err)
	require.True(w, counted)
	return o
}

// wantNoNext checks that no call is leased for a minute.
func (w *orderedWorld) wantNoNext(want journal.Want) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	_, err := w.reader.Next(ctx, want)
	require.ErrorIs(w, err, context.DeadlineExceeded)
}

// TestNextAttemptWaitsForTheLease ends an attempt in another process while this process has the lease.
// The calls must not be leased twice at the same time: their leases would wait for each other.
func TestNextAttemptWaitsForTheLease(t *testing.T) {
	inOrderOf(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		l := w.next()
		require.NoError(w, w.journal.Settle(w.endElsewhere(1, time.Now()), nil, nil))
		w.wantNoNext(journal.Want{InOrder: true})
		require.NoError(w, l.Finish(w.Context(), deliveredOne))
		assert.Equal(w, 2, w.next().Entry().Attempt)
	})
}

var deliveredOne = journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}

// TestUnparkWhileAnEarlierAttemptIsLeased parks a call in another process, which then no longer
// delivers in order. This process has a lease on the attempt before, so RETRY still contains it.
func TestUnparkWhileAnEarlierAttemptIsLeased(t *testing.T) {
	inOrderOf(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		any := journal.Want{}
		l, err := w.reader.Next(w.Context(), any)
		require.NoError(w, err)
		require.NoError(w, l.Finish(w.Context(), journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, 1)}))
		l, err = w.reader.Next(within(w), any)
		require.NoError(w, err)
		w.endElsewhere(2, record.Parked)
		require.NoError(w, w.journal.Unpark(w.Context(), "crm"))
		require.NoError(w, l.Finish(w.Context(), deliveredOne))
		l, err = w.reader.Next(within(w), any)
		require.NoError(w, err)
		assert.Equal(w, 3, l.Entry().Attempt)
	})
}

// TestParkedCallsOfAKilledProcess parks a call in another process that does not start again. This
// process delivers in any order.
func TestParkedCallsOfAKilledProcess(t *testing.T) {
	inOrderOf(t, nil, func(w *orderedWorld) {
		any := journal.Want{}
		w.wantNoNext(any)
		w.add("web", "first")
		w.endElsewhere(1, record.Parked)
		ctx, cancel := context.WithTimeout(w.Context(), 4*time.Minute)
		defer cancel()
		l, err := w.reader.Next(ctx, any)
		require.NoError(w, err)
		assert.Equal(w, 2, l.Entry().Attempt)
	})
}
