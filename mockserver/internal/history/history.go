package history

import (
	"sort"
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
	// storingTime is how much older than the newest call that was forgotten a call must
	// be to have been forgotten too, rather than being stored at this moment.
	storingTime = time.Second
	// rejectionShare is which part of the memory rejected calls may take, madeShare
	// which part the collector's own calls, and earlyShare which part a generation of
	// earlyEntries.
	rejectionShare = 8
	madeShare      = 4
	earlyShare     = 16
)

// A History keeps the newest of what a collector did, for tests and for the
// inspector. It is an Observer. Its methods may be called from many goroutines at
// once.
type History struct {
	limit         int
	maxBytes      int64
	recordUnknown bool // see RecordUnknown

	mu            sync.Mutex    // guards what follows
	changed       chan struct{} // closed at the next change; nil while nobody waits
	lastSeq       int64         // of the newest record
	sent          ring          // calls of senders
	made          ring          // calls that the collector made: a large audience must not push the others out
	byCall        map[event.Key]*entry
	early         earlyEntries
	rejected      []tracking.Rejection
	firstRejected int64 // the number of rejected[0]; they are counted from 1
	rejectedBytes int64 // of rejected, about
	forgotten     int64 // how many records made room
	drained       int64 // the Seq of the last record that was drained
	watchers      map[*watcher]struct{}
	feed          Feed
	tally         tally
	recent        map[string]*recentOutcomes // by destination
}

// An entry is a Record and what the History needs to keep it. The History's lock
// guards it. It is in one of these states:
//
//	state      found by call in   held in                 goes on to
//	early      early              nothing else            kept, when the call is accepted; gone, when early is full
//	kept       byCall             its ring and the feed   renewed, by renew; gone, when it makes room
//	renewed    nothing            its ring and the feed   gone, when it makes room
//	gone       nothing            nothing
//
// The call of a renewed entry gets a new one when it comes again.
type entry struct {
	tracking.Record
	place feedNode // in the feed
	key   event.Key
	ring  *ring // nil while early
	size  int64 // about, in bytes
	// restored counts those of Ends and of Attempts that an earlier process recorded.
	restored struct{ ends, attempts int }
}

// A ring holds entries up to a number and about a size. The oldest makes room for
// the newest. Cursors into it are Seqs, which stay right when entries go.
type ring struct {
	limit     int
	maxBytes  int64
	entries   []*entry  // by Seq
	bytes     int64     // of entries, about
	forgotten time.Time // the latest ReceivedAt of those that made room
}

// from returns the index of the first entry with a Seq of at least seq.
func (r *ring) from(seq int64) int {
	return sort.Search(len(r.entries), func(i int) bool { return r.entries[i].Seq >= seq })
}

// New returns a History of the newest limit calls of senders, as many that
// the collector made itself for audiences, computed traits and deletion requests,
// and as many rejected ones. Zero means DefaultLimit. It keeps fewer where they
// would take more memory than LimitBytes says, by default of DefaultBytes.
func New(limit int) *History {
	if limit <= 0 {
		limit = DefaultLimit
	}
	h := &History{
		limit: limit, firstRejected: 1, sent: ring{limit: limit}, made: ring{limit: limit},
		byCall: map[event.Key]*entry{}, feed: newFeed(), recent: map[string]*recentOutcomes{},
	}
	h.LimitBytes(DefaultBytes)
	return h
}

// LimitBytes makes the History forget the oldest calls when they take more than
// about n bytes with their attempts, the oldest of the collector's own when these
// take more than a quarter of that, and the oldest rejected ones when these take
// more than an eighth. To be called before it is in use.
func (h *History) LimitBytes(n int64) {
	h.maxBytes, h.sent.maxBytes, h.made.maxBytes = n, n, n/madeShare
}

// keep makes e the entry of a call, or returns the one that the call has. The lock is
// held.
func (h *History) keep(key event.Key, c *tracking.Call, e *entry) *entry {
	if e := h.byCall[key]; e != nil {
		return e
	}
	r := h.ringOf(c)
	if len(r.entries) == r.limit {
		h.forgetOldest(r)
	}
	h.trim(r)
	h.lastSeq++
	*e = entry{Record: tracking.Record{Seq: h.lastSeq, Call: *c}, key: key, ring: r, size: recordBytes + int64(len(c.Body))}
	if early := h.early.take(key); early != nil {
		e.Ends, e.Attempts, e.restored = early.Ends, early.Attempts, early.restored
		e.size += early.size
	}
	r.bytes += e.size
	r.entries = append(r.entries, e)
	h.byCall[key] = e
	h.noteChange(e)
	return e
}

func (h *History) ringOf(c *tracking.Call) *ring {
	if IsSynthetic(c) {
		return &h.made
	}
	return &h.sent
}

