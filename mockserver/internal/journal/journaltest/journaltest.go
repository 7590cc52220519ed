// Package journaltest contains tests for implementations of [journal.Journal] and [state.Store].
package journaltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// patience is the time limit for expected events. brief is how long the tests check that nothing
// happens.
const (
	patience = time.Minute
	brief    = 50 * time.Millisecond
)

// Options contains the functions that open journals.
type Options struct {
	// Open returns an empty journal that stores about maxBytes of large calls. Zero selects the
	// journal's default. The tests close the journal.
	Open func(t *testing.T, maxBytes int64) journal.Journal
	// Reopen closes j immediately and opens its data again. It is nil if the journal is not
	// durable.
	Reopen func(t *testing.T, j journal.Journal) journal.Journal
	// In runs each test, for example with synctest.Test. Defaults to a direct call.
	In func(*testing.T, func(*testing.T))
}

// Run runs the tests for a journal.
func Run(t *testing.T, o Options) {
	for name, test := range map[string]func(*testing.T, Options){
		"EveryDestinationReceivesEveryCall":  everyDestination,
		"FilterBySource":                     sources,
		"RetriesAreScheduled":                retries,
		"RetriesMixWithNewCalls":             retriesWithNewCalls,
		"SourcesShareFairly":                 fairSources,
		"WantSelectsEntries":                 wantFields,
		"InOrder":                            inOrder,
		"Acquire":                            acquire,
		"ParkedEntriesWaitForResume":         parked,
		"NotesReturnWithCalls":               notes,
		"ReturnedEntriesAreLeasedAgain":      returned,
		"NextEndsWithContextOrReader":        nextEnds,
		"FailedCallsAreKeptAndReplayed":      failed,
		"ListOfFailedCallsEnds":              failedWhileListing,
		"ReplayDistinguishesSources":         replaySource,
		"FilteredCallsAreKeptAndReplayed":    filtered,
		"AnyCallCanBeReplayed":               replayDelivered,
		"TracesReturnWithCalls":              traces,
		"DetachDeletes":                      detach,
		"AttachAgainContinues":               attachAgain,
		"FullJournalRefusesAndRecovers":      full,
		"AppendReportsStoredCalls":           storedByAppend,
		"OutcomesMustMatchCalls":             mismatch,
		"LedgerHoldsUnderLoadConcurrentSafe": load,
	} {
		t.Run(name, func(t *testing.T) {
			if o.In == nil {
				t.Parallel()
				test(t, o)
				return
			}
			o.In(t, func(t *testing.T) { test(t, o) })
		})
	}
	if o.Reopen != nil {
		t.Run("ReopenPreservesData", func(t *testing.T) { reopen(t, o) })
		t.Run("ReopenPreservesTraces", func(t *testing.T) { reopenTraces(t, o) })
	}
}

// Calls returns n calls of a source with a messageId prefix.
func Calls(source, prefix string, n int) []tracking.Call {
	calls := make([]tracking.Call, n)
	for i := range calls {
		calls[i] = call(source, fmt.Sprintf("%s-%d", prefix, i), 0)
	}
	return calls
}

func call(source, id string, padding int) tracking.Call {
	now := time.Now().UTC().Truncate(time.Millisecond)
	at := now.Format("2006-01-02T15:04:05.000Z")
	noise := make([]byte, padding/2) // random, because journals may compress data
	_, _ = rand.Read(noise)
	return tracking.Call{
		ID: id, Source: source, Type: "track", UserID: "u1", Event: "Tested",
		ReceivedAt: now, Timestamp: now,
		Body: fmt.Appendf(nil, `{"type":"track","userId":"u1","event":"Tested","properties":{"pad":%q},"messageId":%q,"receivedAt":%q,"timestamp":%q}`,
			hex.EncodeToString(noise), id, at, at),
	}
}

func batch(source, prefix string, n int) event.Batch {
	return event.Batch{Source: source, ReceivedAt: time.Now(), Calls: Calls(source, prefix, n)}
}

func open(t *testing.T, o Options) journal.Journal {
	j := o.Open(t, 0)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// openAttached opens a journal and attaches the destination "d".
func openAttached(t *testing.T, o Options) (journal.Journal, journal.Reader) {
	t.Helper()
	j := open(t, o)
	return j, attach(t, j, "d")
}

func attach(t *testing.T, j journal.Journal, destination string, sources ...string) journal.Reader {
	t.Helper()
	r, err := j.Attach(within(t), destination, sources)
	require.NoError(t, err)
	return r
}

// within returns a context with a time limit for one operation.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("%s timed out after %v", t.Name(), patience))
	context.AfterFunc(ctx, cancel)
	return ctx
}

