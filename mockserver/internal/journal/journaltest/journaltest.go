// Package journaltest is the suite of tests that every [journal.Journal]
// passes.
package journaltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// patience is how long something that must happen may take, and brief how long
// we look for what must not.
const (
	patience = 20 * time.Second
	brief    = 50 * time.Millisecond
)

// An Options tells the suite how to make journals.
type Options struct {
	// Open returns an empty journal that takes about maxBytes of large calls (zero:
	// its default) and refuses the batches that go far beyond. The suite closes it.
	Open func(t *testing.T, maxBytes int64) journal.Journal
	// Reopen, where the journal is durable, closes j without regard for what is
	// under way and opens another on the same data.
	Reopen func(t *testing.T, j journal.Journal) journal.Journal
	// In runs each test, as synctest.Test does for a journal that needs no network and
	// no disk. Defaults to a call.
	In func(*testing.T, func(*testing.T))
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	for name, test := range map[string]func(*testing.T, Options){
		"EveryDestinationGetsEveryCall":      everyDestination,
		"SourcesAreFiltered":                 sources,
		"RetriesComeAtTheirTime":             retries,
		"RetriesComeBesideFreshCalls":        retriesBeside,
		"SourcesTakeTurns":                   turns,
		"WhatIsNotWantedWaits":               wants,
		"NotesComeBackWithTheirCalls":        notes,
		"ReturnedEntriesComeAgain":           returned,
		"NextEndsWithItsContextAndItsReader": nextEnds,
		"FailedCallsAreKeptAndReplayed":      failed,
		"AnyCallCanBeReplayed":               replayDelivered,
		"DetachForgets":                      detach,
		"AttachAgainGoesOn":                  attachAgain,
		"AFullJournalRefusesAndRecovers":     full,
		"AppendTellsWhatItLeavesBehind":      leftBehind,
		"OutcomesMustMatchCalls":             mismatch,
		"LedgerHoldsUnderLoadConcurrentSafe": load,
	} {
		t.Run(name, func(t *testing.T) {
			if o.In == nil {
				test(t, o)
				return
			}
			o.In(t, func(t *testing.T) { test(t, o) })
		})
	}
	if o.Reopen != nil {
		t.Run("ReopenKeepsEverything", func(t *testing.T) { reopen(t, o) })
	}
}

// Calls makes n calls of a source whose ids begin with prefix.
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
	noise := make([]byte, padding/2) // a journal that compresses is to be filled too
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

func attach(t *testing.T, j journal.Journal, destination string, sources ...string) journal.Reader {
	t.Helper()
	r, err := j.Attach(within(t), destination, sources)
	ok(t, err)
	return r
}

// within returns a context for one call, each of which is to have an end.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("%s waited for %v in vain", t.Name(), patience))
	context.AfterFunc(ctx, cancel)
	return ctx
}

func next(t *testing.T, r journal.Reader) journal.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := r.Next(ctx, journal.Want{})
	ok(t, err)
	return l
}

// none checks that nothing is due.
func none(t *testing.T, r journal.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	l, err := r.Next(ctx, journal.Want{})
	if err == nil {
		t.Fatalf("got entry %s of %v, want none", l.Entry().ID, ids(l))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next: %v, want the context's error", err)
	}
}

func finish(t *testing.T, l journal.Lease, retryAt time.Time, states ...tracking.State) {
	t.Helper()
	r := journal.Result{RetryAt: retryAt}
	for i := range l.Entry().Calls {
		r.Outcomes = append(r.Outcomes, tracking.Outcome{State: states[i%len(states)], Reason: "because"})
	}
	ok(t, l.Finish(within(t), r))
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
	ok(t, err)
	for _, l := range all {
		if l.Destination == destination {
			if !l.Holds() {
				t.Fatalf("the ledger does not hold: %+v", l)
			}
			return l
		}
	}
	t.Fatalf("no ledger of %q in %+v", destination, all)
	return tracking.Ledger{}
}

