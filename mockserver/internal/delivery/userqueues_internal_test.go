package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestOrder checks which calls are blocked by a failing call. A call is written as a user and a
// number. An exclamation mark marks a call that always fails, and a=b is an alias call.
func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		ordering tracking.Ordering
		calls    string
		after    time.Duration
		want     string // accepted calls at this time, in order
		failed   string // calls that failed permanently
	}{
		"parallel":                    {calls: "a1! a2 b1", after: time.Minute, want: "a2 b1"},
		"a user waits, others do not": {ordering: tracking.Ordering{Order: tracking.OrderUser}, calls: "a1! a2 b1 b2 a3", after: time.Minute, want: "b1 b2"},
		"until it fails permanently":  {ordering: tracking.Ordering{Order: tracking.OrderUser}, calls: "a1! a2 b1 a3", after: 5 * time.Hour, want: "b1 a2 a3", failed: "a1!"},
		"fails permanently soon":      {ordering: tracking.Ordering{Order: tracking.OrderUser, GiveUpAfter: 10 * time.Second}, calls: "a1! a2 a3! a4", after: time.Minute, want: "a2 a4", failed: "a1! a3!"},
		"later calls overtake":        {ordering: tracking.Ordering{Order: tracking.OrderUser, OnFailure: tracking.OnFailureOvertake}, calls: "a1! a2 a3! a4", after: time.Minute, want: "a2 a4"},
		"an alias merges two users":   {ordering: tracking.Ordering{Order: tracking.OrderUser}, calls: "a=b a1! b2 c1", after: time.Minute, want: "a=b c1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				memory := journal.NewMemory(0)
				reader, err := memory.Attach(t.Context(), "d", nil)
				require.NoError(t, err)
				d := oneWebhook("d")
				d.Ordering = test.ordering
				w := NewWorker(d, reader, WorkerConfig{
					Sender: senderFunc(func(_ context.Context, r sender.Request) webhook.Attempt {
						if strings.HasSuffix(r.MessageID, "!") {
							return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
						}
						got = append(got, r.MessageID)
						return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
					}),
					Observer: &observedEvents{}, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 1 }, Concurrency: 1, Aliases: &aliasMap{pairs: map[[2]event.Key]bool{}},
				})
				w.Start()
				for id := range strings.FieldsSeq(test.calls) { // one entry per call
					c := tracking.Call{ID: id, Source: "web", Type: "track", UserID: id[:1], ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
					if previous, user, found := strings.Cut(id, "="); found {
						c.Type, c.PreviousID, c.UserID = "alias", previous, user
						c.Body = []byte(`{"type":"alias","userId":"b","previousId":"a","timestamp":"2026-01-01T00:00:00.000Z"}`)
					}
					require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
					synctest.Wait()
				}
				time.Sleep(test.after)
				w.Stop()
				assert.Equal(t, test.want, strings.Join(got, " "))
				var failed []string
				require.NoError(t, memory.Failed(t.Context(), "d", func(f journal.FailedCall) bool {
					failed = append(failed, f.Call.ID)
					return true
				}))
				assert.Equal(t, test.failed, strings.Join(failed, " "))
			})
		})
	}
}

// TestOrderSwitchedOn checks that waiting calls are queued, and that replayed calls are last.
func TestOrderSwitchedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		var got []string
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			if busy.Load() && r.MessageID != "old" {
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
			}
			got = append(got, r.MessageID)
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		w.Start()
		add := func(id string) tracking.Call {
			c := tracking.Call{ID: id, Source: "web", Type: "track", UserID: "u", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
			synctest.Wait()
			return c
		}
		old := add("old")
		add("1")
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		synctest.Wait()
		add("2")
		require.NoError(t, memory.Replay(t.Context(), "d", []tracking.Call{old}, nil, tracking.StateDelivered))
		add("3")
		time.Sleep(time.Minute)
		busy.Store(false)
		time.Sleep(10 * time.Minute)
		w.Stop()
		assert.Equal(t, []string{"old", "1", "2", "old", "3"}, got)
	})
}

