package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Ledger is the account of all destinations, computed from CALLS and OUTCOMES. All processes
// that have read the same messages have the same ledger.
//
// CALLS contains accepted calls, attached destinations and replays, in their order. OUTCOMES
// contains the result of each attempt. Only the first outcome of an attempt is counted. A second
// outcome comes from a process that other processes considered dead by mistake.
type Ledger struct {
	mu       sync.Mutex // guards all fields
	changed  chan struct{}
	Calls    uint64 // sequence number of the last message read from CALLS
	Outcomes uint64 // sequence number of the last message read from OUTCOMES
	Accounts map[string]*Account
	toAll    []*Account            // accounts of destinations that receive all sources
	bySource map[string][]*Account // other accounts, keyed by source
	Lost     []record.Span         // messages of CALLS that were lost before they were finished
	Gone     []record.Span         // lost messages of OUTCOMES
	Frozen   bool                  // whether floors are fixed, because earlier messages or their outcomes are not completely read
	writes   map[record.WriteID]chan<- []bool
	awaited  uint64 // sequence number of the message of CALLS that the next outcome waits for
	Purged   uint64 // messages of CALLS up to this number may be missing; each later message is stored or lost
	broken   error  // error that stopped reading
}

// An Account is the ledger of one destination.
type Account struct {
	Ledger   tracking.Ledger
	Attached uint64           // sequence number of the message of CALLS that attached the destination
	Since    int64            // time of the message Attached, in Unix milliseconds
	Scopes   []scope          // oldest first; the last one is current
	Fresh    int64            // number of calls with an unfinished first attempt
	Floor    uint64           // all first attempts in messages up to this number are finished
	Done     map[uint64]uint8 // bit set of the parts with a finished first attempt, for each message above Floor
	Retries  map[record.Ref]Waiting
	losses   []journal.Loss // Ledger.Lost is their sum
}

// A scope is the set of sources of a destination after a message of CALLS.
type scope struct {
	after   uint64
	Sources []string // empty for all sources
}

func (s scope) takes(source string) bool {
	return len(s.Sources) == 0 || slices.Contains(s.Sources, source)
}

// A Waiting describes the calls of a part that wait for another attempt.
type Waiting struct {
	Attempt  int
	calls    int
	Decided  int64  // when the attempt was scheduled, in Unix nanoseconds
	Due      int64  // Unix nanoseconds
	accepted int64  // acceptance time of the oldest call, in Unix milliseconds
	Outcome  uint64 // sequence number of the retry's message in OUTCOMES; 0 if there is none
	Which    CallSet
}

// A CallSet is a bit set of the calls in a part. For a replay, the empty set means all calls.
type CallSet [record.PartCalls / 64]uint64

// setOf returns the set of the calls at the given places of a message.
func setOf(ref record.Ref, places []int) (s CallSet) {
	for _, p := range places {
		if p -= ref.Part * record.PartCalls; p >= 0 && p < record.PartCalls {
			s[p/64] |= 1 << (p % 64)
		}
	}
	return s
}

// Places returns the places of the calls in their message.
func (s CallSet) Places(ref record.Ref) (places []int) {
	for i := range record.PartCalls {
		if s[i/64]&(1<<(i%64)) != 0 {
			places = append(places, ref.Part*record.PartCalls+i)
		}
	}
	return places
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{Accounts: map[string]*Account{}, bySource: map[string][]*Account{}, writes: map[record.WriteID]chan<- []bool{}}
}

func newAccount(destination string) *Account {
	b := &Account{Done: map[uint64]uint8{}, Retries: map[record.Ref]Waiting{}}
	b.Ledger.Destination = destination
	return b
}

// notify wakes all waiters. The caller must hold the lock.
func (a *Ledger) notify() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// await waits until ready returns true, or reading has failed. It calls ready with the lock held.
func (a *Ledger) await(ctx context.Context, ready func() bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !ready() {
		if a.broken != nil {
			return a.broken
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
			a.mu.Lock()
		case <-ctx.Done():
			a.mu.Lock()
			return context.Cause(ctx)
		}
	}
	return nil
}

// Reached waits until a message of CALLS and a message of OUTCOMES are read.
func (a *Ledger) Reached(ctx context.Context, calls, outcomes uint64) error {
	return a.await(ctx, func() bool { return a.Calls >= calls && a.Outcomes >= outcomes })
}

// ReadUpTo waits until both messages are read, or reading has failed. If an outcome refers to a
// message after calls, no further outcomes can be read. ReadUpTo then returns the number of the
// message.
func (a *Ledger) ReadUpTo(ctx context.Context, calls, outcomes uint64) (beyond uint64, err error) {
	var broken error
	err = a.await(ctx, func() bool {
		if a.awaited > calls {
			beyond = a.awaited
		}
		broken = a.broken
		return broken != nil || a.Calls >= calls && (a.Outcomes >= outcomes || beyond > 0)
	})
	return beyond, cmp.Or(broken, err)
}

