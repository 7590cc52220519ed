package delivery

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// overdueLook is how soon it is looked again for a call that is before others in its
	// line, and due, but was not leased yet.
	overdueLook = 50 * time.Millisecond
	// stayLeased is how long a call stays leased behind one that is due and was not leased yet,
	// since a journal may hand out what is due in another order, or that has failed before and
	// is attempted now, which may take as long as a request does. behindFailing is when it is
	// looked again for one that was not leased so long.
	stayLeased    = 250 * time.Millisecond
	behindFailing = time.Second
	// lineSpread is how much later each call of a line is due than the one before, up to
	// maxSpread: those behind one that fails do not come all at once.
	lineSpread = time.Millisecond
	maxSpread  = time.Minute
	// lostAfter is how long a call may be overdue before the journal is asked whether it
	// still has it.
	lostAfter = 10 * time.Second
	// maxJoined bounds the ids that are remembered to be of one user with others while
	// none of their calls is pending.
	maxJoined = 100_000
)

// lines are the calls of a destination that are pending and were leased once, in a line
// for each user. They decide which call may be attempted, so that the calls of a user are
// delivered in the order in which they were accepted, one at a time.
//
// # Where the state lives
//
// In the journal: which calls are pending, and when those that were attempted or held are
// due. lines are made from it when a worker begins to read from a queue: all that waits
// for another attempt is put into its line by its position, which is that in CALLS
// (journal.Reader.Waiting). What was never leased needs no place: the journal hands it out
// in the order of positions (journal.Want.InOrder), so it belongs behind all that is there,
// or, if it was leased by a process that died, where its position says.
//
// A call that must wait is not kept leased. If the one before it is being worked at, or is
// about to be leased, it waits with its entry in memory for at most as long as an attempt
// takes; else its entry ends for now, and the journal has it until the one before is due. So
// the number of entries at work stays bounded, however long a line is. A call in a line takes
// 32 bytes, and a user about 200.
//
// # States of a call in its line
//
//	         | leased  | delivered, refused | fails, or     | its entry's   | its entry's end
//	         |         | or given up        | must wait     | end is stored | is not stored
//	---------+---------+--------------------+---------------+---------------+----------------
//	(none)   | at work |                    |               |               |
//	waiting  | at work |                    |               | waiting       | waiting
//	at work  |         | ended              | waiting until | (none)        | waiting
//	ended    |         |                    | it is due     | (none)        | waiting
//
// A call may be attempted when all before it in its line have ended: that is its turn. It
// is waited for those at work, and a call behind one that waits is put off in its turn.
// Where failing calls may be overtaken, one that fails leaves its line for good.
//
// # What a kill repeats
//
// That an entry has ended is stored when all its calls have; a call that ended and whose
// entry has not is repeated after a kill. The end of an entry is stored only after that of
// each entry with a call before one of its own, whether that call ended or was put off, so
// no call is repeated unless all behind it in its line are repeated too, in their order:
// call n is followed by call n+1, or by one of 1 to n from which on all come again. Where
// a call is put off again nothing changes, and its entry waits for nobody.
//
// Its methods may be called from many goroutines at once.
type lines struct {
	keeps    func(position uint64) bool // reports whether the journal has a call
	overtake bool                       // calls that have failed are in no line

	mu     sync.Mutex // guards what follows, and all lines
	byUser map[event.Key]*line
	joined []event.Key // ids of lines with several, the oldest first; some are gone
}

// A line is the calls of one user.
type line struct {
	users   []event.Key              // the ids: several where alias calls joined them
	calls   []lineCall               // by their positions
	waiting map[uint64]chan struct{} // of calls that wait for those before them, by position: closed when they are to look again
}

// A lineCall is a call in its line.
type lineCall struct {
	position uint64
	due      int64      // nanoseconds; when it may be attempted, or looked at
	entry    *lineEntry // that works at it, or has put it off and not ended; nil while it waits
	ended    bool
	waits    bool // its entry has put it off
	failing  bool // it has failed before
}

