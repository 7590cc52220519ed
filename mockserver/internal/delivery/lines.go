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
	// stayLeased is how long an entry stays leased of which every call that is left waits for
	// calls that are not at work, or have failed before.
	stayLeased = 250 * time.Millisecond
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
// A call waits for those before it with its entry in memory as long as another call of the
// entry is at work, or may soon be. Else the entry ends for now: the journal parks it, and
// has nothing to do for it until the lines resume it (journal.Reader.Resume). They do so
// when one of its calls has become the first of its line, or is due again and is the first.
// So the number of entries at work stays bounded, however long a line is, and an entry is
// leased once more for a call of it at most, or for an attempt that failed. A call in a line
// takes 32 bytes, and a user about 200.
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
	journal  parking
	overtake bool      // calls that have failed are in no line
	began    time.Time // from which on due counts: steps of the clock do not move it

	mu      sync.Mutex // guards what follows, and all lines
	byUser  map[event.Key]*line
	joined  []event.Key            // ids of lines with several, the oldest first; some are gone
	timers  map[uint64]*time.Timer // which resume entries, by the positions of calls that are due then
	sweeper *time.Timer            // calls sweep
	stopped bool
}

// A parking has the entries that wait, as a journal.Reader does.
type parking interface {
	Resume(position uint64)
	Keeps(position uint64) bool
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
	due      int64      // nanoseconds since lines.began; when it may be attempted; 0 stands for at once
	entry    *lineEntry // that works at it, or has put it off and not ended; nil while it waits
	ended    bool
	waits    bool // its entry has put it off
	failing  bool // it has failed before
	resumed  bool // its entry is to come when it is due
}

// A lineEntry is an entry whose calls are in lines.
type lineEntry struct {
	placed   chan struct{} // closed when its end has a place among those that are stored, or is not to be stored
	returned bool          // it is not to be stored; set before placed is closed
	once     sync.Once     // guards both
	first    bool          // nobody who starts would know of its calls: they were never tried, or put off
	released chan struct{} // closed when its calls that wait for others are to be put off

	// What follows is guarded by lines.mu.

	before     []*lineEntry              // which have to end before
	open       int                       // users whose calls have not all ended, or been put off; set before any waits
	held       map[uint64]*tracking.Call // calls of theirs, by position, that wait for calls that are not at work, or have failed before
	timer      *time.Timer               // which releases it: set while all that are open are held
	isReleased bool
}

// place says that the end of the entry has its place, or that it was returned. The first
// word counts.
func (e *lineEntry) place(returned bool) {
	e.once.Do(func() {
		e.returned = returned
		close(e.placed)
	})
}

func newLines(journal parking, overtake bool) *lines {
	return &lines{journal: journal, overtake: overtake, began: time.Now(), byUser: map[event.Key]*line{}, timers: map[uint64]*time.Timer{}}
}

// start has the entries come with the first call of each line. All that wait were added.
func (ls *lines) start() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byUser {
		ls.resumeFirst(l)
	}
	ls.sweeper = time.AfterFunc(lostAfter, ls.sweep)
}

// stop has no more entries come.
func (ls *lines) stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.stopped = true
	ls.sweeper.Stop()
	for _, t := range ls.timers {
		t.Stop()
	}
}

// hasten has the first call of each line come at once that waits for its next attempt.
func (ls *lines) hasten() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byUser {
		first := l.first()
		if first == nil || first.due <= ls.now() {
			continue
		}
		if first.due = 0; first.resumed {
			ls.forgetTimer(first.position)
			ls.journal.Resume(first.position)
		}
	}
}

// now returns the time by which calls are due.
func (ls *lines) now() int64 { return int64(time.Since(ls.began)) }

// in returns when a call is due that is to wait for a while.
func (ls *lines) in(wait time.Duration) int64 {
	if wait <= 0 {
		return 0
	}
	return ls.now() + int64(wait)
}

// resume has the entry come that has the call at a position, when that is due. The lock is
// held.
func (ls *lines) resume(position uint64, due int64) {
	wait := time.Duration(due - ls.now())
	if wait <= 0 {
		ls.journal.Resume(position)
		return
	}
	ls.timers[position] = time.AfterFunc(wait, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.timers, position)
		ls.journal.Resume(position)
	})
}