func wantLedger(t *testing.T, j journal.Journal, destination string, accepted, delivered, failed, filtered, pending int64) {
	t.Helper()
	l := ledger(t, j, destination)
	if l.OldestPending.IsZero() != (pending == 0) {
		t.Fatalf("oldest pending %v with %d pending", l.OldestPending, pending)
	}
	l.OldestPending = time.Time{}
	want := tracking.Ledger{Destination: destination, Accepted: accepted, Delivered: delivered, Failed: failed, Filtered: filtered, Pending: pending}
	if l != want {
		t.Fatalf("ledger\n got %+v\nwant %+v", l, want)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func everyDestination(t *testing.T, o Options) {
	j := open(t, o)
	a, b := attach(t, j, "a"), attach(t, j, "b")
	sent := batch("web", "m", 3)
	ok(t, j.Append(within(t), sent))
	for name, r := range map[string]journal.Reader{"a": a, "b": b} {
		wantLedger(t, j, name, 3, 0, 0, 0, 3)
		l := next(t, r)
		e := l.Entry()
		same(t, ids(l), []string{"m-0", "m-1", "m-2"})
		if e.Attempt != 1 || e.ID == "" || e.Since.Sub(sent.ReceivedAt).Abs() > time.Millisecond {
			t.Fatalf("entry %q, attempt %d, since %v; the batch came at %v", e.ID, e.Attempt, e.Since, sent.ReceivedAt)
		}
		for i, c := range e.Calls {
			w := sent.Calls[i]
			if c.Source != "web" || c.Type != "track" || c.UserID != "u1" || c.Event != "Tested" ||
				!c.ReceivedAt.Equal(w.ReceivedAt) || !c.Timestamp.Equal(w.Timestamp) || string(c.Body) != string(w.Body) {
				t.Fatalf("got %+v\nwant %+v", c, w)
			}
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
		ok(t, j.Append(within(t), batch(s, s, 1)))
	}
	got := append(ids(next(t, r)), ids(next(t, r))...)
	slices.Sort(got)
	same(t, got, []string{"ios-0", "web-0"})
	none(t, r)
	wantLedger(t, j, "d", 2, 0, 0, 0, 2)
}

func retries(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "m", 3)))
	l := next(t, r)
	since := l.Entry().Since
	at := time.Now().Add(300 * time.Millisecond)
	finish(t, l, at, tracking.StatePending, tracking.StateDelivered, tracking.StatePending)
	wantLedger(t, j, "d", 3, 1, 0, 0, 2)
	if time.Until(at) > 2*brief { // else this machine is too slow to see it
		none(t, r)
	}
	l = next(t, r)
	if early := time.Until(at); early > 0 {
		t.Fatalf("the retry came %v early", early)
	}
	same(t, ids(l), []string{"m-0", "m-2"})
	if e := l.Entry(); e.Attempt != 2 || e.Since.Sub(since).Abs() > time.Millisecond {
		t.Fatalf("attempt %d since %v, want 2 since %v", e.Attempt, e.Since, since)
	}
	finish(t, l, time.Now(), tracking.StatePending)
	l = next(t, r)
	if e := l.Entry(); e.Attempt != 3 {
		t.Fatalf("attempt %d, want 3", e.Attempt)
	}
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 3, 3, 0, 0, 0)
}

func notes(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "m", 4)))
	noted := func(states map[string]tracking.Outcome) []string {
		t.Helper()
		l := next(t, r)
		got := l.Entry().Notes
		res := journal.Result{RetryAt: time.Now()}
		for _, id := range ids(l) {
			res.Outcomes = append(res.Outcomes, states[id])
		}
		ok(t, l.Finish(within(t), res))
		return got
	}
	again := func(note string) tracking.Outcome {
		return tracking.Outcome{State: tracking.StatePending, Reason: "because", Note: note}
	}
	done := tracking.Outcome{State: tracking.StateDelivered}
	if got := noted(map[string]tracking.Outcome{"m-0": again(""), "m-1": done, "m-2": again("0123abcd.4567cdef"), "m-3": again("x")}); got != nil {
		t.Fatalf("fresh calls have the notes %q", got)
	}
	same(t, noted(map[string]tracking.Outcome{"m-0": again(""), "m-2": again(""), "m-3": done}), []string{"", "0123abcd.4567cdef", "x"})
	if got := noted(map[string]tracking.Outcome{"m-0": done, "m-2": done}); got != nil {
		t.Fatalf("notes that were not renewed came back: %q", got)
	}
	wantLedger(t, j, "d", 4, 4, 0, 0, 0)
}