// A lineEntry is an entry whose calls are in lines.
type lineEntry struct {
	placed   chan struct{} // closed when its end has a place among those that are stored, or is not to be stored
	returned bool          // it is not to be stored; set before placed is closed
	once     sync.Once     // guards both
	first    bool          // nobody who starts would know of its calls: they were never tried, or put off
	before   []*lineEntry  // which have to end before; guarded by lines.mu
}

// place says that the end of the entry has its place, or that it was returned. The first
// word counts.
func (e *lineEntry) place(returned bool) {
	e.once.Do(func() {
		e.returned = returned
		close(e.placed)
	})
}

func newLines(keeps func(position uint64) bool, overtake bool) *lines {
	return &lines{keeps: keeps, overtake: overtake, byUser: map[event.Key]*line{}}
}

// userOf returns the id that a call is in line by; empty for one that is in none.
func userOf(c *tracking.Call) string { return cmp.Or(c.UserID, c.AnonymousID) }

func keyOfUser(id string) event.Key { return event.KeyOf("", id) }

// add puts the calls of an entry that waits into their lines.
func (ls *lines) add(e *journal.Entry, due time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range e.Calls {
		failing := e.Attempt-noteOf(e, i).skipped > 1
		if ls.overtake && failing {
			continue
		}
		if c := ls.put(&e.Calls[i], e.Position(i)); c != nil {
			c.due, c.failing = due.UnixNano(), failing
		}
	}
}

// begin puts the calls of an entry that was leased into their lines, those that are
// there already at work.
func (ls *lines) begin(e *journal.Entry) *lineEntry {
	entry := &lineEntry{placed: make(chan struct{}), first: e.Attempt == 1}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range e.Calls {
		failing := e.Attempt-noteOf(e, i).skipped > 1
		if ls.overtake && failing {
			ls.remove(&e.Calls[i], e.Position(i))
			continue
		}
		if c := ls.put(&e.Calls[i], e.Position(i)); c != nil {
			c.entry, c.waits, c.failing = entry, false, failing
		}
	}
	return entry
}

// put returns the call at a position of its line, where it puts it if it is not there;
// nil if it has no user. The lock is held.
func (ls *lines) put(c *tracking.Call, position uint64) *lineCall {
	l := ls.lineOf(c)
	if l == nil {
		return nil
	}
	at, found := l.find(position)
	if !found {
		l.calls = slices.Insert(l.calls, at, lineCall{position: position})
	}
	return &l.calls[at]
}

// lineOf returns the line of a call, which it makes if there is none. An alias joins the
// lines of its two ids.
func (ls *lines) lineOf(c *tracking.Call) *line {
	user := userOf(c)
	if user == "" {
		return nil
	}
	if pair, ok := joinedBy(c); ok {
		return ls.join(ls.line(pair[0]), ls.line(pair[1]))
	}
	return ls.line(keyOfUser(user))
}

// joinedBy returns the keys of the ids that a call joins, if it does.
func joinedBy(c *tracking.Call) (pair [2]event.Key, ok bool) {
	user := userOf(c)
	if c.Type != "alias" || user == "" || c.PreviousID == "" || c.PreviousID == user {
		return pair, false
	}
	return [2]event.Key{keyOfUser(user), keyOfUser(c.PreviousID)}, true
}

func (ls *lines) line(user event.Key) *line {
	l := ls.byUser[user]
	if l == nil {
		l = &line{users: []event.Key{user}}
		ls.byUser[user] = l
	}
	return l
}

// join makes two lines one.
func (ls *lines) join(a, b *line) *line {
	if a == b {
		return a
	}
	if len(a.calls)+len(a.users) < len(b.calls)+len(b.users) {
		a, b = b, a
	}
	for _, l := range []*line{a, b} {
		if len(l.users) == 1 {
			ls.joined = append(ls.joined, l.users[0])
		}
		l.wakeAll()
	}
	for _, user := range b.users {
		ls.byUser[user] = a
	}
	a.users = append(a.users, b.users...)
	if len(b.calls) > 0 {
		a.calls = append(a.calls, b.calls...)
		slices.SortFunc(a.calls, func(x, y lineCall) int { return cmp.Compare(x.position, y.position) })
	}
	ls.forget(a)
	return a
}