func next(t *testing.T, r journal.Reader) journal.Lease {
	t.Helper()
	return nextOf(t, r, journal.Want{})
}

func nextOf(t *testing.T, r journal.Reader, want journal.Want) journal.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := r.Next(ctx, want)
	require.NoError(t, err)
	return l
}

func none(t *testing.T, r journal.Reader) {
	t.Helper()
	noneOf(t, r, journal.Want{})
}

// noneOf checks that the reader returns no entry.
func noneOf(t *testing.T, r journal.Reader, want journal.Want) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	l, err := r.Next(ctx, want)
	if err == nil {
		t.Fatalf("got entry %s of %v, want none", l.Entry().ID, ids(l))
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func finish(t *testing.T, l journal.Lease, retryAt time.Time, states ...tracking.State) {
	t.Helper()
	r := journal.Result{RetryAt: retryAt}
	for i := range l.Entry().Calls {
		r.Outcomes = append(r.Outcomes, tracking.Outcome{State: states[i%len(states)], Reason: "because"})
	}
	require.NoError(t, l.Finish(within(t), r))
}

func ids(l journal.Lease) []string {
	var ids []string
	for _, c := range l.Entry().Calls {
		ids = append(ids, c.ID)
	}
	return ids
}

func ledger(t *testing.T, j journal.Journal, destination string) tracking.Ledger {
	t.Helper()
	all, err := j.Ledger(within(t))
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(l tracking.Ledger) bool { return l.Destination == destination })
	require.GreaterOrEqual(t, i, 0, "no ledger of %q in %+v", destination, all)
	require.True(t, all[i].Holds(), "%+v", all[i])
	return all[i]
}

func wantLedger(t *testing.T, j journal.Journal, destination string, accepted, delivered, failed, filtered, pending int64) {
	t.Helper()
	l := ledger(t, j, destination)
	require.Equal(t, pending == 0, l.OldestPending.IsZero(), "oldest pending %v with %d pending", l.OldestPending, pending)
	l.OldestPending = time.Time{}
	require.Equal(t, tracking.Ledger{Destination: destination, Accepted: accepted, Delivered: delivered, Failed: failed, Filtered: filtered, Pending: pending}, l)
}

func everyDestination(t *testing.T, o Options) {
	j := open(t, o)
	a, b := attach(t, j, "a"), attach(t, j, "b")
	sent := batch("web", "m", 3)
	require.NoError(t, j.Append(within(t), sent))
	for name, r := range map[string]journal.Reader{"a": a, "b": b} {
		wantLedger(t, j, name, 3, 0, 0, 0, 3)
		l := next(t, r)
		e := l.Entry()
		require.Equal(t, []string{"m-0", "m-1", "m-2"}, ids(l))
		require.Equal(t, 1, e.Attempt)
		require.NotEmpty(t, e.ID)
		require.WithinDuration(t, sent.ReceivedAt, e.Since, time.Millisecond)
		for i, c := range e.Calls {
			require.WithinDuration(t, sent.Calls[i].ReceivedAt, c.ReceivedAt, 0)
			require.WithinDuration(t, sent.Calls[i].Timestamp, c.Timestamp, 0)
			c.ReceivedAt, c.Timestamp = sent.Calls[i].ReceivedAt, sent.Calls[i].Timestamp // the time zone may differ
			require.Equal(t, sent.Calls[i], c)
		}
		finish(t, l, time.Time{}, tracking.StateDelivered, tracking.StateFiltered, tracking.StateFailed)
		wantLedger(t, j, name, 3, 1, 1, 1, 0)
		none(t, r)
	}
}

func sources(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d", "web", "ios")
	for _, s := range []string{"web", "android", "ios"} {
		require.NoError(t, j.Append(within(t), batch(s, s, 1)))
	}
	got := append(ids(next(t, r)), ids(next(t, r))...)
	slices.Sort(got)
	require.Equal(t, []string{"ios-0", "web-0"}, got)
	none(t, r)
	wantLedger(t, j, "d", 2, 0, 0, 0, 2)
}

