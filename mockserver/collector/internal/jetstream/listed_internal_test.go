package jetstream

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// failingStreams returns a journal with one leased call, and its streams, which can fail to
// store messages.
func failingStreams(t *testing.T) (*Journal, journal.Lease, *mute) {
	t.Helper()
	streams := &mute{Streams: fakeStreams(t)}
	j, err := openOn(t.Context(), Options{Keep: 2 * time.Minute}, streams, streams)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	<-j.previous.settled
	r, err := j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
	lease, err := r.Next(t.Context(), journal.Want{})
	require.NoError(t, err)
	return j, lease, streams
}

// failFor makes storing messages with a subject prefix fail. Without a prefix, storing succeeds.
func (m *mute) failFor(names record.Names, kind ...string) {
	m.fails.Store(nil)
	if len(kind) > 0 {
		subject := names.Subject(kind...)
		m.fails.Store(&subject)
	}
}

var givenUp = journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateFailed, Reason: "no"}}}

// TestFailedCallsAreListedWhileOutcomesFail checks that failed calls are listed even if new
// outcomes cannot be stored.
func TestFailedCallsAreListedWhileOutcomesFail(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		j, lease, streams := failingStreams(t)
		streams.failFor(j.Names, "o")
		ended := make(chan error, 1)
		go func() { ended <- lease.Finish(t.Context(), givenUp) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, j.Failed(ctx, "crm", func(journal.FailedCall) bool { return true }))
		streams.failFor(j.Names)
		require.NoError(t, <-ended)
		assert.Len(t, listedAsFailed(t, j), 1)
	})
}

// TestListingWaitsForFailedCalls checks that failed calls are listed as soon as they can be stored.
func TestListingWaitsForFailedCalls(t *testing.T) {
	for name, giveUp := range map[string]func(t *testing.T, j *Journal, l journal.Lease){
		"ended attempt": func(t *testing.T, _ *Journal, l journal.Lease) {
			require.NoError(t, l.Finish(t.Context(), givenUp))
		},
		"expired call": func(t *testing.T, j *Journal, l journal.Lease) {
			l.Return()
			time.Sleep(5 * time.Minute)
			_ = j.Trim(t.Context()) // Trim may fail
		},
	} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				j, lease, streams := failingStreams(t)
				streams.failFor(j.Names, "f")
				giveUp(t, j, lease)
				all, err := j.Ledger(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, all[0].Failed)
				counted := time.Now()
				streams.failFor(j.Names)
				failedBefore(t, j, counted)
			})
		})
	}
}

// failedBefore checks that the failure time of the listed call is before counted, even if the call
// was listed later.
func failedBefore(t *testing.T, j *Journal, counted time.Time) {
	t.Helper()
	var at []time.Time
	require.NoError(t, j.Failed(within(t), "crm", func(f journal.FailedCall) bool {
		at = append(at, f.FailedAt)
		return true
	}))
	require.Len(t, at, 1)
	assert.False(t, at[0].After(counted), "%v, counted %v", at[0], counted)
}

// TestFailedCallsOfOtherProcessesAreListed checks the failed calls of an outcome that another
// process stored without applying it.
func TestFailedCallsOfOtherProcessesAreListed(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.append("m", 1)
		lease, err := s.readers[0].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		j := s.journals[1]
		s.streams[0].failFor(j.Names, "f")
		require.NoError(t, lease.Finish(t.Context(), givenUp))
		counted := time.Now()
		time.Sleep(time.Second)
		failedBefore(t, j, counted)

		list, err := j.Measure(t.Context(), record.StreamFailed)
		require.NoError(t, err)
		s.streams[0].failFor(j.Names)
		require.Len(t, listedAsFailed(t, s.journals[0]), 1, "the failed call is listed")
		again, err := j.Measure(t.Context(), record.StreamFailed)
		require.NoError(t, err)
		assert.Equal(t, list.LastSeq, again.LastSeq, "a concurrent reader would miss it")
	})
}

// TestFailedCallsAreListedAfterALatePull kills a process before it has listed a failed call. The other process
// requests the message again only minutes later, because it has wanted no calls of the destination.
func TestFailedCallsAreListedAfterALatePull(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		j := s.journals[1]
		other, err := j.Attach(t.Context(), "ads", nil)
		require.NoError(t, err)
		s.append("m", 1)
		lease, err := s.readers[0].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		s.streams[0].failFor(j.Names, "f")
		require.NoError(t, lease.Finish(t.Context(), givenUp))
		require.NoError(t, s.journals[0].Close())
		time.Sleep(5 * time.Minute)
		deliverNext(t, other)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.readers[1].Next(ctx, journal.Want{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, listedAsFailed(t, j), 1)
	})
}