// TestFilteredAliasMergesUsers checks that a filtered alias call merges two users, even for the
// next process. The alias call waits until the pair is stored.
func TestFilteredAliasMergesUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, _ := newTestWorker(t, nil)
		aliases := &brokenMap{aliasMap: aliasMap{pairs: map[[2]event.Key]bool{}}, left: 2}
		w.Aliases = aliases
		d := oneWebhook("d")
		d.Order, d.Types.Deny = tracking.OrderUser, []string{"alias"}
		w.Update(d, nil)
		w.Start()
		defer w.Stop()
		c := tracking.Call{ID: "a=b", Source: "web", Type: "alias", PreviousID: "a", UserID: "b", ReceivedAt: time.Now(), Body: []byte(`{"type":"alias","userId":"b","previousId":"a"}`)}
		require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
		filtered := func() int64 {
			synctest.Wait()
			all, err := memory.Ledger(t.Context())
			require.NoError(t, err)
			return all[0].Filtered
		}
		assert.Zero(t, filtered())
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, filtered())
		assert.Len(t, aliases.pairs, 1)
	})
}

// A brokenMap is an AliasStore whose first saves fail.
type brokenMap struct {
	aliasMap
	left int
}

func (m *brokenMap) Save(ctx context.Context, pair [2]event.Key) error {
	if m.left--; m.left >= 0 {
		return errors.New("no disk")
	}
	return m.aliasMap.Save(ctx, pair)
}

// TestOrderChangedWhileCallsWait checks that a change of the ordering waits for calls in flight,
// but does not wait for calls behind them.
func TestOrderChangedWhileCallsWait(t *testing.T) {
	for name, to := range map[string]tracking.Ordering{
		"to none":       {},
		"another limit": {Order: tracking.OrderUser, GiveUpAfter: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				got := map[string]int{}
				w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					got[r.MessageID]++
					return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
				})
				w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
				d := oneWebhook("d")
				d.Order = tracking.OrderUser
				w.Update(d, nil)
				w.Start()
				add := func(id, user string) {
					c := tracking.Call{ID: id, Source: "web", Type: "track", UserID: user, ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
					require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
				}
				const calls = 100
				for n := range calls {
					add(fmt.Sprint(n), "u")
				}
				time.Sleep(500 * time.Millisecond)
				d.Ordering = to
				w.Update(d, nil)
				time.Sleep(time.Second)
				add("other", "v")
				time.Sleep(3 * time.Second)
				mu.Lock()
				assert.Equal(t, 1, got["other"], "a call that came after the change")
				mu.Unlock()
				time.Sleep(calls * time.Second)
				mu.Lock()
				defer mu.Unlock()
				assert.Len(t, got, calls+1)
				for id, times := range got {
					assert.Equal(t, 1, times, "call %s", id)
				}
				w.Stop()
			})
		})
	}
}

// TestOrderSwitchedOff checks that calls behind a failing call are delivered once, at the time of
// the failing call's next attempt.
func TestOrderSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]int{}
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			if r.MessageID == "first" {
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
			}
			got[r.MessageID]++
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases, w.Concurrency = &aliasMap{pairs: map[[2]event.Key]bool{}}, 1
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		w.Start()
		for _, id := range []string{"first", "a", "b"} {
			c := tracking.Call{ID: id, Source: "web", Type: "track", UserID: "u", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
		}
		time.Sleep(5 * time.Minute) // the failing call's last attempt was 45 s ago, and its next attempt is 256 s later
		synctest.Wait()
		require.Empty(t, got)
		w.Update(oneWebhook("d"), nil)
		time.Sleep(256 * time.Second)
		w.Stop()
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, got)
	})
}

// ownedElsewhere is a reader of a queue that another process owns.
type ownedElsewhere struct{ journal.Reader }

