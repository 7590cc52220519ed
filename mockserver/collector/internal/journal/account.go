package journal

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An account follows CALLS and OUTCOMES and knows from them, at any time, how
// every destination stands. It is the same in every process that has read as
// far, and can be made again from the streams.
//
// CALLS says what was accepted for whom, in its order, together with when
// destinations were attached and what was replayed. OUTCOMES says what became of
// it. The first outcome of an attempt counts; another of the same attempt, by a
// process that was thought dead, changes nothing.
type account struct {
	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	calls    uint64 // the last message of CALLS that was read
	outcomes uint64 // the last message of OUTCOMES that was read
	books    map[string]*book
	toAll    []*book            // books whose destination takes every source
	bySource map[string][]*book // the others
	lost     []span             // messages of CALLS that are gone though nobody was done with them
	gone     []span             // messages of OUTCOMES that are
	lowAfter uint64             // the message of OUTCOMES after which outcome.low holds again
	writes   map[writeID]chan<- []bool
	awaited  uint64 // the message of CALLS that an outcome waits for
	purged   uint64 // the message of CALLS up to which all may be gone: of those behind it, each is there or lost
	broken   error  // why it does not follow any longer
}

// A span is messages of CALLS from first to last.
type span struct{ first, last uint64 }

// A book is the account of one destination.
type book struct {
	ledger   tracking.Ledger
	attached uint64           // the message of CALLS that attached it
	since    int64            // milliseconds; when that was
	scopes   []scope          // oldest first; the last one is in force
	fresh    int64            // calls whose first attempt has not ended
	floor    uint64           // every message of CALLS up to here has had its first attempt
	done     map[uint64]uint8 // of messages above the floor: the parts that had it, as bits
	retries  map[callsRef]retry
	losses   []journal.Loss // what Lost of the ledger is the sum of
}

// A scope is the sources that a destination takes calls of, from a message of
// CALLS on.
type scope struct {
	after   uint64
	sources []string // none: all
}

func (s scope) takes(source string) bool {
	return len(s.sources) == 0 || slices.Contains(s.sources, source)
}

// A retry is what is left of a part of a message and waits for another attempt.
type retry struct {
	attempt  int
	calls    int
	decided  int64  // nanoseconds; when that was decided. 0 where it is not known
	due      int64  // nanoseconds
	accepted int64  // milliseconds; when the oldest of the calls was
	outcome  uint64 // the message of OUTCOMES that asked for it; 0: none that is still stored
	which    callSet
}

// A callSet is calls of a part, as bits. None stands for those that the outcome names,
// or for all where there is no outcome, as of a replay.
type callSet [partCalls / 64]uint64

// setOf returns the set of the calls at these places of a message.
func setOf(ref callsRef, places []int) (s callSet) {
	for _, p := range places {
		if p -= ref.part * partCalls; p >= 0 && p < partCalls {
			s[p/64] |= 1 << (p % 64)
		}
	}
	return s
}

// places returns where the calls are in their message.
func (s callSet) places(ref callsRef) (places []int) {
	for i := range partCalls {
		if s[i/64]&(1<<(i%64)) != 0 {
			places = append(places, ref.part*partCalls+i)
		}
	}
	return places
}

func newAccount() *account {
	return &account{books: map[string]*book{}, bySource: map[string][]*book{}, writes: map[writeID]chan<- []bool{}}
}

func newBook(destination string) *book {
	b := &book{done: map[uint64]uint8{}, retries: map[callsRef]retry{}}
	b.ledger.Destination = destination
	return b
}