func retriesBeside(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "old", 1)))
	finish(t, next(t, r), time.Now(), tracking.StatePending)
	ok(t, j.Append(within(t), batch("web", "new", 1)))
	got := append(ids(next(t, r)), ids(next(t, r))...)
	slices.Sort(got) // a journal may need a moment until a retry is due: both come, neither waits for the other
	same(t, got, []string{"new-0", "old-0"})
}

// turns has a source behind 300 entries of another, and retries of these.
func turns(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	for i := range 300 {
		ok(t, j.Append(within(t), batch("bad", fmt.Sprintf("bad-%d", i), 1)))
	}
	for _, source := range []string{"a", "b"} {
		for i := range 3 {
			ok(t, j.Append(within(t), batch(source, fmt.Sprintf("%s-%d", source, i), 1)))
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
			t.Fatalf("after %d entries and %v only %v came of other sources", n, patience, good)
		default:
			if first++; e.Attempt > 1 {
				first, retries = first-1, retries+1
			}
			finish(t, l, time.Now(), tracking.StatePending)
			time.Sleep(10 * time.Millisecond) // as a webhook takes
		}
		if retries > n/2 {
			t.Fatalf("%d of %d entries were tried again", retries, n)
		}
	}
	if first == 300 {
		t.Fatal("those of other sources came behind all that was before them")
	}
	wantLedger(t, j, "d", 306, 6, 0, 0, 300)
}

// wants narrows what Next hands out.
func wants(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("bad", "again", 1)))
	finish(t, next(t, r), time.Now(), tracking.StatePending)
	for i := range 40 {
		ok(t, j.Append(within(t), batch("bad", fmt.Sprintf("bad-%d", i), 1)))
	}
	ok(t, j.Append(within(t), batch("good", "good", 1)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wanted := func(want journal.Want) journal.Lease {
		t.Helper()
		l, err := r.Next(ctx, want)
		ok(t, err)
		return l
	}
	same(t, ids(wanted(journal.Want{NoRetries: true, Except: []string{"bad"}})), []string{"good-0"})
	same(t, ids(wanted(journal.Want{Except: []string{"bad", "good"}})), []string{"again-0"})
	same(t, ids(wanted(journal.Want{NoRetries: true})), []string{"bad-0-0"})

	waits := make(chan journal.Lease)
	go func() {
		l, _ := r.Next(ctx, journal.Want{NoRetries: true, Except: []string{"bad"}})
		waits <- l
	}()
	same(t, ids(wanted(journal.Want{})), []string{"bad-1-0"})
	select {
	case l := <-waits:
		t.Fatalf("%v came, which is not wanted", ids(l))
	case <-time.After(brief):
	}
	ok(t, j.Append(within(t), batch("another", "another", 1)))
	if l := <-waits; l == nil {
		t.Fatal("what is wanted did not come")
	} else {
		same(t, ids(l), []string{"another-0"})
	}
}

func returned(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "m", 2)))
	l := next(t, r)
	first := l.Entry().ID
	l.Return()
	l = next(t, r)
	if e := l.Entry(); e.ID != first || e.Attempt != 1 {
		t.Fatalf("entry %s attempt %d, want %s attempt 1", e.ID, e.Attempt, first)
	}
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 2, 2, 0, 0, 0)
}

func nextEnds(t *testing.T, o Options) {
	j := open(t, o)
	none(t, attach(t, j, "d"))
	for name, end := range map[string]func(journal.Reader){
		"reader closed":  func(r journal.Reader) { ok(t, r.Close()) },
		"attached again": func(journal.Reader) { attach(t, j, "d") },
		"detached":       func(journal.Reader) { ok(t, j.Detach(within(t), "d")) },
	} {
		endsWith(t, name, attach(t, j, "d"), end)
	}
	endsWith(t, "journal closed", attach(t, j, "d"), func(journal.Reader) { ok(t, j.Close()); ok(t, j.Close()) })
	if err := j.Append(within(t), batch("web", "m", 1)); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("Append after Close: %v", err)
	}
}