func retries(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "m", 3)))
	l := next(t, r)
	since := l.Entry().Since
	at := time.Now().Add(300 * time.Millisecond)
	finish(t, l, at, tracking.StatePending, tracking.StateDelivered, tracking.StatePending)
	wantLedger(t, j, "d", 3, 1, 0, 0, 2)
	l = next(t, r)
	require.False(t, time.Now().Before(at), "the retry was early")
	require.Equal(t, []string{"m-0", "m-2"}, ids(l))
	require.Equal(t, 2, l.Entry().Attempt)
	require.WithinDuration(t, since, l.Entry().Since, time.Millisecond)
	finish(t, l, time.Now(), tracking.StatePending)
	l = next(t, r)
	require.Equal(t, 3, l.Entry().Attempt)
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 3, 3, 0, 0, 0)
}

func notes(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "m", 4)))
	noted := func(states map[string]tracking.Outcome) []string {
		t.Helper()
		l := next(t, r)
		got := l.Entry().Notes
		res := journal.Result{RetryAt: time.Now()}
		for _, id := range ids(l) {
			res.Outcomes = append(res.Outcomes, states[id])
		}
		require.NoError(t, l.Finish(within(t), res))
		return got
	}
	again := func(note string) tracking.Outcome {
		return tracking.Outcome{State: tracking.StatePending, Reason: "because", Note: note}
	}
	done := tracking.Outcome{State: tracking.StateDelivered}
	require.Nil(t, noted(map[string]tracking.Outcome{"m-0": again(""), "m-1": done, "m-2": again("0123abcd.4567cdef"), "m-3": again("x")}), "fresh calls")
	require.Equal(t, []string{"", "0123abcd.4567cdef", "x"}, noted(map[string]tracking.Outcome{"m-0": again(""), "m-2": again(""), "m-3": done}))
	require.Nil(t, noted(map[string]tracking.Outcome{"m-0": done, "m-2": done}), "old notes")
	wantLedger(t, j, "d", 4, 4, 0, 0, 0)
}

func retriesWithNewCalls(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "old", 1)))
	finish(t, next(t, r), time.Now(), tracking.StatePending)
	require.NoError(t, j.Append(within(t), batch("web", "new", 1)))
	got := append(ids(next(t, r)), ids(next(t, r))...)
	slices.Sort(got) // the order of the two calls is not defined
	require.Equal(t, []string{"new-0", "old-0"}, got)
}

// fairSources checks that 300 entries of one source and their retries do not block another source.
func fairSources(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	for i := range 300 {
		require.NoError(t, j.Append(within(t), batch("bad", fmt.Sprintf("bad-%d", i), 1)))
	}
	for _, source := range []string{"a", "b"} {
		for i := range 3 {
			require.NoError(t, j.Append(within(t), batch(source, fmt.Sprintf("%s-%d", source, i), 1)))
		}
	}
	good, first, retries := map[string]bool{}, 0, 0
	deadline := time.Now().Add(patience)
	for n := 1; len(good) < 6; n++ {
		l := next(t, r)
		switch e := l.Entry(); {
		case e.Calls[0].Source != "bad":
			good[e.Calls[0].ID] = true
			finish(t, l, time.Time{}, tracking.StateDelivered)
		case time.Now().After(deadline):
			t.Fatalf("after %d entries and %v, only %v calls of other sources", n, patience, good)
		default:
			if first++; e.Attempt > 1 {
				first, retries = first-1, retries+1
			}
			finish(t, l, time.Now(), tracking.StatePending)
			time.Sleep(10 * time.Millisecond) // simulates a webhook
		}
		require.LessOrEqual(t, retries, n/2, "of %d entries", n)
	}
	require.Less(t, first, 300, "entries of other sources waited for all earlier ones")
	wantLedger(t, j, "d", 306, 6, 0, 0, 300)
}

// wantFields tests the fields of Want.
func wantFields(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("bad", "again", 1)))
	finish(t, next(t, r), time.Now(), tracking.StatePending)
	for i := range 40 {
		require.NoError(t, j.Append(within(t), batch("bad", fmt.Sprintf("bad-%d", i), 1)))
	}
	require.NoError(t, j.Append(within(t), batch("good", "good", 1)))
	require.Equal(t, []string{"good-0"}, ids(nextOf(t, r, journal.Want{NoRetries: true, Except: []string{"bad"}})))
	require.Equal(t, []string{"again-0"}, ids(nextOf(t, r, journal.Want{Except: []string{"bad", "good"}})))
	require.Equal(t, []string{"bad-0-0"}, ids(nextOf(t, r, journal.Want{NoRetries: true})))

	waits := make(chan journal.Lease)
	go func() {
		l, _ := r.Next(within(t), journal.Want{NoRetries: true, Except: []string{"bad"}})
		waits <- l
	}()
	require.Equal(t, []string{"bad-1-0"}, ids(next(t, r)))
	select {
	case l := <-waits:
		t.Fatalf("got unwanted calls %v", ids(l))
	case <-time.After(brief):
	}
	require.NoError(t, j.Append(within(t), batch("another", "another", 1)))
	l := <-waits
	require.NotNil(t, l, "no selected entry was leased")
	require.Equal(t, []string{"another-0"}, ids(l))
}

