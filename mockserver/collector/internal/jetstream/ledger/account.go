package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Ledger contains the account of each destination, computed from CALLS and OUTCOMES. All processes
// that have read the same messages have the same ledger.
//
// CALLS contains accepted calls, attached destinations and replays, in their order. OUTCOMES
// contains the result of each attempt. Only the first outcome of an attempt is counted. A second
// outcome comes from a process that other processes considered dead by mistake.
//
// A Ledger is not safe for concurrent use. See [Live].
type Ledger struct {
	Calls        uint64 // sequence number of the last message read from CALLS
	Outcomes     uint64 // sequence number of the last message read from OUTCOMES
	Accounts     map[string]*Account
	toAll        []*Account            // accounts of destinations that receive all sources
	bySource     map[string][]*Account // other accounts, keyed by source
	LostCalls    []record.Span         // messages of CALLS that were lost before they were finished
	LostOutcomes []record.Span         // lost messages of OUTCOMES
	Frozen       bool                  // whether floors are fixed, because earlier messages or their outcomes are not completely read
	Purged       uint64                // messages of CALLS up to this number may be missing; each later message is stored or lost
}

// An Account contains the totals and the unfinished attempts of one destination.
type Account struct {
	Totals      tracking.Ledger
	Attached    uint64           // sequence number of the message of CALLS that attached the destination
	Since       int64            // time of the message Attached, in Unix milliseconds
	Scopes      []scope          // oldest first; the last one is current
	Unattempted int64            // number of calls with an unfinished first attempt
	Floor       uint64           // all first attempts in messages up to this number are finished
	Done        map[uint64]uint8 // bit set of the parts with a finished first attempt, for each message above Floor
	Retries     map[record.Ref]PendingRetry
	losses      []journal.Loss // Totals.Lost is their sum
}

// A scope is the set of sources of a destination after a message of CALLS.
type scope struct {
	after   uint64
	Sources []string // empty for all sources
}

func (s scope) takes(source string) bool {
	return len(s.Sources) == 0 || slices.Contains(s.Sources, source)
}

// A PendingRetry describes the calls of a part that wait for another attempt.
type PendingRetry struct {
	Attempt  int
	calls    int
	Decided  int64  // when the attempt was scheduled, in Unix nanoseconds
	Due      int64  // Unix nanoseconds
	accepted int64  // acceptance time of the oldest call, in Unix milliseconds
	Outcome  uint64 // sequence number of the retry's message in OUTCOMES; 0 if there is none
	Which    CallSet
}

// A CallSet is a bit set of the calls in a part.
type CallSet [record.PartCalls / 64]uint64

// firstCalls returns the set of the first n calls of a part.
func firstCalls(n int) (s CallSet) {
	for p := range min(n, record.PartCalls) {
		s[p/64] |= 1 << (p % 64)
	}
	return s
}

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
	return &Ledger{Accounts: map[string]*Account{}, bySource: map[string][]*Account{}}
}

func newAccount(destination string) *Account {
	a := &Account{Done: map[uint64]uint8{}, Retries: map[record.Ref]PendingRetry{}}
	a.Totals.Destination = destination
	return a
}

// ReadCalls counts a message of CALLS.
func (l *Ledger) ReadCalls(m *record.Calls) {
	if m.Seq <= l.Calls {
		return
	}
	l.Calls = m.Seq
	switch m.Kind {
	case record.KindCalls:
		for _, a := range l.toAll {
			a.accept(m, l.Frozen)
		}
		for _, a := range l.bySource[m.Name] {
			a.accept(m, l.Frozen)
		}
	case record.KindAttach:
		l.attach(m)
	case record.KindDetach:
		delete(l.Accounts, m.Name)
		l.route()
	case record.KindReplay:
		if a := l.Accounts[m.Name]; a != nil {
			a.replay(m)
		}
	case record.KindLost:
		if !slices.Contains(l.LostCalls, m.Lost()) {
			l.LostCalls = append(l.LostCalls, m.Lost())
		}
	}
}

func (l *Ledger) attach(m *record.Calls) {
	a := l.Accounts[m.Name]
	if a == nil {
		a = newAccount(m.Name)
		a.Attached, a.Floor, a.Since = m.Seq, m.Seq, m.At.UnixMilli()
		l.Accounts[m.Name] = a
	}
	a.Scopes = append(a.Scopes, scope{after: m.Seq, Sources: m.Sources})
	l.route()
}

// route rebuilds toAll and bySource.
func (l *Ledger) route() {
	l.toAll, l.bySource = nil, map[string][]*Account{}
	for _, a := range l.Accounts {
		s := a.Scopes[len(a.Scopes)-1]
		if len(s.Sources) == 0 {
			l.toAll = append(l.toAll, a)
		}
		for _, source := range s.Sources {
			l.bySource[source] = append(l.bySource[source], a)
		}
	}
}

