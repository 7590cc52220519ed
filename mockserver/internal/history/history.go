package history

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// defaultLimit is the default number of calls in a History.
	defaultLimit = 100_000
	// DefaultBytes is the default memory limit of a History, in bytes.
	DefaultBytes = 256 << 20

	// recordBytes, attemptBytes and endBytes are the approximate memory of a call or rejection,
	// an attempt and an outcome, without their strings.
	recordBytes  = 1024
	attemptBytes = 1024
	endBytes     = 256
	// headerBytes is the approximate memory of a header field without its strings.
	headerBytes = 64
	// storeDelay is the maximum time to store a call. A call that is older than the newest
	// expired call by more than storeDelay has expired too.
	storeDelay = time.Second
	// The constants below divide the memory limit: rejected calls may use 1/rejectionShare,
	// refused requests with a known write key 1/refusalShare, synthetic calls 1/syntheticShare,
	// and each generation of earlyEntries 1/earlyShare.
	rejectionShare = 8
	refusalShare   = 16
	syntheticShare = 4
	earlyShare     = 16
)

// A History contains the newest calls, rejections and refusals of a collector. It is an
// event.Observer, and safe for concurrent use.
type History struct {
	start       time.Time
	maxBytes    int64
	markUnknown func(*tracking.Call) // see RecordUnknown; may be nil

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed at the next change; nil if no reader waits
	feed    Feed          // all retained items
	lastSeq int64         // Seq of the newest record
	byCall  map[event.Key]*entry
	early   earlyEntries
	expired int64 // number of expired records
	drained int64 // Seq of the last drained record
	tally   tally
	recent  recentAttempts
}

// A callEntry is the entry of a call, with its record. It has one of these states:
//
//	state      contained in       next state
//	early      early              retained, when the call is accepted; expired, when early is full
//	retained   byCall, the feed   renewed, by Renew; expired, when newer calls need the room
//	renewed    the feed           expired, when newer calls need the room
//	expired    -                  -
//
// If the call of a renewed entry is accepted again, it gets a new entry.
type callEntry struct {
	entry
	record tracking.Record // the field Record of Item points to it
}

func (e *callEntry) init() *entry {
	e.Record = &e.record
	return &e.entry
}

// New returns a History that retains the newest limit calls, limit synthetic calls, and limit
// rejected calls. Zero means 100,000. The memory limit is DefaultBytes; LimitBytes changes it.
func New(limit int) *History {
	if limit <= 0 {
		limit = defaultLimit
	}
	h := &History{start: time.Now(), feed: newFeed(limit), byCall: map[event.Key]*entry{}, recent: recentAttempts{}}
	h.LimitBytes(DefaultBytes)
	return h
}

// LimitBytes limits the memory to about n bytes. Synthetic calls may use at most a quarter of it,
// rejected calls an eighth, and refused requests a sixteenth. The oldest items expire first. Call
// LimitBytes before the History is in use.
func (h *History) LimitBytes(n int64) {
	h.maxBytes = n
	r := &h.feed.rings
	r[sent].maxBytes, r[synthetic].maxBytes, r[rejected].maxBytes, r[refused].maxBytes = n, n/syntheticShare, n/rejectionShare, n/refusalShare
}

// RecordUnknown makes the History record calls that it first observes when they are attempted.
// Such calls were accepted in a previous run, or by another collector that shares the journal. mark
// may set the Violations of such a call. It runs with the lock held. Call RecordUnknown before the
// History is in use.
//
// Calls that were received before this process started are in order of receipt, before all items of
// this process. The number of such a call is the time of receipt in microseconds, or the next unused
// number.
func (h *History) RecordUnknown(mark func(c *tracking.Call)) {
	h.markUnknown = mark
	h.lastSeq = h.start.UnixMicro() + int64(h.feed.rings[sent].limit+h.feed.rings[synthetic].limit)
	h.feed.arrived = h.lastSeq
}