// notify wakes those in await. The lock is held.
func (a *account) notify() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// await waits until ready, which is called with the lock held.
func (a *account) await(ctx context.Context, ready func() bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !ready() {
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

// reached waits until the message of CALLS was read.
func (a *account) reached(ctx context.Context, calls uint64) error {
	return a.await(ctx, func() bool { return a.calls >= calls })
}

// readCalls takes in a message of CALLS.
func (a *account) readCalls(m *callsMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.seq <= a.calls {
		return
	}
	a.calls = m.seq
	switch m.kind {
	case kindCalls:
		for _, b := range a.toAll {
			b.accept(m)
		}
		for _, b := range a.bySource[m.name] {
			b.accept(m)
		}
	case kindAttach:
		a.attach(m)
	case kindDetach:
		delete(a.books, m.name)
		a.route()
	case kindReplay:
		if b := a.books[m.name]; b != nil {
			b.replay(m)
		}
	case kindLost:
		if !slices.Contains(a.lost, m.lost) {
			a.lost = append(a.lost, m.lost)
		}
	}
	a.notify()
}

func (a *account) attach(m *callsMessage) {
	b := a.books[m.name]
	if b == nil {
		b = newBook(m.name)
		b.attached, b.floor, b.since = m.seq, m.seq, m.at.UnixMilli()
		a.books[m.name] = b
	}
	b.scopes = append(b.scopes, scope{after: m.seq, sources: m.sources})
	a.route()
}

// route makes the index of who takes which source.
func (a *account) route() {
	a.toAll, a.bySource = nil, map[string][]*book{}
	for _, b := range a.books {
		s := b.scopes[len(b.scopes)-1]
		if len(s.sources) == 0 {
			a.toAll = append(a.toAll, b)
		}
		for _, source := range s.sources {
			a.bySource[source] = append(a.bySource[source], b)
		}
	}
}

// readOutcomes takes in a message of OUTCOMES, once all that it is about has
// been read from CALLS.
func (a *account) readOutcomes(ctx context.Context, seq uint64, id writeID, outcomes []outcome) error {
	var last uint64
	for i := range outcomes {
		last = max(last, outcomes[i].ref.seq)
	}
	a.mu.Lock()
	if a.awaited = last; a.calls < last {
		a.notify()
	}
	a.mu.Unlock()
	if err := a.reached(ctx, last); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq <= a.outcomes {
		return nil
	}
	a.outcomes = seq
	counted := make([]bool, len(outcomes))
	for i := range outcomes {
		counted[i] = a.count(&outcomes[i], seq)
	}
	if tell := a.writes[id]; tell != nil {
		tell <- counted
		delete(a.writes, id)
	}
	a.notify()
	return nil
}

// count takes in an outcome, and tells whether it counts. The lock is held.
func (a *account) count(o *outcome, seq uint64) bool {
	b := a.books[o.destination]
	if b == nil || b.attached != o.attached || contains(a.lost, span{o.ref.seq, o.ref.seq}) || !b.count(o, seq) {
		return false
	}
	if o.low > 0 && seq > a.lowAfter {
		b.rise(o.low - 1)
	}
	return true
}

// expect has the results of a write sent to tell, which must take one.
func (a *account) expect(id writeID, tell chan<- []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes[id] = tell
}

// hasRead tells whether OUTCOMES was read up to a message.
func (a *account) hasRead(outcomes uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outcomes >= outcomes
}

// breakOff says that the account does not follow any longer.
func (a *account) breakOff(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = err
	a.notify()
}

func (a *account) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken
}

func (a *account) forget(id writeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.writes, id)
}

// isGone tells whether the messages of OUTCOMES are known to be gone.
func (a *account) isGone(gap span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return contains(a.gone, gap)
}

// contains tells whether all messages of a gap are in one of the spans.
func contains(spans []span, gap span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.first <= gap.first && gap.last <= s.last })
}

// isKnownLoss tells whether the messages of CALLS are known to be gone.
func (a *account) isKnownLoss(gap span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return contains(a.lost, gap)
}

// accept counts calls that came for the destination.
func (b *book) accept(m *callsMessage) {
	if b.fresh == 0 && m.seq > b.floor {
		b.rise(m.seq - 1)
	}
	b.ledger.Accepted += int64(m.calls)
	b.fresh += int64(m.calls)
}

// rise moves the floor up.
func (b *book) rise(floor uint64) {
	if floor <= b.floor {
		return
	}
	b.floor = floor
	for seq := range b.done {
		if seq <= floor {
			delete(b.done, seq)
		}
	}
	for len(b.scopes) > 1 && b.scopes[1].after <= floor {
		b.scopes = b.scopes[1:]
	}
}