// resumeFirst has the entry come of the first call of a line that has not ended, if that
// waits. The lock is held.
func (ls *lines) resumeFirst(l *line) {
	if first := l.first(); first != nil && first.entry == nil && !first.resumed {
		first.resumed = true
		ls.resume(first.position, first.due)
	}
}

// first returns the first call of a line that has not ended, or nil.
func (l *line) first() *lineCall {
	at := slices.IndexFunc(l.calls, func(c lineCall) bool { return !c.ended })
	if at < 0 {
		return nil
	}
	return &l.calls[at]
}

// sweep takes the calls out of their lines that the others wait for and the journal has no
// more. It does so again and again.
func (ls *lines) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stopped {
		return
	}
	now := ls.now()
	for _, l := range ls.byUser {
		for first := l.first(); first != nil && first.resumed && now-first.due > int64(lostAfter) && !ls.journal.Keeps(first.position); first = l.first() {
			at, _ := l.find(first.position)
			l.removeAt(at)
			ls.wake(l, 0)
		}
		ls.drop(l)
	}
	ls.sweeper.Reset(lostAfter)
}

// userOf returns the id that a call is in line by; empty for one that is in none.
func userOf(c *tracking.Call) string { return cmp.Or(c.UserID, c.AnonymousID) }

func keyOfUser(id string) event.Key { return event.KeyOf("", id) }

// add puts the calls of an entry that waits into their lines.
func (ls *lines) add(e *journal.Entry, due time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	for i := range e.Calls {
		n := noteOf(e, i)
		failing := e.Attempt-n.skipped > 1
		at := ls.in(max(n.left(now), due.Sub(now)))
		var c *lineCall
		if !ls.overtake || !failing {
			c, _ = ls.put(&e.Calls[i], e.Position(i))
		}
		if c == nil {
			ls.resume(e.Position(i), at)
			continue
		}
		c.due, c.failing = at, failing
	}
}

// begin puts the calls of an entry that was leased into their lines, those that are
// there already at work.
func (ls *lines) begin(e *journal.Entry) *lineEntry {
	now, entry := time.Now(), &lineEntry{placed: make(chan struct{}), released: make(chan struct{}), held: map[uint64]*tracking.Call{}, first: e.Attempt == 1}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range e.Calls {
		n := noteOf(e, i)
		failing := e.Attempt-n.skipped > 1
		ls.forgetTimer(e.Position(i))
		if ls.overtake && failing {
			ls.remove(&e.Calls[i], e.Position(i))
			continue
		}
		c, isNew := ls.put(&e.Calls[i], e.Position(i))
		if c == nil {
			continue
		}
		if isNew {
			c.due = ls.in(n.left(now))
		}
		c.entry, c.waits, c.failing, c.resumed = entry, false, failing, false
	}
	return entry
}