func endsWith(t *testing.T, name string, r journal.Reader, end func(journal.Reader)) {
	t.Helper()
	got := make(chan error, 1)
	go func() { _, err := r.Next(context.Background(), journal.Want{}); got <- err }()
	end(r)
	select {
	case err := <-got:
		if !errors.Is(err, journal.ErrClosed) {
			t.Fatalf("%s: Next: %v, want ErrJournalClosed", name, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: Next did not end", name)
	}
}

func listFailed(t *testing.T, j journal.Journal, destination string) []journal.FailedCall {
	t.Helper()
	var list []journal.FailedCall
	ok(t, j.Failed(within(t), destination, func(f journal.FailedCall) bool { list = append(list, f); return true }))
	return list
}

func failed(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "m", 3)))
	finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	list := listFailed(t, j, "d")
	if len(list) != 3 {
		t.Fatalf("%d failed calls, want 3", len(list))
	}
	for i, f := range list {
		if f.Call.ID != fmt.Sprintf("m-%d", i) || f.Reason != "because" || f.Attempts != 1 || time.Since(f.FailedAt) > time.Hour || len(f.Call.Body) == 0 {
			t.Fatalf("failed call %d: %+v", i, f)
		}
	}
	ok(t, j.Replay(within(t), "d", []tracking.Call{list[1].Call}, tracking.StateFailed))
	wantLedger(t, j, "d", 3, 0, 2, 0, 1)
	if list := listFailed(t, j, "d"); len(list) != 2 || list[0].Call.ID != "m-0" || list[1].Call.ID != "m-2" {
		t.Fatalf("failed calls after the replay: %+v", list)
	}
	l := next(t, r)
	same(t, ids(l), []string{"m-1"})
	if e := l.Entry(); e.Attempt != 1 || time.Since(e.Since) > time.Minute {
		t.Fatalf("replayed as attempt %d since %v", e.Attempt, e.Since)
	}
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 3, 1, 2, 0, 0)
	if err := j.Failed(within(t), "nobody", func(journal.FailedCall) bool { return true }); !errors.Is(err, journal.ErrNotAttached) {
		t.Fatalf("Failed of an unknown destination: %v", err)
	}
}

func replayDelivered(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	sent := batch("web", "m", 2)
	ok(t, j.Append(within(t), sent))
	finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	ok(t, j.Replay(within(t), "d", sent.Calls[:1], tracking.StateDelivered))
	wantLedger(t, j, "d", 2, 1, 0, 0, 1)
	l := next(t, r)
	same(t, ids(l), []string{"m-0"})
	finish(t, l, time.Time{}, tracking.StateDelivered)
	wantLedger(t, j, "d", 2, 2, 0, 0, 0)
	if err := j.Replay(within(t), "nobody", sent.Calls, tracking.StateFailed); !errors.Is(err, journal.ErrNotAttached) {
		t.Fatalf("Replay to an unknown destination: %v", err)
	}
}

func detach(t *testing.T, o Options) {
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "a", 2)))
	ok(t, j.Append(within(t), batch("web", "b", 2)))
	l := next(t, r)
	since := r.Since()
	ok(t, j.Detach(within(t), "d"))
	time.Sleep(2 * time.Millisecond)                                                                    // Since tells milliseconds
	_ = l.Finish(within(t), journal.Result{Outcomes: make([]tracking.Outcome, 2), RetryAt: time.Now()}) // must do no harm
	ok(t, j.Detach(within(t), "d"))
	r = attach(t, j, "d")
	none(t, r)
	wantLedger(t, j, "d", 0, 0, 0, 0, 0)
	if !r.Since().After(since) {
		t.Fatalf("attached since %v, and after it was detached since %v", since, r.Since())
	}
}