// inOrder tests Want.InOrder with replays, and tests Waiting.
func inOrder(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	ordered := journal.Want{InOrder: true}
	_, release, err := r.Acquire(within(t))
	require.NoError(t, err)
	defer release()
	require.NoError(t, j.Append(within(t), batch("a", "old", 1)))
	old := nextOf(t, r, ordered)
	finish(t, old, time.Time{}, tracking.StateDelivered)
	for i := range 6 {
		require.NoError(t, j.Append(within(t), batch([]string{"a", "b", "c"}[i%3], strconv.Itoa(i), 3)))
	}
	require.NoError(t, j.Replay(within(t), "d", old.Entry().Calls, nil, tracking.StateDelivered))
	require.NoError(t, j.Append(within(t), batch("b", "6", 1)))
	require.NoError(t, j.Replay(within(t), "d", old.Entry().Calls, nil, tracking.StateDelivered))
	var got []string
	var last uint64
	due := time.Now().Add(time.Hour)
	var positions []uint64
	for len(got) < 21 {
		l := nextOf(t, r, ordered)
		if len(got) == 6 { // a returned entry keeps its place
			l.Return()
			l = nextOf(t, r, ordered)
		}
		e := l.Entry()
		states := make([]tracking.State, len(e.Calls))
		for i := range e.Calls {
			require.Greater(t, e.Position(i), last)
			last = e.Position(i)
			require.True(t, r.IsPending(last))
			got = append(got, e.Calls[i].ID)
			if states[i] = tracking.StateDelivered; e.Calls[i].ID == "1-1" || e.Calls[i].ID == "1-2" || e.Calls[i].ID == "4-0" {
				states[i] = tracking.StatePending
				positions = append(positions, last)
			}
		}
		finish(t, l, due, states...)
	}
	want := []string{"0-0", "0-1", "0-2", "1-0", "1-1", "1-2", "2-0", "2-1", "2-2", "3-0", "3-1", "3-2", "4-0", "4-1", "4-2", "5-0", "5-1", "5-2", "old-0", "6-0", "old-0"}
	require.Equal(t, want, got)
	var waiting []uint64
	require.NoError(t, r.Waiting(within(t), func(e journal.Entry, at time.Time) bool {
		require.WithinDuration(t, due, at, time.Second)
		require.Equal(t, 2, e.Attempt)
		for i := range e.Calls {
			waiting = append(waiting, e.Position(i))
			require.Contains(t, []string{"1-1", "1-2", "4-0"}, e.Calls[i].ID)
		}
		return true
	}))
	slices.Sort(waiting)
	require.Equal(t, positions, waiting)
}

// acquire tests Acquire, including a Finish while this process owns the destination.
func acquire(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	for i := range 2 {
		owned, release, err := r.Acquire(within(t))
		require.NoError(t, err)
		require.NoError(t, j.Append(within(t), batch("a", strconv.Itoa(i), 1)))
		l := nextOf(t, r, journal.Want{InOrder: true})
		placed := 0
		require.NoError(t, l.Finish(within(t), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}, OnPlaced: func() { placed++ }}))
		require.Equal(t, 1, placed)
		require.NoError(t, owned.Err())
		release()
	}
	wantLedger(t, j, "d", 2, 2, 0, 0, 0)
}

// parked tests Result.Parked. It resumes one entry before and one entry after the destination is
// attached again. The third entry is leased without Want.InOrder.
func parked(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	acquire := func() (release func()) {
		_, release, err := r.Acquire(within(t))
		require.NoError(t, err)
		return release
	}
	ordered := journal.Want{InOrder: true}
	take := func(attempt int, id string) journal.Lease {
		l := nextOf(t, r, ordered)
		require.Equal(t, []string{id}, ids(l))
		require.Equal(t, attempt, l.Entry().Attempt)
		return l
	}
	waiting := func() (n int) {
		require.NoError(t, r.Waiting(within(t), func(e journal.Entry, due time.Time) bool {
			require.Zero(t, due)
			require.Equal(t, []string{"note"}, e.Notes)
			n++
			return true
		}))
		return n
	}
	release := acquire()
	var positions []uint64
	for i := range 3 {
		require.NoError(t, j.Append(within(t), batch("a", strconv.Itoa(i), 2)))
		l := nextOf(t, r, ordered)
		e := l.Entry()
		positions = append(positions, e.Position(1))
		require.NoError(t, l.Finish(within(t), journal.Result{
			Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}, {State: tracking.StatePending, Note: "note"}}, Parked: true,
		}))
	}
	noneOf(t, r, ordered)
	r.Resume(positions[1])
	r.Resume(positions[1])
	finish(t, take(2, "1-1"), time.Time{}, tracking.StateDelivered)
	release()

	r = attach(t, j, "d")
	release = acquire()
	require.Equal(t, 2, waiting())
	r.Resume(positions[2])
	finish(t, take(2, "2-1"), time.Time{}, tracking.StateDelivered)
	release()
	l := next(t, r)
	require.Equal(t, []string{"0-1"}, ids(l))
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 6, 6, 0, 0, 0)
}