func (ownedElsewhere) Acquire(ctx context.Context) (context.Context, func(), error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// newEntry returns an entry with one call of user u that was never leased.
func newEntry(position uint64) *journal.Entry {
	return &journal.Entry{First: position, Attempt: 1, Calls: []tracking.Call{{UserID: "u", Type: "track"}}}
}

// TestPostponedEntryEndsAfterPredecessors checks that an entry that is postponed for the first
// time ends after all entries with earlier calls. Otherwise a new process might find the entry
// without the earlier ones.
func TestPostponedEntryEndsAfterPredecessors(t *testing.T) {
	qs := newUserQueues(notParked{}, false)
	waiting, between, last := newEntry(1), newEntry(2), newEntry(3)
	waiting.Attempt = 2
	qs.begin(waiting)
	qs.postpone(&waiting.Calls[0], 1, time.Now().Add(time.Minute))
	atWork := qs.begin(between)
	e := qs.begin(last)
	e.open = 1
	_, ok := qs.awaitTurn(t.Context(), e, &last.Calls[0], 3, note{})
	require.False(t, ok)
	assert.Contains(t, e.predecessors, atWork)
}

// TestCallsWithoutQueueDoNotHideOthers checks that calls with a queue are inserted even if other
// calls of their entry have none.
func TestCallsWithoutQueueDoNotHideOthers(t *testing.T) {
	for name, test := range map[string]struct {
		overtake bool
		entry    journal.Entry
	}{
		"without a user": {false, journal.Entry{First: 1, Attempt: 1, Calls: []tracking.Call{{}, {UserID: "u"}}}},
		"overtaken":      {true, journal.Entry{First: 1, Attempt: 2, Calls: []tracking.Call{{UserID: "v"}, {UserID: "u"}}, Notes: []string{"", "1:"}}},
	} {
		t.Run(name, func(t *testing.T) {
			waiting, leased := newUserQueues(notParked{}, test.overtake), newUserQueues(notParked{}, test.overtake)
			waiting.add(&test.entry, time.Now())
			leased.begin(&test.entry)
			for _, qs := range []*userQueues{waiting, leased} {
				_, _, found := qs.at(&test.entry.Calls[0], 1)
				assert.False(t, found)
				_, _, found = qs.at(&test.entry.Calls[1], 2)
				assert.True(t, found)
			}
		})
	}
}

// TestFinishSkipsCallsOfOtherEntries finishes an entry whose first call another entry has taken over.
func TestFinishSkipsCallsOfOtherEntries(t *testing.T) {
	qs := newUserQueues(notParked{}, false)
	both := journal.Entry{First: 1, Attempt: 1, Calls: []tracking.Call{{UserID: "u"}, {UserID: "v"}}}
	e := qs.begin(&both)
	other := qs.begin(&journal.Entry{First: 1, Attempt: 1, Calls: both.Calls[:1]})
	qs.end(&both.Calls[1], 2)
	qs.finish(e, &both, []tracking.Outcome{{State: tracking.StateDelivered}, {State: tracking.StateDelivered}})
	q, at, found := qs.at(&both.Calls[0], 1)
	require.True(t, found)
	assert.Same(t, other, q.calls[at].entry)
	_, _, found = qs.at(&both.Calls[1], 2)
	assert.False(t, found, "the call has ended")
}

// An unstoringReader is a reader whose first lease fails to store its result, after two calls were
// delivered.
type unstoringReader struct {
	journal.Reader
	failed    atomic.Bool
	delivered chan struct{}
}

func (r *unstoringReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := r.Reader.Next(ctx, want)
	if err != nil || r.failed.Swap(true) {
		return l, err
	}
	return unstoringLease{l, r.delivered}, nil
}

type unstoringLease struct {
	journal.Lease
	delivered chan struct{}
}

func (l unstoringLease) Finish(context.Context, journal.Result) error {
	<-l.delivered
	<-l.delivered
	time.AfterFunc(time.Millisecond, l.Return)
	return errors.New("no disk")
}

// TestCallsAreRepeatedAfterAFailedStore checks that all later calls of a user are delivered again if
// the result of an earlier call is not stored.
func TestCallsAreRepeatedAfterAFailedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		delivered := make(chan struct{}, 10)
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			got = append(got, r.MessageID)
			delivered <- struct{}{}
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		reader, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, &unstoringReader{Reader: reader, delivered: delivered})
		w.Start()
		for _, id := range []string{"1", "2"} {
			c := tracking.Call{ID: id, Source: "web", Type: "track", UserID: "u", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{c}}))
		}
		time.Sleep(time.Minute)
		w.Stop()
		assert.Equal(t, []string{"1", "2", "1", "2"}, got)
		all, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, all[0].Delivered)
	})
}

