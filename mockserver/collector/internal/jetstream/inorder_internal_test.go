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
	finds atomic.Int64 // number of queries for a message or a consumer that will fail
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

// An orderedWorld is a journal in a synctest bubble, with a destination that receives calls in order.
type orderedWorld struct {
	*testing.T
	streams *unreadable
	journal *Journal
	reader  journal.Reader
}

// runOrdered runs a test with a destination that receives the calls of the sources.
func runOrdered(t *testing.T, sources []string, test func(w *orderedWorld)) {
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

// add appends a call of a source. The messageId of the call is id with the suffix -0.
func (w *orderedWorld) add(source, id string) {
	require.NoError(w, w.journal.Append(w.Context(), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: journaltest.Calls(source, id, 1)}))
}

// next leases the next call.
func (w *orderedWorld) next() journal.Lease {
	l, err := w.reader.Next(within(w), journal.Want{InOrder: true})
	require.NoError(w, err)
	return l
}

// replayFailed fails a leased call permanently, and replays it.
func (w *orderedWorld) replayFailed(l journal.Lease) {
	require.NoError(w, l.Finish(w.Context(), givenUp))
	require.NoError(w, w.journal.Replay(w.Context(), "crm", listedAsFailed(w.T, w.journal), nil, tracking.StateFailed))
	synctest.Wait()
}

// wantNext leases the next calls, and checks their IDs.
func (w *orderedWorld) wantNext(ids ...string) {
	var got []string
	for range ids {
		got = append(got, w.next().Entry().Calls[0].ID)
	}
	assert.Equal(w, ids, got)
}

// TestUnreadableReplayKeepsItsPlace checks that later calls are not leased before a replay whose calls
// cannot be read at first.
func TestUnreadableReplayKeepsItsPlace(t *testing.T) {
	runOrdered(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		l := w.next()
		w.wantNoNext(journal.Want{InOrder: true}) // its requests receive the replay and the second call
		w.replayFailed(l)
		w.add("web", "second")
		synctest.Wait()
		require.True(w, w.journal.queues.Has("crm", record.Ref{Seq: 3}), "the replay was received")
		w.streams.reads.Store(3)
		w.wantNext("first-0", "second-0")
		assert.Negative(w, w.streams.reads.Load())
	})
}

// TestReplayIsLeasedAfterFailedQueries checks that a reader repeats failed queries for calls before a
// replay, although no event wakes it.
func TestReplayIsLeasedAfterFailedQueries(t *testing.T) {
	runOrdered(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		w.replayFailed(w.next())
		w.streams.finds.Store(3)
		w.wantNext("first-0")
		assert.Negative(w, w.streams.finds.Load())
	})
}

// TestReplayDoesNotWaitForCallsOfAnotherSource checks that a replay does not wait for calls of a source
// that was added to the destination after these calls.
func TestReplayDoesNotWaitForCallsOfAnotherSource(t *testing.T) {
	runOrdered(t, []string{"web"}, func(w *orderedWorld) {
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

// endElsewhere stores the outcome of an attempt in another process, at call 0 of message 2. The next
// attempt is scheduled for due, or parked.
func (w *orderedWorld) endElsewhere(attempt int, due time.Time) *record.Outcome {
	o := &record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 2}, Attempt: attempt, Again: []int{0}, Decided: time.Now(), Due: due}
	w.journal.ledger.With("crm", func(a *ledger.Account) { o.Attached = a.Attached })
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

// TestNextAttemptWaitsForTheLease checks that calls are not leased again if another process ends an
// attempt that is leased here: the two leases would wait for each other.
func TestNextAttemptWaitsForTheLease(t *testing.T) {
	runOrdered(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		l := w.next()
		require.NoError(w, w.journal.Settle(w.endElsewhere(1, time.Now()), nil, nil))
		w.wantNoNext(journal.Want{InOrder: true})
		require.NoError(w, l.Finish(w.Context(), deliveredOne))
		assert.Equal(w, 2, w.next().Entry().Attempt)
	})
}

var deliveredOne = journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}

// TestUnparkWhileAnEarlierAttemptIsLeased checks that Unpark resumes a call that another process has
// parked, while RETRY still contains the previous attempt because it is leased here.
func TestUnparkWhileAnEarlierAttemptIsLeased(t *testing.T) {
	runOrdered(t, nil, func(w *orderedWorld) {
		w.add("web", "first")
		anyOrder := journal.Want{}
		l, err := w.reader.Next(w.Context(), anyOrder)
		require.NoError(w, err)
		require.NoError(w, l.Finish(w.Context(), journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, 1)}))
		l, err = w.reader.Next(within(w), anyOrder)
		require.NoError(w, err)
		w.endElsewhere(2, record.Parked)
		require.NoError(w, w.journal.Unpark(w.Context(), "crm"))
		require.NoError(w, l.Finish(w.Context(), deliveredOne))
		l, err = w.reader.Next(within(w), anyOrder)
		require.NoError(w, err)
		assert.Equal(w, 3, l.Entry().Attempt)
	})
}

// TestParkedCallsOfAKilledProcess checks that a process without ordered delivery leases a call that a
// killed process has parked.
func TestParkedCallsOfAKilledProcess(t *testing.T) {
	runOrdered(t, nil, func(w *orderedWorld) {
		anyOrder := journal.Want{}
		w.wantNoNext(anyOrder)
		w.add("web", "first")
		w.endElsewhere(1, record.Parked)
		ctx, cancel := context.WithTimeout(w.Context(), 4*time.Minute)
		defer cancel()
		l, err := w.reader.Next(ctx, anyOrder)
		require.NoError(w, err)
		assert.Equal(w, 2, l.Entry().Attempt)
	})
}