func returned(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "m", 2)))
	l := next(t, r)
	first := l.Entry().ID
	l.Return()
	l = next(t, r)
	require.Equal(t, first, l.Entry().ID)
	require.Equal(t, 1, l.Entry().Attempt)
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 2, 2, 0, 0, 0)
}

func nextEnds(t *testing.T, o Options) {
	j := open(t, o)
	none(t, attach(t, j, "d"))
	for name, end := range map[string]func(){
		"attached again": func() { attach(t, j, "d") },
		"detached":       func() { require.NoError(t, j.Detach(within(t), "d")) },
	} {
		endsWith(t, name, attach(t, j, "d"), end)
	}
	endsWith(t, "journal closed", attach(t, j, "d"), func() { require.NoError(t, j.Close()); require.NoError(t, j.Close()) })
	require.ErrorIs(t, j.Append(within(t), batch("web", "m", 1)), journal.ErrClosed)
}

func endsWith(t *testing.T, name string, r journal.Reader, end func()) {
	t.Helper()
	got := make(chan error, 1)
	go func() { _, err := r.Next(context.Background(), journal.Want{}); got <- err }()
	end()
	select {
	case err := <-got:
		require.ErrorIs(t, err, journal.ErrClosed, name)
	case <-time.After(patience):
		t.Fatalf("%s: Next did not return", name)
	}
}

func listFailed(t *testing.T, j journal.Journal, destination string) []journal.FailedCall {
	t.Helper()
	var list []journal.FailedCall
	require.NoError(t, j.Failed(within(t), destination, func(f journal.FailedCall) bool { list = append(list, f); return true }))
	return list
}

func failedIDs(list []journal.FailedCall) (ids []string) {
	for _, f := range list {
		ids = append(ids, f.Call.ID)
	}
	return ids
}

func failed(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "m", 3)))
	finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	list := listFailed(t, j, "d")
	require.Equal(t, []string{"m-0", "m-1", "m-2"}, failedIDs(list))
	for _, f := range list {
		require.Equal(t, "because", f.Reason)
		require.Equal(t, 1, f.Attempts)
		require.WithinDuration(t, time.Now(), f.FailedAt, time.Hour)
		require.NotEmpty(t, f.Call.Body)
	}
	require.NoError(t, j.Replay(within(t), "d", []tracking.Call{list[1].Call}, nil, tracking.StateFailed))
	wantLedger(t, j, "d", 3, 0, 2, 0, 1)
	require.Equal(t, []string{"m-0", "m-2"}, failedIDs(listFailed(t, j, "d")))
	l := next(t, r)
	require.Equal(t, []string{"m-1"}, ids(l))
	require.Equal(t, 1, l.Entry().Attempt)
	require.WithinDuration(t, time.Now(), l.Entry().Since, time.Minute)
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 3, 1, 2, 0, 0)
	require.ErrorIs(t, j.Failed(within(t), "nobody", func(journal.FailedCall) bool { return true }), journal.ErrNotAttached)
}

// failedWhileListing replays a call that fails again while failed calls are listed.
func failedWhileListing(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	const entries = 70 // more than one page
	for i := range entries {
		require.NoError(t, j.Append(within(t), batch("web", fmt.Sprint(i), 1)))
		finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	}
	listed := map[string]int{}
	require.NoError(t, j.Failed(within(t), "d", func(f journal.FailedCall) bool {
		if len(listed) == 0 {
			require.NoError(t, j.Replay(within(t), "d", []tracking.Call{f.Call}, nil, tracking.StateFailed))
			finish(t, next(t, r), time.Time{}, tracking.StateFailed)
		}
		listed[f.Call.ID]++
		return true
	}))
	require.Len(t, listed, entries)
	require.Equal(t, 1, listed["0-0"])
}