// TestFinishedEntriesAreReleased checks that the entries of a user who always has pending calls do
// not stay in memory: each entry is the predecessor of the next one.
func TestFinishedEntriesAreReleased(t *testing.T) {
	qs := newUserQueues(notParked{}, false)
	var first weak.Pointer[queuedEntry]
	var last *queuedEntry
	var before *journal.Entry
	for n := range uint64(3) {
		entry := newEntry(n)
		e := qs.begin(entry)
		_, wait := qs.check(e, &entry.Calls[0], n, note{})
		require.Nil(t, wait)
		qs.end(&entry.Calls[0], n)
		if last == nil {
			first = weak.Make(e)
		} else {
			require.Contains(t, e.predecessors, last)
			qs.finish(last, before, []tracking.Outcome{{State: tracking.StateDelivered}})
		}
		last, before = e, entry
	}
	runtime.GC()
	assert.Nil(t, first.Value())
	runtime.KeepAlive(last)
}

// TestEarlierCallWaitsForACallInFlight checks that a call that is leased after a later call of its
// user, for example because its first read failed, is not attempted at the same time.
func TestEarlierCallWaitsForACallInFlight(t *testing.T) {
	for name, end := range map[string]func(qs *userQueues, e *journal.Entry){
		"delivered": func(qs *userQueues, e *journal.Entry) { qs.end(&e.Calls[0], e.First) },
		"postponed": func(qs *userQueues, e *journal.Entry) {
			qs.postpone(&e.Calls[0], e.First, time.Now().Add(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			qs := newUserQueues(notParked{}, false)
			earlier, later := newEntry(1), newEntry(2)
			active := qs.begin(later)
			_, wait := qs.check(active, &later.Calls[0], 2, note{})
			require.Nil(t, wait)
			e := qs.begin(earlier)
			_, wait = qs.check(e, &earlier.Calls[0], 1, note{})
			require.NotNil(t, wait, "two calls of the user are in flight")
			end(qs, later)
			<-wait
			_, wait = qs.check(e, &earlier.Calls[0], 1, note{})
			assert.Nil(t, wait)
		})
	}
}

// TestWakeOnlyChangedCalls checks that wake notifies only calls that a change affects.
func TestWakeOnlyChangedCalls(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(qs *userQueues, calls []*journal.Entry, entries []*queuedEntry)
		want    []int // indices of the notified calls, except the first call
	}{
		"the next one waits in the journal": {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) { qs.end(&calls[0].Calls[0], 0) }, []int{1}},
		"one behind others ends":            {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) { qs.end(&calls[2].Calls[0], 2) }, nil},
		"the first is overtaken":            {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) { qs.dequeue(&calls[0].Calls[0], 0) }, []int{1}},
		"the first is postponed": {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) {
			qs.postpone(&calls[0].Calls[0], 0, time.Now())
		}, []int{1, 2, 3}},
		"a later one is postponed": {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) {
			qs.postpone(&calls[1].Calls[0], 1, time.Now())
		}, nil},
		"the next failed before": {func(qs *userQueues, calls []*journal.Entry, _ []*queuedEntry) {
			qs.change(&calls[1].Calls[0], 1, func(next *queuedCall) { next.failing = true })
			qs.end(&calls[0].Calls[0], 0)
		}, []int{1, 2, 3}},
		"the queue is merged": {func(qs *userQueues, _ []*journal.Entry, _ []*queuedEntry) {
			qs.begin(&journal.Entry{First: 4, Attempt: 1, Calls: []tracking.Call{{UserID: "u", PreviousID: "v", Type: "alias"}}})
		}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			qs := newUserQueues(notParked{}, false)
			var calls []*journal.Entry
			var entries []*queuedEntry
			for n := range uint64(4) {
				calls = append(calls, newEntry(n))
				entries = append(entries, qs.begin(calls[n]))
			}
			waits := map[int]chan struct{}{}
			for n := 1; n < len(calls); n++ {
				_, waits[n] = qs.check(entries[n], &calls[n].Calls[0], uint64(n), note{})
				require.NotNil(t, waits[n])
			}
			test.happens(qs, calls, entries)
			var looks []int
			for n := 1; n < len(calls); n++ {
				select {
				case <-waits[n]:
					looks = append(looks, n)
				default:
				}
			}
			assert.Equal(t, test.want, looks)
		})
	}
}

