package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Live is the ledger of a running journal. It reads CALLS and OUTCOMES concurrently. Its methods are
// safe for concurrent use.
type Live struct {
	mu      sync.Mutex // guards the fields below
	ledger  *Ledger
	changed chan struct{} // closed by notify; may be nil
	writes  map[record.WriteID]chan<- []bool
	awaited uint64 // sequence number of the message of CALLS that the next outcome waits for
	broken  error  // error that stopped reading
}

// NewLive returns a live ledger that continues l. The caller must no longer use l.
func NewLive(l *Ledger) *Live {
	return &Live{ledger: l, writes: map[record.WriteID]chan<- []bool{}}
}

// ReadCalls counts a message of CALLS.
func (l *Live) ReadCalls(m *record.Calls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledger.ReadCalls(m)
	l.notify()
}

// ReadOutcomes counts a message of OUTCOMES. It waits until all calls of the message are read.
func (l *Live) ReadOutcomes(ctx context.Context, m *record.Outcomes) error {
	last := m.LastCall()
	l.mu.Lock()
	if l.awaited = last; l.ledger.Calls < last {
		l.notify()
	}
	l.mu.Unlock()
	if err := l.Reached(ctx, last, 0); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Seq <= l.ledger.Outcomes {
		return nil
	}
	l.ledger.Outcomes = m.Seq
	counted := make([]bool, len(m.All))
	for i := range m.All {
		counted[i] = l.ledger.Count(&m.All[i], m.Seq)
	}
	if tell := l.writes[m.ID]; tell != nil {
		tell <- counted
		delete(l.writes, m.ID)
	}
	l.notify()
	return nil
}

// Expect registers a channel that receives the results of a write. The channel must have a
// capacity of at least one.
func (l *Live) Expect(id record.WriteID, tell chan<- []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[id] = tell
}

// Forget removes a channel that Expect has registered.
func (l *Live) Forget(id record.WriteID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writes, id)
}

// Fail records that reading has failed.
func (l *Live) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
	l.notify()
}

// await waits until ready returns true, or reading has failed. It calls ready with the lock held.
func (l *Live) await(ctx context.Context, ready func() bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !ready() {
		if l.broken != nil {
			return l.broken
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			return context.Cause(ctx)
		}
	}
	return nil
}

// notify wakes all waiters. The caller must hold the lock.
func (l *Live) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Reached waits until a message of CALLS and a message of OUTCOMES are read.
func (l *Live) Reached(ctx context.Context, calls, outcomes uint64) error {
	return l.await(ctx, func() bool { return l.ledger.Calls >= calls && l.ledger.Outcomes >= outcomes })
}

// ReadUpTo waits until both messages are read, or reading has failed. If an outcome refers to a
// message after calls, no further outcomes can be read. ReadUpTo then returns the number of the
// message.
func (l *Live) ReadUpTo(ctx context.Context, calls, outcomes uint64) (beyond uint64, err error) {
	var broken error
	err = l.await(ctx, func() bool {
		if l.awaited > calls {
			beyond = l.awaited
		}
		broken = l.broken
		return broken != nil || l.ledger.Calls >= calls && (l.ledger.Outcomes >= outcomes || beyond > 0)
	})
	return beyond, cmp.Or(broken, err)
}

// Position returns the last messages that the ledger has read.
func (l *Live) Position() (calls, outcomes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Calls, l.ledger.Outcomes
}

// IsBehind is like Ledger.IsBehind.
func (l *Live) IsBehind(base *Ledger) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.IsBehind(base)
}

// Skip replaces the ledger with a base if messages that the ledger has not read may have been removed. The base must
// include all messages of CALLS up to the ledger's position. Skip takes ownership of the base.
func (l *Live) Skip(base *Ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ledger.IsBehind(base) {
		// The base contains all messages that the ledger has read.
		base.Calls, base.Outcomes = max(base.Calls, l.ledger.Calls), max(base.Outcomes, l.ledger.Outcomes)
		l.ledger = base
		l.notify()
	}
}

// Advance raises the floor of a destination if it is still attached. The floor does not exceed the
// ledger's position in CALLS.
func (l *Live) Advance(destination string, attached, floor uint64) {
	l.With(destination, func(a *Account) {
		if a.Attached == attached {
			a.advance(min(floor, l.ledger.Calls))
		}
	})
}

// CanAdvance reports whether a first attempt above the floor of a destination has finished.
func (l *Live) CanAdvance(destination string) (can bool) {
	l.With(destination, func(a *Account) { can = len(a.Done) > 0 })
	return can
}

// With calls f with the account of a destination while the lock is held. It returns false if the
// destination is not attached.
func (l *Live) With(destination string, f func(*Account)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.ledger.Accounts[destination]
	if a != nil {
		f(a)
	}
	return a != nil
}

// Destinations returns the attached destinations, sorted.
func (l *Live) Destinations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.ledger.Accounts))
}

// Ledgers is like Ledger.Ledgers.
func (l *Live) Ledgers() (ledgers []tracking.Ledger, unattempted map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Ledgers()
}

// Retries returns the matching retries of the destinations, in the order of their outcomes.
func (l *Live) Retries(destinations []string, match func(Retry) bool) (all []Retry) {
	for _, name := range destinations {
		l.With(name, func(a *Account) {
			for ref, w := range a.Retries {
				if r := (Retry{name, ref, w}); match(r) {
					all = append(all, r)
				}
			}
		})
	}
	slices.SortFunc(all, func(x, y Retry) int {
		return cmp.Or(cmp.Compare(x.Outcome, y.Outcome), cmp.Compare(x.Ref.Number(), y.Ref.Number()), cmp.Compare(x.Destination, y.Destination))
	})
	return all
}

// Finished returns the last message of CALLS before the first pending call.
func (l *Live) Finished() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	finished := l.ledger.Calls
	for _, a := range l.ledger.Accounts {
		if a.Unattempted > 0 {
			finished = min(finished, a.Floor)
		}
		for ref := range a.Retries {
			finished = min(finished, ref.Seq-1)
		}
	}
	return finished
}

// Behind returns the destinations that have pending calls in messages before the given one.
func (l *Live) Behind(before uint64) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.ledger.Accounts {
		pending := a.Unattempted > 0 && a.Floor+1 < before
		for ref := range a.Retries {
			pending = pending || ref.Seq < before
		}
		if pending {
			names = append(names, name)
		}
	}
	return names
}

// State returns the current state of the ledger, to be compared with a recount. acknowledged contains
// the acknowledged positions of the consumers.
func (l *Live) State(acknowledged map[string]uint64) *State {
	l.mu.Lock()
	defer l.mu.Unlock()
	ledgers, _ := l.ledger.Ledgers()
	s := &State{Calls: l.ledger.Calls, Outcomes: l.ledger.Outcomes, ledgers: ledgers, Tried: map[string]triedTo{}, Losses: New()}
	s.Losses.LostCalls, s.Losses.LostOutcomes = slices.Clone(l.ledger.LostCalls), slices.Clone(l.ledger.LostOutcomes)
	for name, a := range l.ledger.Accounts {
		s.Tried[name] = triedTo{a.Floor, acknowledged[name]}
	}
	return s
}

// Encode returns the ledger in its storage format.
func (l *Live) Encode() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Encode()
}

// IsLostOutcome is like Ledger.IsLostOutcome.
func (l *Live) IsLostOutcome(gap record.Span) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.IsLostOutcome(gap)
}

// IsLostCall is like Ledger.IsLostCall.
func (l *Live) IsLostCall(gap record.Span) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.IsLostCall(gap)
}