// replay makes calls that had ended pending again. They are no first attempt of
// anything in their message.
func (b *book) replay(m *callsMessage) {
	journal.Move(&b.ledger, m.calls, m.from, tracking.StatePending)
	b.ledger.Pending = 0 // counted by looking
	ref := callsRef{seq: m.seq}
	b.done[m.seq] = 1
	b.retries[ref] = retry{attempt: 1, calls: m.calls, decided: m.at.UnixNano(), due: m.at.UnixNano(), accepted: m.oldest.UnixMilli()}
}

// count takes in an outcome, and tells whether it was the first of its attempt.
func (b *book) count(o *outcome, seq uint64) bool {
	before, waiting := b.retries[o.ref]
	n := int64(o.calls())
	switch {
	case waiting && (before.attempt != o.attempt || before.calls != o.calls()):
		return false
	case waiting:
		delete(b.retries, o.ref)
	case o.attempt != 1 || b.ended(o.ref):
		return false
	default:
		b.fresh -= n
		b.done[o.ref.seq] |= 1 << o.ref.part
	}
	b.ledger.Delivered += int64(o.delivered)
	b.ledger.Filtered += int64(o.filtered)
	b.ledger.Failed += int64(len(o.failed))
	if len(o.again) > 0 {
		b.retries[o.ref] = retry{
			attempt: o.attempt + 1, calls: len(o.again), decided: o.decided.UnixNano(), due: o.due.UnixNano(),
			accepted: o.accepted.UnixMilli(), outcome: seq, which: setOf(o.ref, o.again),
		}
	}
	return true
}

// lose takes calls for lost, and says why.
func (b *book) lose(calls int64, at time.Time, cause string) {
	b.ledger.Lost += calls
	b.losses = append(b.losses, journal.Loss{At: at, Calls: calls, Cause: cause})
}

// ended tells whether the first attempt of a part has ended.
func (b *book) ended(ref callsRef) bool {
	return ref.seq <= b.floor || b.done[ref.seq]&(1<<ref.part) != 0
}

// takes tells whether the calls of a message are for the destination.
func (b *book) takes(seq uint64, source string) bool {
	for i := len(b.scopes) - 1; i >= 0; i-- {
		if s := b.scopes[i]; s.after < seq {
			return s.takes(source)
		}
	}
	return false
}

// sources returns those whose calls are, or may still be, for the destination;
// none means all.
func (b *book) sources() []string {
	var sources []string
	for _, s := range b.scopes {
		if len(s.sources) == 0 {
			return nil
		}
		sources = append(sources, s.sources...)
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// pending counts the calls that have not ended, by looking at them: the ledger
// has two sides. It also tells when the oldest that waits for a retry was
// accepted.
func (b *book) pending() (n int64, oldest time.Time) {
	n = b.fresh
	var first int64
	for _, r := range b.retries {
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

// ledgers returns the account of every destination, by name, and which of them
// have calls whose first attempt has not ended.
func (a *account) ledgers() (ledgers []tracking.Ledger, fresh map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledgersNow()
}

// ledgersNow is ledgers with the lock held.
func (a *account) ledgersNow() (ledgers []tracking.Ledger, fresh map[string]bool) {
	fresh = map[string]bool{}
	for name, b := range a.books {
		l := b.ledger
		l.Pending, l.OldestPending = b.pending()
		fresh[name] = b.fresh > 0
		ledgers = append(ledgers, l)
	}
	slices.SortFunc(ledgers, func(x, y tracking.Ledger) int { return cmp.Compare(x.Destination, y.Destination) })
	return ledgers, fresh
}

// names returns the destinations that are attached.
func (a *account) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.books))
}

// with calls f with the book of a destination, if there is one, under the lock.
func (a *account) with(destination string, f func(*book)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.books[destination]
	if b != nil {
		f(b)
	}
	return b != nil
}