// notParked is a journal that contains all calls and has no parked entries.
type notParked struct{}

func (notParked) Resume(uint64)         {}
func (notParked) IsPending(uint64) bool { return true }

// TestWaitForDuePredecessor checks that a call waits briefly for an earlier call that is due but
// not leased yet, because parking and resuming the later call would cost more.
func TestWaitForDuePredecessor(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				qs := newUserQueues(notParked{}, false)
				entry := func(position uint64) *journal.Entry { // the entry was postponed once
					return &journal.Entry{First: position, Attempt: 2, Notes: []string{note{skipped: 1}.String()}, Calls: []tracking.Call{{UserID: "u", Type: "track"}}}
				}
				before, behind := entry(1), entry(2)
				qs.add(before, time.Now())
				e := qs.begin(behind)
				e.open = 1
				if comes {
					time.AfterFunc(stayLeased/2, func() { qs.begin(before) })
					time.AfterFunc(2*stayLeased, func() { qs.end(&before.Calls[0], 1) })
				}
				_, ok := qs.awaitTurn(t.Context(), e, &behind.Calls[0], 2, note{})
				assert.Equal(t, comes, ok)
			})
		})
	}
}

// An ownedReader is a reader whose ownership ends when the context lost is canceled. It counts
// releases.
type ownedReader struct {
	journal.Reader
	lost     context.Context
	released atomic.Int64
}

func (r *ownedReader) Acquire(context.Context) (context.Context, func(), error) {
	return r.lost, func() { r.released.Add(1) }, nil
}

// TestPausedWorkerReleasesDestination checks that a paused worker releases its destination.
func TestPausedWorkerReleasesDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		reader, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		lost, lose := context.WithCancel(t.Context())
		owned := &ownedReader{Reader: reader, lost: lost}
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, owned)
		w.Start()
		synctest.Wait()
		d.Paused = true
		w.Update(d, nil)
		synctest.Wait()
		assert.EqualValues(t, 1, owned.released.Load())
		lose()
		synctest.Wait() // until the worker waits
		w.Stop()
	})
}

// TestOrderSwitchedOffWhileOwnedElsewhere checks that a worker that waits until another process
// releases the destination can switch to unordered delivery.
func TestOrderSwitchedOffWhileOwnedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		wants := make(chan journal.Want, 10)
		reader, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, &wantsOf{ownedElsewhere{reader}, wants})
		w.Start()
		synctest.Wait()
		require.Empty(t, wants)
		w.Update(oneWebhook("d"), nil)
		synctest.Wait()
		require.False(t, (<-wants).InOrder)
		w.Stop()
	})
}

// A wantsOf is a reader that records the Wants it receives.
type wantsOf struct {
	journal.Reader
	wants chan<- journal.Want
}