func (h *History) forgetOldest(r *ring) {
	old := r.entries[0]
	if h.byCall[old.key] == old {
		delete(h.byCall, old.key)
	}
	r.entries[0] = nil
	r.entries = r.entries[1:]
	r.bytes -= old.size
	if old.Call.ReceivedAt.After(r.forgotten) {
		r.forgotten = old.Call.ReceivedAt
	}
	h.forgotten++
	h.feed.remove(&old.place)
}

// grow adds n bytes to what an entry takes, and forgets the oldest where all of them
// take too much then. The lock is held.
func (h *History) grow(e *entry, n int) {
	e.size += int64(n)
	if e.ring != nil {
		e.ring.bytes += int64(n)
		h.trim(e.ring)
	} else if h.early.bytes += int64(n); h.early.bytes > h.maxBytes/earlyShare {
		h.early.age()
	}
}

// trim forgets the oldest entries while all of them take too much. The lock is held.
func (h *History) trim(r *ring) {
	for r.bytes > r.maxBytes && len(r.entries) > 0 {
		h.forgetOldest(r)
	}
}

// Renew gives the calls of records a new record when they come again, and has those
// who wait look at the records again.
func (h *History) Renew(records []tracking.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		r := &records[i]
		e := h.byCall[event.KeyOf(r.Call.Source, r.Call.ID)]
		if e == nil || e.Seq != r.Seq {
			continue // it was forgotten, and may have come again
		}
		delete(h.byCall, e.key)
		for w := range h.watchers {
			w.add(e)
		}
	}
}

// find returns the entry of a call, which is an early one where the call was not
// accepted yet: a destination can be done with a call before the request that brought
// it is told that it is stored. It returns nil for a call that has made room, or
// would have. The lock is held.
func (h *History) find(source, id string, call *tracking.Call) *entry {
	key := event.KeyOf(source, id)
	if e := h.byCall[key]; e != nil {
		return e
	}
	if !h.recordUnknown || call == nil {
		return h.early.get(key)
	}
	switch age := h.ringOf(call).forgotten.Sub(call.ReceivedAt); {
	case age < 0:
		e := h.keep(key, call, new(entry))
		e.Partial = true
		return e
	case age < storingTime:
		return h.early.get(key) // it has made room perhaps, or is just being stored
	}
	return nil
}

// RecordUnknown makes the History record calls too that it first hears of when they
// are attempted: those that were accepted by an earlier process, or by another that
// shares the journal. To be called before it is in use.
func (h *History) RecordUnknown() { h.recordUnknown = true }

// earlyEntries are of calls that were not accepted yet, or that are gone already:
// which of both, only time tells. They come in two generations. When the current one
// is full it becomes the previous one, and what was the previous one is gone.
type earlyEntries struct {
	current, previous map[event.Key]*entry
	bytes             int64 // that entries have grown by since current began, about
}

// manyEarly is how many entries make a generation.
const manyEarly = 512

// get returns the entry of a call, which it makes if there is none.
func (e *earlyEntries) get(key event.Key) *entry {
	if found := e.lookup(key); found != nil {
		return found
	}
	if e.current == nil || len(e.current) == manyEarly {
		e.age()
	}
	made := &entry{}
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
func (e *earlyEntries) age() {
	*e = earlyEntries{current: map[event.Key]*entry{}, previous: e.current}
}

// take removes the entry of a call and returns it, or nil.
func (e *earlyEntries) take(key event.Key) *entry {
	found := e.lookup(key)
	delete(e.current, key)
	delete(e.previous, key)
	return found
}

// wake wakes those who wait for a change. The lock is held.
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

// note adds the record of an entry that was kept, or notes that it has changed.
func (f *Feed) note(e *entry) {
	if e.place.Order > 0 {
		f.touch(&e.place)
		return
	}
	e.place.Record = &e.Record
	f.add(&e.place)
}

// recentOutcomes are how the newest attempts at calls ended at a destination.
type recentOutcomes struct {
	n      int       // how many are known
	failed uint64    // a bit for each, the newest the lowest: it is set where the attempt failed
	last   time.Time // when the newest ended
}

// A watcher collects the records that change while somebody waits, so that each
// change is looked at once.
type watcher struct {
	history *History
	wake    chan struct{} // holds a token when there is something to look at; never closed

	// The History's lock guards these.
	changed map[*entry]struct{}
	cleared bool // the History was cleared since take was called last
}

// add notes that a record has changed. The History's lock is held.
func (w *watcher) add(e *entry) {
	w.changed[e] = struct{}{}
	w.signal()
}

// clear notes that the History forgets all records. Its lock is held.
func (w *watcher) clear() {
	clear(w.changed)
	w.cleared = true
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// noteChange tells the feed and those who watch that an entry is new or has changed.
// The lock is held.
func (h *History) noteChange(e *entry) {
	if e.ring == nil {
		return // its call was not accepted yet
	}
	h.feed.note(e)
	for w := range h.watchers {
		w.add(e)
	}
}