// TestFailedCallsAreListedAfterAReturnedLease lets two processes lease the same call. One of them stores the outcome
// and is killed before it lists the call. The other process returns its lease later.
func TestFailedCallsAreListedAfterAReturnedLease(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		j := s.journals[0]
		other, err := j.Attach(t.Context(), "ads", nil)
		require.NoError(t, err)
		s.append("m", 1)
		lease, err := s.readers[0].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, s.journals[1].FinishUnsettled(lease, givenUp))
		time.Sleep(3 * time.Minute)
		deliverNext(t, other)
		lease.Return()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.readers[0].Next(ctx, journal.Want{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, listedAsFailed(t, j), 1)
	})
}

// TestFailedCallsAreListedBeforeTheyAreTrimmed kills a process before it has listed a failed call. The call's message
// is removed from CALLS without being delivered again. A call that was listed and has been removed from
// the list is not listed again.
func TestFailedCallsAreListedBeforeTheyAreTrimmed(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		killed  bool
		want    int
	}{
		"killed":       {Options{}, true, 2},
		"full list":    {Options{FailedBytes: 400}, false, 1},
		"expired list": {Options{KeepFailed: 2 * time.Minute}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				c.options.Keep = 5 * time.Minute
				s := shareWith(t, c.options)
				j := s.journals[1]
				other, err := j.Attach(t.Context(), "ads", nil)
				require.NoError(t, err)
				for _, id := range []string{"first", "second"} {
					s.append(id, 1)
					if c.killed {
						s.streams[0].failFor(j.Names, "f")
					}
					lease, err := s.readers[0].Next(t.Context(), journal.Want{})
					require.NoError(t, err)
					require.NoError(t, lease.Finish(t.Context(), givenUp))
				}
				require.NoError(t, s.journals[0].Close())
				before, err := j.Measure(t.Context(), record.StreamFailed)
				require.NoError(t, err)
				time.Sleep(3 * time.Minute)
				deliverNext(t, other)
				deliverNext(t, other)
				time.Sleep(4 * time.Minute)
				calls, err := j.Measure(t.Context(), record.StreamCalls)
				require.NoError(t, err)
				require.Zero(t, calls.Msgs, "the calls are removed")
				assert.Len(t, listedAsFailed(t, j), c.want)
				after, err := j.Measure(t.Context(), record.StreamFailed)
				require.NoError(t, err)
				assert.Equal(t, c.killed, after.LastSeq > before.LastSeq)
			})
		})
	}
}

// TestOldestPendingCallFollowsEachPart ends the parts of a message one after another. Then the call of the
// next message is the oldest.
func TestOldestPendingCallFollowsEachPart(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.append("old", 2*record.PartCalls)
		old := time.Now()
		time.Sleep(time.Second)
		s.append("new", 1)
		oldest := []time.Time{old, time.Now()}
		for part := range 2 {
			lease, err := s.readers[0].Next(t.Context(), journal.Want{})
			require.NoError(t, err)
			require.Len(t, lease.Entry().Calls, record.PartCalls)
			delivered := slices.Repeat([]tracking.Outcome{{State: tracking.StateDelivered}}, record.PartCalls)
			require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: delivered}))
			all, err := s.journals[0].Ledger(t.Context())
			require.NoError(t, err)
			assert.WithinDuration(t, oldest[part], all[0].OldestPending, 500*time.Millisecond)
		}
	})
}

// TestSecondOutcomeOfAnAttemptIsNotListed stores the outcomes of two processes for the same attempt.
// Only the first one counts, even if it was stored long ago.
func TestSecondOutcomeOfAnAttemptIsNotListed(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.append("m", 1)
		lease, err := s.readers[0].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		j := s.journals[1]
		calls, err := j.Measure(t.Context(), record.StreamCalls)
		require.NoError(t, err)
		require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
		time.Sleep(10 * time.Minute)

		second := record.Outcome{Destination: "crm", Ref: record.Ref{Seq: calls.LastSeq}, Attempt: 1, Failed: []record.Failure{{Reason: "gone"}}}
		j.ledger.With("crm", func(a *ledger.Account) { second.Attached = a.Attached })
		one := second.Append(nil)
		m := nats.NewMsg(j.Names.Subject("o"))
		m.Data = append(binary.AppendUvarint(record.NewOutcomes(record.WriteID{Writer: 1, Number: 1}), uint64(len(one))), one...)
		_, err = j.Publish(t.Context(), m)
		require.NoError(t, err)
		assert.Empty(t, listedAsFailed(t, j))
		all, err := j.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, all[0].Delivered)
		assert.Zero(t, all[0].Failed)
	})
}