// replaySource replays one of two failed calls that have the same ID and different sources.
func replaySource(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	for _, source := range []string{"web", "ios"} {
		require.NoError(t, j.Append(within(t), batch(source, "m", 1)))
		finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	}
	list := listFailed(t, j, "d")
	require.Len(t, list, 2)
	require.NoError(t, j.Replay(within(t), "d", []tracking.Call{list[1].Call}, nil, tracking.StateFailed))
	left := listFailed(t, j, "d")
	require.Equal(t, []string{"m-0"}, failedIDs(left))
	require.Equal(t, "web", left[0].Call.Source)
	require.Equal(t, "ios", next(t, r).Entry().Calls[0].Source)
	wantLedger(t, j, "d", 2, 0, 1, 0, 1)
}

// finishKept is like finish, but keeps filtered calls.
func finishKept(t *testing.T, l journal.Lease, states ...tracking.State) {
	t.Helper()
	r := journal.Result{}
	for i := range l.Entry().Calls {
		r.Outcomes = append(r.Outcomes, tracking.Outcome{State: states[i%len(states)], Reason: "because"})
		r.Kept = append(r.Kept, i != 0)
	}
	require.NoError(t, l.Finish(within(t), r))
}

func filtered(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	sent := batch("web", "m", 4)
	require.NoError(t, j.Append(within(t), sent))
	finishKept(t, next(t, r), tracking.StateFiltered, tracking.StateFiltered, tracking.StateFailed, tracking.StateFiltered)
	wantLedger(t, j, "d", 4, 0, 1, 3, 0)
	list := listFailed(t, j, "d")
	require.Equal(t, []string{"m-1", "m-2", "m-3"}, failedIDs(list))
	for i, f := range list {
		require.Equal(t, i != 1, f.Filtered, f.Call.ID)
		require.Equal(t, "because", f.Reason)
	}
	// The first of the two calls is not kept.
	require.NoError(t, j.Replay(within(t), "d", []tracking.Call{list[2].Call, sent.Calls[0]}, nil, tracking.StateFiltered))
	wantLedger(t, j, "d", 4, 0, 1, 1, 2)
	require.Equal(t, []string{"m-1", "m-2"}, failedIDs(listFailed(t, j, "d")))
	l := next(t, r)
	require.Equal(t, []string{"m-3", "m-0"}, ids(l))
	finish(t, l, time.Time{}, tracking.StateFailed, tracking.StateDelivered)
	list = listFailed(t, j, "d")
	require.Equal(t, []string{"m-1", "m-2", "m-3"}, failedIDs(list))
	require.False(t, list[2].Filtered)
	require.NoError(t, j.Replay(within(t), "d", []tracking.Call{list[2].Call}, nil, tracking.StateFailed))
	wantLedger(t, j, "d", 4, 1, 1, 1, 1)
}

func replayDelivered(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	sent := batch("web", "m", 2)
	require.NoError(t, j.Append(within(t), sent))
	finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	require.NoError(t, j.Replay(within(t), "d", sent.Calls[:1], nil, tracking.StateDelivered))
	wantLedger(t, j, "d", 2, 1, 0, 0, 1)
	l := next(t, r)
	require.Equal(t, []string{"m-0"}, ids(l))
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 2, 2, 0, 0, 0)
	require.ErrorIs(t, j.Replay(within(t), "nobody", sent.Calls, nil, tracking.StateFailed), journal.ErrNotAttached)
}

// trace returns a trace context with IDs that repeat a digit.
func trace(digit string) *event.Trace {
	return &event.Trace{
		Parent: "00-" + strings.Repeat(digit, 32) + "-" + strings.Repeat(digit, 16) + "-01",
		State:  "vendor=50% of, it;" + digit,
	}
}

// traced returns a batch with a trace context.
func traced(prefix string, n int, c *event.Trace) event.Batch {
	b := batch("web", prefix, n)
	b.Trace = c
	return b
}

// wantTraces leases entries and compares the trace contexts of their calls by ID.
func wantTraces(t *testing.T, r journal.Reader, want map[string]*event.Trace) (leases []journal.Lease) {
	t.Helper()
	got := map[string]*event.Trace{}
	for len(got) < len(want) {
		l := next(t, r)
		e := l.Entry()
		for i := range e.Calls {
			got[e.Calls[i].ID] = e.Traces.At(i)
		}
		leases = append(leases, l)
	}
	require.Equal(t, want, got)
	return leases
}