// Advance raises the floor of a destination if it is still attached. The floor does not exceed the
// ledger's position in CALLS.
func (a *Ledger) Advance(destination string, attached, floor uint64) {
	a.With(destination, func(b *Account) {
		if b.Attached == attached {
			b.advance(min(floor, a.Calls))
		}
	})
}

// CanAdvance reports whether a first attempt above the floor of a destination has finished.
func (a *Ledger) CanAdvance(destination string) (can bool) {
	a.With(destination, func(b *Account) { can = len(b.Done) > 0 })
	return can
}

// ReadCalls counts a message of CALLS.
func (a *Ledger) ReadCalls(m *record.Calls) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Seq <= a.Calls {
		return
	}
	a.Calls = m.Seq
	switch m.Kind {
	case record.KindCalls:
		for _, b := range a.toAll {
			b.accept(m, a.Frozen)
		}
		for _, b := range a.bySource[m.Name] {
			b.accept(m, a.Frozen)
		}
	case record.KindAttach:
		a.attach(m)
	case record.KindDetach:
		delete(a.Accounts, m.Name)
		a.route()
	case record.KindReplay:
		if b := a.Accounts[m.Name]; b != nil {
			b.replay(m)
		}
	case record.KindLost:
		if !slices.Contains(a.Lost, m.Lost()) {
			a.Lost = append(a.Lost, m.Lost())
		}
	}
	a.notify()
}

func (a *Ledger) attach(m *record.Calls) {
	b := a.Accounts[m.Name]
	if b == nil {
		b = newAccount(m.Name)
		b.Attached, b.Floor, b.Since = m.Seq, m.Seq, m.At.UnixMilli()
		a.Accounts[m.Name] = b
	}
	b.Scopes = append(b.Scopes, scope{after: m.Seq, Sources: m.Sources})
	a.route()
}

// route rebuilds toAll and bySource.
func (a *Ledger) route() {
	a.toAll, a.bySource = nil, map[string][]*Account{}
	for _, b := range a.Accounts {
		s := b.Scopes[len(b.Scopes)-1]
		if len(s.Sources) == 0 {
			a.toAll = append(a.toAll, b)
		}
		for _, source := range s.Sources {
			a.bySource[source] = append(a.bySource[source], b)
		}
	}
}

// ReadOutcomes counts a message of OUTCOMES. It waits until all calls of the message are read.
func (a *Ledger) ReadOutcomes(ctx context.Context, m *record.Outcomes) error {
	last := m.LastCall()
	a.mu.Lock()
	if a.awaited = last; a.Calls < last {
		a.notify()
	}
	a.mu.Unlock()
	if err := a.Reached(ctx, last, 0); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Seq <= a.Outcomes {
		return nil
	}
	a.Outcomes = m.Seq
	counted := make([]bool, len(m.All))
	for i := range m.All {
		counted[i] = a.Count(&m.All[i], m.Seq)
	}
	if tell := a.writes[m.ID]; tell != nil {
		tell <- counted
		delete(a.writes, m.ID)
	}
	a.notify()
	return nil
}

// Count counts an outcome and reports whether it was new. The caller must hold the lock.
func (a *Ledger) Count(o *record.Outcome, seq uint64) bool {
	b := a.Accounts[o.Destination]
	if b == nil || b.Attached != o.Attached || record.Contains(a.Lost, record.Span{First: o.Ref.Seq, Last: o.Ref.Seq}) || !b.Count(o, seq) {
		return false
	}
	if o.Low > 0 && !a.Frozen {
		b.advance(o.Low - 1)
	}
	return true
}

// Expect registers a channel that receives the results of a write. The channel must have a
// capacity of at least one.
func (a *Ledger) Expect(id record.WriteID, tell chan<- []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes[id] = tell
}

// Fail records that reading has failed.
func (a *Ledger) Fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = err
	a.notify()
}

// Forget removes a channel that Expect has registered.
func (a *Ledger) Forget(id record.WriteID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.writes, id)
}

// IsGone reports whether messages of OUTCOMES are known to be lost.
func (a *Ledger) IsGone(gap record.Span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return record.Contains(a.Gone, gap)
}

// IsKnownLoss reports whether messages of CALLS are known to be lost.
func (a *Ledger) IsKnownLoss(gap record.Span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return record.Contains(a.Lost, gap)
}

// accept counts accepted calls.
func (b *Account) accept(m *record.Calls, frozen bool) {
	if b.Fresh == 0 && !frozen {
		b.advance(m.Seq - 1)
	}
	b.Ledger.Accepted += int64(m.Calls)
	b.Fresh += int64(m.Calls)
}

// advance raises the floor and removes the data below it.
func (b *Account) advance(floor uint64) {
	if floor <= b.Floor {
		return
	}
	b.Floor = floor
	for seq := range b.Done {
		if seq <= floor {
			delete(b.Done, seq)
		}
	}
	for len(b.Scopes) > 1 && b.Scopes[1].after <= floor {
		b.Scopes = b.Scopes[1:]
	}
}