// put returns the call at a position of its line, where it puts it if it is not there;
// nil if it has no user. The lock is held.
func (ls *lines) put(c *tracking.Call, position uint64) (call *lineCall, isNew bool) {
	l := ls.lineOf(c)
	if l == nil {
		return nil, false
	}
	at, found := l.find(position)
	if !found {
		l.calls = slices.Insert(l.calls, at, lineCall{position: position})
	}
	return &l.calls[at], !found
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
// turn, and the others wait on. Thousands may wait, and each looks at all before it. Where
// its entry waits, that comes. The lock is held.
func (ls *lines) wake(l *line, changed uint64) {
	first := l.first()
	if first == nil || first.position < changed {
		return
	}
	ls.resumeFirst(l)
	if first.position == changed || first.isHeld() {
		l.wakeAll()
	} else if w := l.waiting[first.position]; w != nil {
		close(w)
		delete(l.waiting, first.position)
	}
}

// isHeld reports whether those behind the call may have to wait for long: it is not at work,
// or has failed before.
func (c *lineCall) isHeld() bool { return c.entry == nil || c.waits || c.failing }

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
		ls.wake(l, position)
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

// turn waits until a call of an entry may be attempted; n is the note of the call. It is not
// ok if the call has to wait in the journal: until it is due, or, if due is the zero time,
// until the calls before it have ended or calls may begin again.
func (ls *lines) turn(ctx context.Context, e *lineEntry, c *tracking.Call, position uint64, n note) (due time.Time, ok bool) {
	for {
		due, wait := ls.look(e, c, position, n)
		if wait == nil {
			return due, due.IsZero()
		}
		select {
		case <-wait:
			continue
		case <-e.released:
		case <-ctx.Done():
		}
		if e.first || ctx.Err() != nil {
			ls.follow(e, c, position)
		}
		return time.Time{}, false
	}
}

// look returns when a call is due, if that is later, or a channel that is closed when the
// caller must look again. Otherwise the call may be attempted. A call in no line is due when
// its note says: its entry comes back as soon as any of its calls is due.
func (ls *lines) look(e *lineEntry, c *tracking.Call, position uint64, n note) (due time.Time, wait chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	defer ls.watch(e)
	delete(e.held, position)
	l, at, found := ls.at(c, position)
	var early time.Duration
	if found {
		early = time.Duration(l.calls[at].due - ls.now())
	} else {
		early = n.left(time.Now())
	}
	if early > earliest {
		return time.Now().Add(early), nil
	}
	if !found {
		return due, nil
	}
	for i := range l.calls[:at] {
		before := &l.calls[i]
		if before.ended {
			e.endAfter(before.entry)
			continue
		}
		if before.holds(e) {
			e.held[position] = c
		}
		if wait = l.waiting[position]; wait == nil {
			wait = make(chan struct{})
		}
		if l.waiting == nil {
			l.waiting = map[uint64]chan struct{}{}
		}
		l.waiting[position] = wait
		return due, wait
	}
	return due, nil
}

// holds reports whether those of an entry that wait for the call may have to wait for long.
func (c *lineCall) holds(e *lineEntry) bool { return c.isHeld() && (c.entry != e || c.waits) }

// watch has an entry released a while after the last of its calls that are left has begun to
// wait for calls that are not at work. The lock is held.
func (ls *lines) watch(e *lineEntry) {
	switch held := e.open > 0 && len(e.held) == e.open; {
	case held && e.timer == nil:
		e.timer = time.AfterFunc(stayLeased, func() { ls.release(e) })
	case !held && e.timer != nil:
		e.timer.Stop()
		e.timer = nil
	}
}

// release has the calls of an entry put off if those that they wait for have not come.
func (ls *lines) release(e *lineEntry) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for position, c := range e.held {
		if l, _, found := ls.at(c, position); !found || !l.first().holds(e) {
			delete(e.held, position) // it is told when that changes
		}
	}
	if len(e.held) < e.open {
		e.timer = nil
	} else if !e.isReleased {
		e.isReleased = true
		close(e.released)
	}
}

// leaveEntry says that the calls of a user in an entry have ended, or been put off.
func (ls *lines) leaveEntry(e *lineEntry) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	e.open--
	ls.watch(e)
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

// end says that a call has ended: the next may be attempted.
func (ls *lines) end(c *tracking.Call, position uint64) {
	ls.change(c, position, func(call *lineCall) { call.ended = true })
}

// putOff says that a call waits until it is due, the zero time for at once, and so do those
// behind it.
func (ls *lines) putOff(c *tracking.Call, position uint64, due time.Time) {
	ls.change(c, position, func(call *lineCall) { call.waits, call.due = true, ls.in(time.Until(due)) })
}

func (ls *lines) change(c *tracking.Call, position uint64, change func(*lineCall)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, at, found := ls.at(c, position); found {
		change(&l.calls[at])
		ls.wake(l, position)
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

// finish ends an entry. If its end is stored, with outcomes, the calls that have ended leave
// their lines; all others wait. The entry comes again with those that are the first of their
// line, or in none.
func (ls *lines) finish(e *lineEntry, of *journal.Entry, outcomes []tracking.Outcome) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	stored := outcomes != nil
	for i := range of.Calls {
		position := of.Position(i)
		l, at, found := ls.at(&of.Calls[i], position)
		switch {
		case !found:
			if stored && outcomes[i].State == tracking.StatePending {
				ls.resume(position, ls.in(parseNote(outcomes[i].Note).left(time.Now())))
			}
			continue
		case l.calls[at].entry != e:
			continue
		case l.calls[at].ended && stored:
			ls.remove(&of.Calls[i], position)
			continue
		}
		call := &l.calls[at]
		if !call.waits {
			call.due = 0
		}
		call.entry, call.ended, call.waits = nil, false, false
		ls.wake(l, position)
	}
}

// forgetTimer has the entry of a call not come: it is there. The lock is held.
func (ls *lines) forgetTimer(position uint64) {
	if t := ls.timers[position]; t != nil {
		t.Stop()
		delete(ls.timers, position)
	}
}