// forget takes apart the oldest lines that were joined and have no calls, beyond
// maxJoined ids, but for one that is about to get a call.
func (ls *lines) forget(but *line) {
	for excess := len(ls.joined) - maxJoined; excess > 0; excess-- {
		user := ls.joined[0]
		ls.joined = ls.joined[1:]
		l := ls.byUser[user]
		if l == nil {
			continue
		}
		if len(l.calls) > 0 || l == but {
			ls.joined = append(ls.joined, user)
			continue
		}
		for _, user := range l.users {
			delete(ls.byUser, user)
		}
	}
}

// find returns where a position is among the calls, or would be.
func (l *line) find(position uint64) (at int, found bool) {
	n := len(l.calls)
	if n == 0 || l.calls[n-1].position < position {
		return n, false
	}
	at = sort.Search(n, func(i int) bool { return l.calls[i].position >= position })
	return at, l.calls[at].position == position
}

// wake has those look that find something else once a call has changed. All wait for the
// first that has not ended: where that is at work, and another than before, it may be its own
// turn, and the others wait on. Thousands may wait, and each looks at all before it. The lock
// is held.
func (l *line) wake(changed uint64) {
	at := slices.IndexFunc(l.calls, func(c lineCall) bool { return !c.ended })
	if at < 0 || l.calls[at].position < changed {
		return
	}
	first := &l.calls[at]
	if first.position == changed || first.entry == nil || first.waits || first.failing {
		l.wakeAll()
	} else if w := l.waiting[first.position]; w != nil {
		close(w)
		delete(l.waiting, first.position)
	}
}

func (l *line) wakeAll() {
	for _, w := range l.waiting {
		close(w)
	}
	l.waiting = nil
}

// at returns the line of a call, or nil if it has none, and its place there; if it is not
// found, where that would be. The lock is held.
func (ls *lines) at(c *tracking.Call, position uint64) (l *line, at int, found bool) {
	user := userOf(c)
	if user == "" {
		return nil, 0, false
	}
	if l = ls.byUser[keyOfUser(user)]; l != nil {
		at, found = l.find(position)
	}
	return l, at, found
}

// remove takes a call out of its line. The lock is held.
func (ls *lines) remove(c *tracking.Call, position uint64) {
	l, at, found := ls.at(c, position)
	if found {
		l.removeAt(at)
		l.wake(position)
	}
	if l != nil {
		ls.drop(l)
	}
}

func (l *line) removeAt(at int) {
	delete(l.waiting, l.calls[at].position)
	if at == 0 {
		l.calls[0] = lineCall{}
		l.calls = l.calls[1:] // a long line is not moved for each that ends
		return
	}
	l.calls = slices.Delete(l.calls, at, at+1)
}

// drop forgets a line that has no calls, if it was not joined. The lock is held.
func (ls *lines) drop(l *line) {
	if len(l.calls) == 0 && len(l.users) == 1 {
		delete(ls.byUser, l.users[0])
	}
}

// turn waits for the turn of a call of an entry. It is not ok if the call has to wait in
// the journal until it is due, or ctx ends: then due is the zero time.
func (ls *lines) turn(ctx context.Context, e *lineEntry, c *tracking.Call, position uint64) (due time.Time, ok bool) {
	var late <-chan time.Time
	isLate := false
	for {
		due, wait := ls.look(e, c, position)
		switch {
		case wait == nil && due.IsZero():
			return due, true
		case wait == nil || isLate && !due.IsZero():
			if e.first {
				ls.follow(e, c, position)
			}
			return due, false
		}
		if late == nil && !due.IsZero() {
			timer := time.NewTimer(stayLeased)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-wait:
		case <-late:
			isLate = true
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			ls.follow(e, c, position)
			return time.Time{}, false
		}
	}
}