// Count counts an outcome and reports whether it was new.
func (l *Ledger) Count(o *record.Outcome, seq uint64) bool {
	a := l.Accounts[o.Destination]
	if a == nil || a.Attached != o.Attached || record.Contains(l.LostCalls, record.Span{First: o.Ref.Seq, Last: o.Ref.Seq}) || !a.Count(o, seq) {
		return false
	}
	if o.Low > 0 && !l.Frozen {
		a.advance(o.Low - 1)
	}
	return true
}

// IsLostOutcome reports whether messages of OUTCOMES are known to be lost.
func (l *Ledger) IsLostOutcome(gap record.Span) bool {
	return record.Contains(l.LostOutcomes, gap)
}

// IsLostCall reports whether messages of CALLS are known to be lost.
func (l *Ledger) IsLostCall(gap record.Span) bool {
	return record.Contains(l.LostCalls, gap)
}

// accept counts accepted calls.
func (a *Account) accept(m *record.Calls, frozen bool) {
	if a.Unattempted == 0 && !frozen {
		a.advance(m.Seq - 1)
	}
	a.Totals.Accepted += int64(m.Calls)
	a.Unattempted += int64(m.Calls)
}

// advance raises the floor and removes the data below it.
func (a *Account) advance(floor uint64) {
	if floor <= a.Floor {
		return
	}
	a.Floor = floor
	for seq := range a.Done {
		if seq <= floor {
			delete(a.Done, seq)
		}
	}
	for len(a.Scopes) > 1 && a.Scopes[1].after <= floor {
		a.Scopes = a.Scopes[1:]
	}
}

// replay makes finished calls pending again. A replay has no first attempt.
func (a *Account) replay(m *record.Calls) {
	journal.Move(&a.Totals, m.Calls, tracking.State(m.From), tracking.StatePending)
	a.Totals.Pending = 0 // computed by Pending
	ref := record.Ref{Seq: m.Seq}
	a.Done[m.Seq] = 1
	a.Retries[ref] = PendingRetry{Attempt: 1, calls: m.Calls, Decided: m.At.UnixNano(), Due: m.At.UnixNano(), accepted: m.Oldest, Which: firstCalls(m.Calls)}
}

// Count counts an outcome, and reports whether it was the first outcome of its attempt.
func (a *Account) Count(o *record.Outcome, seq uint64) bool {
	before, waiting := a.Retries[o.Ref]
	n := int64(o.Calls())
	switch {
	case waiting && (before.Attempt != o.Attempt || before.calls != o.Calls()):
		return false
	case waiting:
		delete(a.Retries, o.Ref)
	case o.Attempt != 1 || a.Ended(o.Ref):
		return false
	default:
		a.Unattempted -= n
		a.Done[o.Ref.Seq] |= 1 << o.Ref.Part
	}
	a.Totals.Delivered += int64(o.Delivered)
	filtered, failed := o.FilteredAndFailed()
	a.Totals.Filtered += filtered
	a.Totals.Failed += failed
	if len(o.Again) > 0 {
		a.Retries[o.Ref] = PendingRetry{
			Attempt: o.Attempt + 1, calls: len(o.Again), Decided: o.Decided.UnixNano(), Due: o.Due.UnixNano(),
			accepted: o.Accepted.UnixMilli(), Outcome: seq, Which: setOf(o.Ref, o.Again),
		}
	}
	return true
}

// lose counts lost calls.
func (a *Account) lose(calls int64, at time.Time, cause string) {
	a.Totals.Lost += calls
	a.losses = append(a.losses, journal.Loss{At: at, Calls: calls, Cause: cause})
}

// Ended reports whether the first attempt of a part is finished.
func (a *Account) Ended(ref record.Ref) bool {
	return ref.Seq <= a.Floor || a.Done[ref.Seq]&(1<<ref.Part) != 0
}

// Takes reports whether the destination receives a message of a source.
func (a *Account) Takes(seq uint64, source string) bool {
	for i := len(a.Scopes) - 1; i >= 0; i-- {
		if s := a.Scopes[i]; s.after < seq {
			return s.takes(source)
		}
	}
	return false
}

// Sources returns the sources of calls that may be pending. An empty list means all sources.
func (a *Account) Sources() []string {
	var sources []string
	for _, s := range a.Scopes {
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
func (a *Account) Pending() (n int64, oldest time.Time) {
	n = a.Unattempted
	var first int64
	for _, r := range a.Retries {
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
func (l *Ledger) Ledgers() (ledgers []tracking.Ledger, unattempted map[string]bool) {
	unattempted = map[string]bool{}
	for name, a := range l.Accounts {
		sums := a.Totals
		sums.Pending, sums.OldestPending = a.Pending()
		unattempted[name] = a.Unattempted > 0
		ledgers = append(ledgers, pendingOnce(sums))
	}
	slices.SortFunc(ledgers, func(x, y tracking.Ledger) int { return cmp.Compare(x.Destination, y.Destination) })
	return ledgers, unattempted
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