// replay makes finished calls pending again. A replay has no first attempt.
func (b *Account) replay(m *record.Calls) {
	journal.Move(&b.Ledger, m.Calls, tracking.State(m.From), tracking.StatePending)
	b.Ledger.Pending = 0 // computed by Pending
	ref := record.Ref{Seq: m.Seq}
	b.Done[m.Seq] = 1
	b.Retries[ref] = Waiting{Attempt: 1, calls: m.Calls, Decided: m.At.UnixNano(), Due: m.At.UnixNano(), accepted: m.Oldest}
}

// Count counts an outcome, and reports whether it was the first outcome of its attempt.
func (b *Account) Count(o *record.Outcome, seq uint64) bool {
	before, waiting := b.Retries[o.Ref]
	n := int64(o.Calls())
	switch {
	case waiting && (before.Attempt != o.Attempt || before.calls != o.Calls()):
		return false
	case waiting:
		delete(b.Retries, o.Ref)
	case o.Attempt != 1 || b.Ended(o.Ref):
		return false
	default:
		b.Fresh -= n
		b.Done[o.Ref.Seq] |= 1 << o.Ref.Part
	}
	b.Ledger.Delivered += int64(o.Delivered)
	filtered, failed := o.Ended()
	b.Ledger.Filtered += filtered
	b.Ledger.Failed += failed
	if len(o.Again) > 0 {
		b.Retries[o.Ref] = Waiting{
			Attempt: o.Attempt + 1, calls: len(o.Again), Decided: o.Decided.UnixNano(), Due: o.Due.UnixNano(),
			accepted: o.Accepted.UnixMilli(), Outcome: seq, Which: setOf(o.Ref, o.Again),
		}
	}
	return true
}

// lose counts lost calls.
func (b *Account) lose(calls int64, at time.Time, cause string) {
	b.Ledger.Lost += calls
	b.losses = append(b.losses, journal.Loss{At: at, Calls: calls, Cause: cause})
}

// Ended reports whether the first attempt of a part is finished.
func (b *Account) Ended(ref record.Ref) bool {
	return ref.Seq <= b.Floor || b.Done[ref.Seq]&(1<<ref.Part) != 0
}

// Takes reports whether the destination receives a message of a source.
func (b *Account) Takes(seq uint64, source string) bool {
	for i := len(b.Scopes) - 1; i >= 0; i-- {
		if s := b.Scopes[i]; s.after < seq {
			return s.takes(source)
		}
	}
	return false
}

// Sources returns the sources of calls that may be pending. An empty list means all sources.
func (b *Account) Sources() []string {
	var sources []string
	for _, s := range b.Scopes {
		if len(s.Sources) == 0 {
			return nil
		}
		sources = append(sources, s.Sources...)
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// Pending counts the unfinished calls. It does not derive their number from the totals. It also
// returns when the oldest call that waits for a retry was accepted.
func (b *Account) Pending() (n int64, oldest time.Time) {
	n = b.Fresh
	var first int64
	for _, r := range b.Retries {
		n += int64(r.calls)
		if first == 0 || r.accepted < first {
			first = r.accepted
		}
	}
	if first != 0 {
		oldest = time.UnixMilli(first)
	}
	return n, oldest
}

// Ledgers returns the totals of every destination, sorted by name. It also returns which
// destinations have calls with an unfinished first attempt.
func (a *Ledger) Ledgers() (ledgers []tracking.Ledger, fresh map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledgersNow()
}

// ledgersNow is like Ledgers, but the caller must hold the lock.
func (a *Ledger) ledgersNow() (ledgers []tracking.Ledger, fresh map[string]bool) {
	fresh = map[string]bool{}
	for name, b := range a.Accounts {
		l := b.Ledger
		l.Pending, l.OldestPending = b.Pending()
		fresh[name] = b.Fresh > 0
		ledgers = append(ledgers, pendingOnce(l))
	}
	slices.SortFunc(ledgers, func(x, y tracking.Ledger) int { return cmp.Compare(x.Destination, y.Destination) })
	return ledgers, fresh
}

// pendingOnce corrects totals if a replay was read before the outcomes of its calls. Until they are
// read, the calls are pending twice, and the total of the state that the replay has changed is too
// small, possibly negative.
func pendingOnce(l tracking.Ledger) tracking.Ledger {
	for _, n := range []*int64{&l.Delivered, &l.Failed, &l.Filtered} {
		if *n < 0 && l.Pending+*n >= 0 {
			l.Pending += *n
			*n = 0
		}
	}
	return l
}

// Destinations returns the attached destinations, sorted.
func (a *Ledger) Destinations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.Accounts))
}

// With calls f with the account of a destination while the lock is held. It returns false if the
// destination is not attached.
func (a *Ledger) With(destination string, f func(*Account)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.Accounts[destination]
	if b != nil {
		f(b)
	}
	return b != nil
}

// Position returns the last messages that the ledger has read.
func (a *Ledger) Position() (calls, outcomes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Calls, a.Outcomes
}