// appendTraced appends batches with different trace contexts and without one. It returns the
// contexts by call ID.
func appendTraced(t *testing.T, j journal.Journal) map[string]*event.Trace {
	require.NoError(t, j.Append(within(t), batch("web", "before", 1)))
	require.NoError(t, j.Append(within(t), traced("a", 2, trace("a"))))
	require.NoError(t, j.Append(within(t), batch("web", "between", 2)))
	require.NoError(t, j.Append(within(t), traced("b", 1, &event.Trace{Parent: trace("b").Parent})))
	return map[string]*event.Trace{
		"before-0": nil, "a-0": trace("a"), "a-1": trace("a"), "between-0": nil, "between-1": nil, "b-0": {Parent: trace("b").Parent},
	}
}

func traces(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	want := appendTraced(t, j)
	for _, l := range wantTraces(t, r, want) { // one of the two calls is retried
		finish(t, l, time.Now(), tracking.StateFailed, tracking.StatePending)
	}
	again := map[string]*event.Trace{"a-1": want["a-1"], "between-1": nil}
	for _, l := range wantTraces(t, r, again) {
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
	delete(want, "a-1")
	delete(want, "between-1")
	var calls []tracking.Call
	var list event.Traces
	for i, f := range listFailed(t, j, "d") {
		require.Equal(t, want[f.Call.ID], f.Trace, f.Call.ID)
		calls, list = append(calls, f.Call), list.With(i, f.Trace)
	}
	require.Len(t, calls, len(want))
	require.NoError(t, j.Replay(within(t), "d", calls, list, tracking.StateFailed))
	for _, l := range wantTraces(t, r, want) {
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
}

func reopenTraces(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	want := appendTraced(t, j)
	l := next(t, r)
	require.Equal(t, []string{"before-0"}, ids(l))
	finish(t, l, time.Time{}, tracking.StateFailed)
	j = o.Reopen(t, j)
	r = attach(t, j, "d")
	delete(want, "before-0")
	for _, l := range wantTraces(t, r, want) {
		finish(t, l, time.Now(), tracking.StatePending)
	}
	j = o.Reopen(t, j)
	r = attach(t, j, "d")
	wantTraces(t, r, want)
}

func detach(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "a", 2)))
	require.NoError(t, j.Append(within(t), batch("web", "b", 2)))
	l := next(t, r)
	since := r.Since()
	require.NoError(t, j.Detach(within(t), "d"))
	time.Sleep(2 * time.Millisecond)                                                                    // Since has millisecond precision
	_ = l.Finish(within(t), journal.Result{Outcomes: make([]tracking.Outcome, 2), RetryAt: time.Now()}) // has no effect after Detach
	require.NoError(t, j.Detach(within(t), "d"))
	r = attach(t, j, "d")
	none(t, r)
	wantLedger(t, j, "d", 0, 0, 0, 0, 0)
	require.True(t, r.Since().After(since), "attached since %v, and after it was detached since %v", since, r.Since())
}

func attachAgain(t *testing.T, o Options) {
	j := open(t, o)
	before := time.Now().Truncate(time.Millisecond)
	r := attach(t, j, "d", "web")
	since := r.Since()
	require.WithinRange(t, since, before, time.Now())
	require.NoError(t, j.Append(within(t), batch("web", "a", 1)))
	require.NoError(t, j.Append(within(t), batch("web", "b", 1)))
	r = attach(t, j, "d", "web", "ios")
	require.WithinDuration(t, since, r.Since(), 0)
	require.NoError(t, j.Append(within(t), batch("ios", "c", 1)))
	var got []string
	for range 3 {
		l := next(t, r)
		got = append(got, ids(l)...)
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
	slices.Sort(got)
	require.Equal(t, []string{"a-0", "b-0", "c-0"}, got)
	wantLedger(t, j, "d", 3, 3, 0, 0, 0)
}

func full(t *testing.T, o Options) {
	j := o.Open(t, 1<<20)
	t.Cleanup(func() { _ = j.Close() })
	r := attach(t, j, "d")
	var accepted int
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		b := event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{call("web", fmt.Sprintf("m-%d", i), 64<<10)}}
		if err = j.Append(within(t), b); err == nil {
			accepted++
		}
	}
	require.ErrorIs(t, err, journal.ErrFull)
	require.GreaterOrEqual(t, accepted, 15, "batches of 64 KiB into 1 MiB")
	wantLedger(t, j, "d", int64(accepted), 0, 0, 0, int64(accepted))
	if t.Failed() || o.Reopen != nil {
		return // a log on disk frees space only by age
	}
	for range accepted {
		finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	}
	require.NoError(t, j.Append(within(t), batch("web", "again", 1)))
}