// look returns when a call is due that has to wait in the journal, or what is closed when
// it is to look again. If it is neither, it is its turn; if it is both, it may stay leased
// for a moment.
func (ls *lines) look(e *lineEntry, c *tracking.Call, position uint64) (due time.Time, wait chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, at, found := ls.at(c, position)
	if !found {
		return due, nil
	}
	now := time.Now()
	if early := l.calls[at].due - now.UnixNano(); early > int64(earliest) {
		return now.Add(time.Duration(early)), nil
	}
	for i := 0; i < at; i++ {
		switch before := &l.calls[i]; {
		case before.ended:
			e.endAfter(before.entry)
		case before.waits, before.entry == nil && before.due > now.UnixNano():
			return dueBehind(before, now, at-i), nil
		case before.entry == nil && now.UnixNano()-before.due > int64(lostAfter) && !ls.keeps(before.position):
			l.removeAt(i)
			i, at = i-1, at-1
		default:
			if before.entry == nil {
				due = dueBehind(before, now, at-i)
			} else if before.failing && before.entry != e {
				due = now.Add(behindFailing)
			}
			wait = make(chan struct{})
			if l.waiting == nil {
				l.waiting = map[uint64]chan struct{}{}
			}
			l.waiting[position] = wait
			return due, wait
		}
	}
	return due, nil
}

// follow has the end of an entry stored after those of all that work at calls before one of
// its own.
func (ls *lines) follow(e *lineEntry, c *tracking.Call, position uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, at, _ := ls.at(c, position)
	if l == nil {
		return
	}
	for i := range l.calls[:at] {
		if before := l.calls[i].entry; before != nil {
			e.endAfter(before)
		}
	}
}

// endAfter has the end of an entry stored after that of another. The lock is held.
func (e *lineEntry) endAfter(other *lineEntry) {
	if other != e && (len(e.before) == 0 || e.before[len(e.before)-1] != other) {
		e.before = append(e.before, other)
	}
}

// earliest is how long before it is due a call may be attempted: what comes back from the
// journal is due, but for the precision of clocks.
const earliest = 50 * time.Millisecond

// dueBehind returns when a call is due that is so many calls behind one that waits. The
// longer that is overdue, the more seldom it is looked: each look is stored.
func dueBehind(before *lineCall, now time.Time, calls int) time.Time {
	in := max(time.Duration(before.due-now.UnixNano()), overdueLook)
	if before.due > 0 {
		in = max(in, min(time.Duration(now.UnixNano()-before.due)/4, behindFailing))
	}
	return now.Add(in + min(time.Duration(calls)*lineSpread, maxSpread))
}

// end says that a call has ended: the next may be attempted.
func (ls *lines) end(c *tracking.Call, position uint64) {
	ls.change(c, position, func(call *lineCall) { call.ended = true })
}

// putOff says that a call waits until it is due, and so do those behind it.
func (ls *lines) putOff(c *tracking.Call, position uint64, due time.Time) {
	ls.change(c, position, func(call *lineCall) { call.waits, call.due = true, due.UnixNano() })
}

func (ls *lines) change(c *tracking.Call, position uint64, change func(*lineCall)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, at, found := ls.at(c, position); found {
		change(&l.calls[at])
		l.wake(position)
	}
}

// leave takes a call out of its line: others overtake it.
func (ls *lines) leave(c *tracking.Call, position uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.remove(c, position)
}

// awaitBefore waits until the ends of the entries have their place that have to end before
// e, and reports whether they are to be stored.
func (ls *lines) awaitBefore(e *lineEntry) (placed bool) {
	ls.mu.Lock()
	before := e.before
	ls.mu.Unlock()
	placed = true
	for _, b := range before {
		<-b.placed
		placed = placed && !b.returned
	}
	return placed
}

// finish ends an entry. If its end is stored, the calls that have ended leave their lines;
// all others wait, those that were not put off for nothing.
func (ls *lines) finish(e *lineEntry, of *journal.Entry, stored bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range of.Calls {
		position := of.Position(i)
		l, at, found := ls.at(&of.Calls[i], position)
		if !found || l.calls[at].entry != e {
			continue
		}
		call := &l.calls[at]
		if call.ended && stored {
			ls.remove(&of.Calls[i], position)
			continue
		}
		if !call.waits {
			call.due = 0
		}
		call.entry, call.ended, call.waits = nil, false, false
		l.wake(position)
	}
}
