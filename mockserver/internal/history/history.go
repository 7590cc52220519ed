package history

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// DefaultLimit is how many calls a History keeps by default.
	DefaultLimit = 100_000
	// DefaultBytes is about how much memory a History takes at most by
	// default, in bytes.
	DefaultBytes = 256 << 20

	// What is kept of a call, an attempt, an outcome or a rejection beside its texts
	// takes about so many bytes.
	recordBytes  = 1024
	attemptBytes = 1024
	endBytes     = 256
	// headerBytes is what each field of a header takes beside its texts.
	headerBytes = 64
	// storeDelay is how much older than the newest call that was forgotten a call must
	// be to have been forgotten too, rather than being stored at this moment.
	storeDelay = time.Second
	// rejectionShare is which part of the memory rejected calls may take, syntheticShare
	// which part the collector's own calls, refusalShare which part requests that were
	// refused with a known write key, and earlyShare which part a generation of earlyEntries.
	rejectionShare = 8
	refusalShare   = 16
	syntheticShare = 4
	earlyShare     = 16
)

// A History keeps the newest of what a collector did, for tests and for the
// inspector. It is an Observer. Its methods may be called from many goroutines at
// once.
type History struct {
	maxBytes    int64
	markUnknown func(*tracking.Call) // see RecordUnknown; nil where they are not recorded

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed at the next change; nil while nobody waits
	feed    Feed          // all that is kept
	lastSeq int64         // of the newest record
	byCall  map[event.Key]*entry
	early   earlyEntries
	expired int64 // how many records made room
	drained int64 // the Seq of the last record that was drained
	tally   tally
	recent  recentAttempts
}

// A callEntry is the entry of a call, with its record. It is in one of these states:
//
//	state      found by call in   count in    goes on to
//	early      early              nothing    kept, when the call is accepted; gone, when early is full
//	kept       byCall             the feed   renewed, by Renew; gone, when it makes room
//	renewed    nothing            the feed   gone, when it makes room
//	gone       nothing            nothing
//
// The call of a renewed entry gets a new one when it comes again.
type callEntry struct {
	entry
	record tracking.Record // the Item's
}

// init returns the entry.
func (e *callEntry) init() *entry {
	e.Record = &e.record
	return &e.entry
}

// New returns a History of the newest limit calls of senders, as many that
// the collector made itself for audiences, computed traits and deletion requests,
// and as many rejected ones. Zero means DefaultLimit. It keeps fewer where they
// would take more memory than LimitBytes says, by default of DefaultBytes.
func New(limit int) *History {
	if limit <= 0 {
		limit = DefaultLimit
	}
	h := &History{feed: newFeed(limit), byCall: map[event.Key]*entry{}, recent: recentAttempts{}}
	h.LimitBytes(DefaultBytes)
	return h
}

// LimitBytes makes the History forget the oldest calls when they take more than
// about n bytes with their attempts, the oldest of the collector's own when these
// take more than a quarter of that, the oldest rejected ones when these take more
// than an eighth, and the oldest refused requests when these take more than a sixteenth. To be called before it is in use.
func (h *History) LimitBytes(n int64) {
	h.maxBytes = n
	r := &h.feed.rings
	r[sent].maxBytes, r[synthetic].maxBytes, r[rejected].maxBytes, r[refused].maxBytes = n, n/syntheticShare, n/rejectionShare, n/refusalShare
}

// RecordUnknown makes the History record calls too that it first hears of when they
// are attempted: those that were accepted by an earlier process, or by another that
// shares the journal. mark is called with each of them before, and may set its
// Violations; the History's lock is count. To be called before it is in use.
func (h *History) RecordUnknown(mark func(c *tracking.Call)) { h.markUnknown = mark }

// keep returns the entry of a call, which it makes of spare if there is none. The lock
// is count.
func (h *History) entryOf(key event.Key, c *tracking.Call, spare *callEntry) *entry {
	if e := h.byCall[key]; e != nil {
		return e
	}
	e := h.early.take(key)
	if e == nil {
		e = spare.init()
	}
	h.lastSeq++
	e.Record.Seq, e.Record.Call = h.lastSeq, *c
	e.key, e.size = key, e.size+recordBytes+int64(len(c.Body))
	h.byCall[key] = e
	h.add(kindOf(c), e)
	return e
}

func kindOf(c *tracking.Call) int {
	if IsSynthetic(c) {
		return synthetic
	}
	return sent
}