func (r *wantsOf) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	r.wants <- want
	return r.Reader.Next(ctx, want)
}

// TestLongQueuesDrainFastAfterOutage checks that delivering 20,000 calls of five users takes
// little longer than the requests.
func TestLongQueuesDrainFastAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(0)
		reader, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		var up atomic.Bool
		var delivered atomic.Int64
		const users, entries, each = 5, 1000, 20
		all := make(chan struct{})
		w := NewWorker(d, reader, WorkerConfig{
			Sender: senderFunc(func(context.Context, sender.Request) webhook.Attempt {
				time.Sleep(time.Millisecond)
				if !up.Load() {
					return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
				}
				if delivered.Add(1) == entries*each {
					close(all)
				}
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			}),
			Observer: &observedEvents{}, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 1 }, Concurrency: 32, Aliases: &aliasMap{pairs: map[[2]event.Key]bool{}},
		})
		w.Start()
		for range entries {
			calls := make([]tracking.Call, each)
			for i := range calls {
				calls[i] = tracking.Call{ID: "m", Source: "web", Type: "track", UserID: fmt.Sprint("u", i%users), ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
			}
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
		}
		time.Sleep(30 * time.Second)
		up.Store(true)
		began := time.Now()
		<-all
		assert.Less(t, time.Since(began), 20*time.Second) // 4,000 sequential deliveries of 1 ms each take 4 s
		w.Stop()
	})
}

// TestMemoryOfManyQueuedUsers checks that 100,000 users with waiting calls take less than 100 MB.
func TestMemoryOfManyQueuedUsers(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	qs := newUserQueues(notParked{}, false)
	const users = 100_000
	for n := range uint64(2 * users) {
		c := tracking.Call{Type: "track", UserID: fmt.Sprintf("0192f0f4-7b0c-7000-8000-%012d", n%users)}
		qs.add(&journal.Entry{First: n, Attempt: 2, Calls: []tracking.Call{c}}, time.Now())
	}
	taken := float64(heap()) - float64(before)
	t.Logf("%d users with two calls each take %.1f MB", len(qs.byUser), taken/1e6)
	assert.Less(t, taken, 100e6)
	runtime.KeepAlive(qs)
}

// TestMergedUsersAreDeleted checks that the oldest merged users without calls are deleted.
func TestMergedUsersAreDeleted(t *testing.T) {
	qs := newUserQueues(notParked{}, false)
	for n := range maxLinkedIDs {
		qs.merge(qs.queue(keyOfUser(fmt.Sprint("a", n))), qs.queue(keyOfUser(fmt.Sprint("b", n))))
	}
	assert.Len(t, qs.byUser, maxLinkedIDs)
	assert.NotContains(t, qs.byUser, keyOfUser("a0"))
	assert.Contains(t, qs.byUser, keyOfUser(fmt.Sprint("b", maxLinkedIDs-1)))

	alias := tracking.Call{Type: "alias", UserID: "c", PreviousID: fmt.Sprint("a", maxLinkedIDs/2)} // the oldest merged user that remains
	qs.begin(&journal.Entry{Attempt: 1, Calls: []tracking.Call{alias}})
	_, _, found := qs.at(&alias, 0)
	assert.True(t, found, "the oldest merged pair is kept")
}

func TestNoteKeepsFirstFailure(t *testing.T) {
	at := time.Unix(1767225600, 0)
	for _, n := range []note{{}, {skipped: 3}, {failing: at}, {skipped: 2, failing: at, refused: "0a0b0c0d.01020304"}, {refused: "0a0b0c0d"}} {
		e := &journal.Entry{Notes: []string{n.String()}}
		got := noteOf(e, 0)
		assert.True(t, n.failing.Equal(got.failing), "%q", n)
		got.failing = n.failing
		assert.Equal(t, n, got)
		assert.LessOrEqual(t, len(n.String()), 64)
	}
}