func attachAgain(t *testing.T, o Options) {
	j := open(t, o)
	before := time.Now().Truncate(time.Millisecond)
	r := attach(t, j, "d", "web")
	since := r.Since()
	if since.Before(before) || since.After(time.Now()) {
		t.Fatalf("attached since %v, not since %v", since, before)
	}
	ok(t, j.Append(within(t), batch("web", "a", 1)))
	ok(t, r.Close())
	ok(t, j.Append(within(t), batch("web", "b", 1)))
	r = attach(t, j, "d", "web", "ios")
	if !r.Since().Equal(since) {
		t.Fatalf("attached since %v, and attached again since %v", since, r.Since())
	}
	ok(t, j.Append(within(t), batch("ios", "c", 1)))
	var got []string
	for range 3 {
		l := next(t, r)
		got = append(got, ids(l)...)
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
	slices.Sort(got)
	same(t, got, []string{"a-0", "b-0", "c-0"})
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
	if !errors.Is(err, journal.ErrFull) || accepted < 15 {
		t.Fatalf("after %d batches of 64 KiB into 1 MiB: %v", accepted, err)
	}
	wantLedger(t, j, "d", int64(accepted), 0, 0, 0, int64(accepted))
	if t.Failed() || o.Reopen != nil {
		return // a log on disk frees its space by age, not when a call is done
	}
	for range accepted {
		finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	}
	ok(t, j.Append(within(t), batch("web", "again", 1)))
}

// leftBehind appends with contexts that end before Append or while it is under way.
// What is stored all the same must be known, call by call.
func leftBehind(t *testing.T, o Options) {
	j := open(t, o)
	attach(t, j, "d")
	var stored atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			defer cancel()
			b := batch("web", fmt.Sprint("m", i), 1500) // more than one message has
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
	j := open(t, o)
	r := attach(t, j, "d")
	ok(t, j.Append(within(t), batch("web", "m", 2)))
	if err := next(t, r).Finish(within(t), journal.Result{Outcomes: make([]tracking.Outcome, 1)}); err == nil {
		t.Fatal("one outcome for two calls was taken")
	}
}

// load appends from several goroutines while several work, some of what they
// do ending in failures and retries, and looks at the ledger all the time.
func load(t *testing.T, o Options) {
	const senders, batches, size, workers = 4, 25, 5, 4
	j := open(t, o)
	r := attach(t, j, "d")
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
				if err := l.Finish(context.WithoutCancel(ctx), res); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for s := range senders {
		send.Go(func() {
			for i := range batches {
				if err := j.Append(ctx, batch("web", fmt.Sprintf("%d-%d", s, i), size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	send.Wait()
	deadline := time.Now().Add(patience)
	for ledger(t, j, "d").Pending > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still pending: %+v", ledger(t, j, "d"))
		}
		time.Sleep(time.Millisecond) // a Ledger has no event to wait for
	}
	cancel()
	work.Wait()
	const all = senders * batches * size
	wantLedger(t, j, "d", all, all*(size-1)/size, 0, all/size, 0)
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	if n != all {
		t.Fatalf("%d of %d calls were handed out", n, all)
	}
}

// reopen closes the journal with calls in every state and finds each of them
// again.
func reopen(t *testing.T, o Options) {
	j := o.Open(t, 0)
	r := attach(t, j, "d")
	for _, p := range []string{"done", "failed", "later", "held", "fresh"} {
		ok(t, j.Append(within(t), batch("web", p, 1)))
	}
	finish(t, next(t, r), time.Time{}, tracking.StateDelivered)
	finish(t, next(t, r), time.Time{}, tracking.StateFailed)
	finish(t, next(t, r), time.Now().Add(200*time.Millisecond), tracking.StatePending)
	held := next(t, r)
	same(t, ids(held), []string{"held-0"})
	wantLedger(t, j, "d", 5, 1, 1, 0, 3)
	since := r.Since()

	j = o.Reopen(t, j)
	t.Cleanup(func() { _ = j.Close() })
	r = attach(t, j, "d")
	if !r.Since().Equal(since) {
		t.Fatalf("attached since %v, and after reopening since %v", since, r.Since())
	}
	wantLedger(t, j, "d", 5, 1, 1, 0, 3)
	if list := listFailed(t, j, "d"); len(list) != 1 || list[0].Call.ID != "failed-0" {
		t.Fatalf("failed calls after reopening: %+v", list)
	}
	got := map[string]int{}
	for range 3 {
		l := next(t, r)
		got[ids(l)[0]] = l.Entry().Attempt
		finish(t, l, time.Time{}, tracking.StateDelivered)
	}
	if len(got) != 3 || got["later-0"] != 2 || got["held-0"] < 1 || got["fresh-0"] != 1 {
		t.Fatalf("after reopening: %v", got)
	}
	wantLedger(t, j, "d", 5, 4, 1, 0, 0)
}