// storedByAppend appends with contexts that are canceled before or during Append. If calls are
// stored anyway, Append must report them.
func storedByAppend(t *testing.T, o Options) {
	j := open(t, o)
	attach(t, j, "d")
	var stored atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			defer cancel()
			b := batch("web", fmt.Sprint("m", i), 1500) // stored as more than one message
			err := j.Append(ctx, b)
			var partly *journal.AppendError
			switch {
			case err == nil:
				stored.Add(int64(len(b.Calls)))
			case errors.As(err, &partly):
				stored.Add(int64(partly.Stored()))
			}
		})
		if i%2 == 0 {
			cancel()
		}
	}
	wg.Wait()
	wantLedger(t, j, "d", stored.Load(), 0, 0, 0, stored.Load())
}

func mismatch(t *testing.T, o Options) {
	j, r := openAttached(t, o)
	require.NoError(t, j.Append(within(t), batch("web", "m", 2)))
	require.Error(t, next(t, r).Finish(within(t), journal.Result{Outcomes: make([]tracking.Outcome, 1)}), "one outcome for two calls")
}

// load appends and finishes entries concurrently, with failures and retries, and checks the ledger
// at the same time.
func load(t *testing.T, o Options) {
	const senders, batches, size, workers = 4, 25, 5, 4
	j, r := openAttached(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var seen sync.Map
	var work, send sync.WaitGroup
	for range workers {
		work.Go(func() {
			for {
				l, err := r.Next(ctx, journal.Want{})
				if err != nil {
					return
				}
				res := journal.Result{RetryAt: time.Now().Add(time.Millisecond)}
				for _, c := range l.Entry().Calls {
					state := tracking.StateDelivered
					if strings.HasSuffix(c.ID, "-0") && l.Entry().Attempt < 3 {
						state = tracking.StatePending
					} else if strings.HasSuffix(c.ID, "-1") {
						state = tracking.StateFiltered
					}
					seen.Store(c.ID, true)
					res.Outcomes = append(res.Outcomes, tracking.Outcome{State: state})
				}
				assert.NoError(t, l.Finish(context.WithoutCancel(ctx), res))
			}
		})
	}
	for s := range senders {
		send.Go(func() {
			for i := range batches {
				assert.NoError(t, j.Append(ctx, batch("web", fmt.Sprintf("%d-%d", s, i), size)))
			}
		})
	}
	send.Wait()
	deadline := time.Now().Add(patience)
	for ledger(t, j, "d").Pending > 0 {
		require.True(t, time.Now().Before(deadline), "still pending: %+v", ledger(t, j, "d"))
		time.Sleep(time.Millisecond) // polls, because the ledger has no notifications
	}
	cancel()
	work.Wait()
	const all = senders * batches * size
	wantLedger(t, j, "d", all, all*(size-1)/size, 0, all/size, 0)
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	require.Equal(t, all, n, "leased calls")
}

// reopen closes the journal with calls in every state, and checks each call after reopening it.
func reopen(t *testing.T, o Options) {
	j := o.Open(t, 0)
	r := attach(t, j, "d")
	for _, p := range []string{"done", "failed", "later", "held", "fresh"} {
		require.NoError(t, j.Append(within(t), batch("web", p, 1)))
	}
	finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	later, held := next(t, r), next(t, r)
	require.Equal(t, []string{"held-0"}, ids(held))
	finish(t, later, time.Now().Add(200*time.Millisecond), tracking.StatePending)
	wantLedger(t, j, "d", 5, 1, 1, 0, 3)
	since := r.Since()

	j = o.Reopen(t, j)
	t.Cleanup(func() { _ = j.Close() })
	r = attach(t, j, "d")
	require.WithinDuration(t, since, r.Since(), 0)
	wantLedger(t, j, "d", 5, 1, 1, 0, 3)
	require.Equal(t, []string{"failed-0"}, failedIDs(listFailed(t, j, "d")))
	got := map[string]int{}
	for range 3 {
		l := next(t, r)
		got[ids(l)[0]] = l.Entry().Attempt
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
	require.Len(t, got, 3)
	require.Equal(t, 2, got["later-0"])
	require.GreaterOrEqual(t, got["held-0"], 1)
	require.Equal(t, 1, got["fresh-0"])
	wantLedger(t, j, "d", 5, 4, 1, 0, 0)
}