// entryOf returns the entry of a call. If there is none, spare becomes the entry, with the given
// number or, if order is 0, with the next number. The lock must be held.
func (h *History) entryOf(key event.Key, c *tracking.Call, order int64, spare *callEntry) *entry {
	if e := h.byCall[key]; e != nil {
		return e
	}
	e := h.early.take(key)
	if e == nil {
		e = spare.init()
	}
	e.Order, e.Record.Seq, e.Record.Call = order, order, *c
	if order == 0 {
		h.lastSeq++
		e.Record.Seq = h.lastSeq
	}
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

// add adds an entry to the feed. If there are too many entries of this kind, the oldest expire,
// possibly including e. The lock must be held.
func (h *History) add(kind int, e *entry) {
	r := &h.feed.rings[kind]
	h.feed.add(r, e)
	h.trim(r)
}

// trim expires the oldest entries, except the last one, until the ring is within its limits. The
// lock must be held.
func (h *History) trim(r *ring) {
	for len(r.entries) > r.limit || r.bytes > r.maxBytes && len(r.entries) > 1 {
		h.expireOldest(r)
	}
}

func (h *History) expireOldest(r *ring) {
	old := h.feed.removeOldest(r)
	if at := old.At(); at.After(r.lastExpired) {
		r.lastExpired = at
	}
	if old.Record == nil {
		return
	}
	if h.byCall[old.key] == old {
		delete(h.byCall, old.key)
	}
	h.expired++
}

// touch records a change of an entry. The lock must be held.
func (h *History) touch(e *entry) {
	if e.ring != nil { // an early entry is not in the feed
		h.feed.touch(e)
	}
}

// grow adds n bytes to the size of an entry, and expires old entries if necessary. The lock
// must be held.
func (h *History) grow(e *entry, n int) {
	e.size += int64(n)
	if e.ring != nil {
		e.ring.bytes += int64(n)
		h.trim(e.ring)
	} else if h.early.bytes += int64(n); h.early.bytes > h.maxBytes/earlyShare {
		h.early.rotate()
	}
}

// find returns the entry of a call. A destination may finish a call before the request learns that
// the call is stored. In this case, find returns an early entry. If the call has expired, it
// returns nil. The lock must be held.
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
		var order int64
		if call.ReceivedAt.Before(h.start) {
			order = h.feed.free(call.ReceivedAt.UnixMicro())
		}
		e := h.entryOf(key, call, order, new(callEntry))
		e.Record.Partial = true
		h.markUnknown(&e.Record.Call)
		return h.byCall[key] // nil if the call has expired, because all retained calls are newer
	case age < storeDelay:
		return h.early.get(key) // the call has expired or is being stored
	}
	return nil
}

// Renew ends the records of calls: if such a call is accepted again, it gets a new record. Renew
// also wakes all waiting readers.
func (h *History) Renew(records []tracking.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		r := &records[i]
		e := h.byCall[event.KeyOf(r.Call.Source, r.Call.ID)]
		if e == nil || e.Record.Seq != r.Seq {
			continue // the record has expired, and the call may have been accepted again
		}
		delete(h.byCall, e.key)
		h.feed.touch(e)
	}
	h.wake()
}

// Clear deletes all items.
func (h *History) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feed.clear()
	h.byCall, h.early = map[event.Key]*entry{}, earlyEntries{}
	h.wake()
}

// wake wakes all waiting readers. The lock must be held.
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

// earlyEntries contains entries of calls that are not accepted yet or have expired; the History
// cannot distinguish them. When the current generation is full, it becomes the previous one.
type earlyEntries struct {
	current, previous map[event.Key]*entry
	bytes             int64 // approximate growth of the entries since the last rotation
}

// maxEarly is the maximum number of entries in a generation.
const maxEarly = 512

// get returns the entry of a call, and creates it if it is missing.
func (e *earlyEntries) get(key event.Key) *entry {
	if found := e.lookup(key); found != nil {
		return found
	}
	if e.current == nil || len(e.current) == maxEarly {
		e.rotate()
	}
	created := new(callEntry).init()
	e.current[key] = created
	return created
}

func (e *earlyEntries) lookup(key event.Key) *entry {
	if found := e.current[key]; found != nil {
		return found
	}
	return e.previous[key]
}

// rotate starts a new generation.
func (e *earlyEntries) rotate() {
	*e = earlyEntries{current: map[event.Key]*entry{}, previous: e.current}
}

// take removes and returns the entry of a call, or returns nil.
func (e *earlyEntries) take(key event.Key) *entry {
	found := e.lookup(key)
	delete(e.current, key)
	delete(e.previous, key)
	return found
}