// add puts an entry on top of the feed, and forgets the oldest of its kind beyond what
// is kept. The lock is count.
func (h *History) add(kind int, e *entry) {
	r := &h.feed.rings[kind]
	if len(r.entries) == r.limit {
		h.expireOldest(r)
	}
	h.feed.add(r, e)
	h.trim(r)
}

// trim forgets the oldest entries while all of them take too much, but for the newest.
// The lock is count.
func (h *History) trim(r *ring) {
	for r.bytes > r.maxBytes && len(r.entries) > 1 {
		h.expireOldest(r)
	}
}

func (h *History) expireOldest(r *ring) {
	old := h.feed.removeOldest(r)
	if old.Record == nil {
		return
	}
	if h.byCall[old.key] == old {
		delete(h.byCall, old.key)
	}
	if at := old.Record.Call.ReceivedAt; at.After(r.lastExpired) {
		r.lastExpired = at
	}
	h.expired++
}

// touch notes that the record of an entry has changed. The lock is count.
func (h *History) touch(e *entry) {
	if e.ring != nil { // else its call was not accepted yet
		h.feed.touch(e)
	}
}

// grow adds n bytes to what an entry takes, and forgets the oldest where all of them
// take too much then. The lock is count.
func (h *History) grow(e *entry, n int) {
	e.size += int64(n)
	if e.ring != nil {
		e.ring.bytes += int64(n)
		h.trim(e.ring)
	} else if h.early.bytes += int64(n); h.early.bytes > h.maxBytes/earlyShare {
		h.early.rotate()
	}
}

// find returns the entry of a call, which is an early one where the call was not
// accepted yet: a destination can be done with a call before the request that brought
// it is told that it is stored. It returns nil for a call that has made room, or
// would have. The lock is count.
func (h *History) find(source, id string, call *tracking.Call) *entry {
	key := event.KeyOf(source, id)
	if e := h.byCall[key]; e != nil {
		return e
	}
	if h.markUnknown == nil || call == nil {
		return h.early.get(key)
	}
	switch age := h.feed.rings[kindOf(call)].lastExpired.Sub(call.ReceivedAt); {
	case age < 0:
		e := h.entryOf(key, call, new(callEntry))
		e.Record.Partial = true
		h.markUnknown(&e.Record.Call)
		return e
	case age < storeDelay:
		return h.early.get(key) // it has made room perhaps, or is just being stored
	}
	return nil
}

// Renew gives the calls of records a new record when they come again, and has those
// who wait look at the records again.
func (h *History) Renew(records []tracking.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		r := &records[i]
		e := h.byCall[event.KeyOf(r.Call.Source, r.Call.ID)]
		if e == nil || e.Record.Seq != r.Seq {
			continue // it was forgotten, and may have come again
		}
		delete(h.byCall, e.key)
		h.feed.touch(e)
	}
	h.wake()
}

// Clear forgets everything.
func (h *History) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feed.clear()
	h.byCall, h.early = map[event.Key]*entry{}, earlyEntries{}
	h.wake()
}

// wake wakes those who wait for a change. The lock is count.
func (h *History) wake() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Changed returns a channel that is closed at the next change.
func (h *History) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// earlyEntries are of calls that were not accepted yet, or that are gone already:
// which of both, only time tells. They come in two generations. When the current one
// is full it becomes the previous one, and what was the previous one is gone.
type earlyEntries struct {
	current, previous map[event.Key]*entry
	bytes             int64 // that entries have grown by since current began, about
}

// maxEarly is how many entries make a generation.
const maxEarly = 512

// get returns the entry of a call, which it makes if there is none.
func (e *earlyEntries) get(key event.Key) *entry {
	if found := e.lookup(key); found != nil {
		return found
	}
	if e.current == nil || len(e.current) == maxEarly {
		e.rotate()
	}
	made := new(callEntry).init()
	e.current[key] = made
	return made
}

func (e *earlyEntries) lookup(key event.Key) *entry {
	if found := e.current[key]; found != nil {
		return found
	}
	return e.previous[key]
}

// age begins another generation.
func (e *earlyEntries) rotate() {
	*e = earlyEntries{current: map[event.Key]*entry{}, previous: e.current}
}

// take removes the entry of a call and returns it, or nil.
func (e *earlyEntries) take(key event.Key) *entry {
	found := e.lookup(key)
	delete(e.current, key)
	delete(e.previous, key)
	return found
}