// TestQuarantinedInOrder checks that a quarantined call is kept for replay and blocks no other
// calls.
func TestQuarantinedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, events := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		w.Quarantine = func(c *tracking.Call) string {
			if c.ID == "bad" {
				return "plan: no such event"
			}
			return ""
		}
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		w.Start()
		appendCalls(t, memory, "1", "bad", "2")
		synctest.Wait()
		w.Stop()
		var kept []string
		require.NoError(t, memory.Failed(t.Context(), "d", func(f journal.FailedCall) bool {
			assert.True(t, f.Filtered)
			kept = append(kept, f.Call.ID+" "+f.Reason)
			return true
		}))
		assert.Equal(t, []string{"bad plan: no such event"}, kept)
		assert.Len(t, events.events, 5, "two attempts and three results")
	})
}

// A slowReader is a reader that delays each entry.
type slowReader struct{ journal.Reader }

func (r slowReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	time.Sleep(time.Millisecond)
	return r.Reader.Next(ctx, want)
}

// TestEndsInOrderAfterRestart checks that a call postponed behind an earlier call does not
// overtake it after a restart, if the process crashed or stopped before the earlier entry ended.
// After a stop, no call is delivered twice.
func TestEndsInOrderAfterRestart(t *testing.T) {
	for name, test := range map[string]struct {
		batches     string
		concurrency int
		kill        bool
	}{
		"killed, behind one that failed":     {"a1 slow,a2,b1,c1", 4, true},
		"stopped, behind one that failed":    {"a1 slow,a2,b1,c1", 4, false},
		"stopped, behind one at the gate":    {"slow,a1,a2 filtered,b1", 1, false},
		"killed, behind one that is stopped": {"slow,a1,a2 filtered,b1", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testEndsInOrder(t, test.batches, test.concurrency, test.kill) })
		})
	}
}

func testEndsInOrder(t *testing.T, batches string, concurrency int, kill bool) {
	memory := journal.NewMemory(0)
	var healthy atomic.Bool
	var mu sync.Mutex
	var got []string
	start := func() (*Worker, *modelProcess) {
		reader, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		process := &modelProcess{Reader: slowReader{reader}}
		d := oneWebhook("d")
		d.Order, d.Events.Deny = tracking.OrderUser, []string{"filtered"}
		w := NewWorker(d, process, WorkerConfig{
			Sender: senderFunc(func(ctx context.Context, r sender.Request) webhook.Attempt {
				switch {
				case healthy.Load():
				case r.MessageID == "a1":
					return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
				case r.MessageID == "slow":
					<-ctx.Done()
					return webhook.Attempt{Verdict: webhook.Temporary, Error: "time-out"}
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r.MessageID)
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			}),
			Observer: &observedEvents{}, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 1 }, Concurrency: concurrency, Aliases: &aliasMap{pairs: map[[2]event.Key]bool{}},
		})
		w.Start()
		return w, process
	}
	w, process := start()
	for ids := range strings.SplitSeq(batches, ",") {
		b := event.Batch{Source: "web", ReceivedAt: time.Now()}
		for id := range strings.FieldsSeq(ids) {
			b.Calls = append(b.Calls, tracking.Call{ID: id, Source: "web", Type: "track", Event: id, UserID: id[:1], ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)})
		}
		require.NoError(t, memory.Append(t.Context(), b))
		time.Sleep(10 * time.Millisecond)
	}
	process.mu.Lock()
	process.killed = kill
	process.mu.Unlock()
	w.Stop()
	healthy.Store(true)
	time.Sleep(time.Minute)
	before := got
	got = nil
	w, _ = start()
	time.Sleep(time.Minute)
	w.Stop()
	if !kill {
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, got)))), len(before)+len(got), "no call is repeated")
	}
	got = slices.DeleteFunc(got, func(id string) bool { return id[0] != 'a' })
	assert.Equal(t, []string{"a1", "a2"}, got)
}
