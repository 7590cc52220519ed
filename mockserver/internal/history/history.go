package history

import (
	"bytes"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// DefaultHistory is how many calls a History keeps by default.
	DefaultHistory = 100_000
	// DefaultHistoryBytes is about how much memory a History takes at most by
	// default, in bytes.
	DefaultHistoryBytes = 256 << 20

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

// snapshot copies the record as it is now: the History appends to its lists and never
// changes what they hold.
func snapshot(r *tracking.Record) tracking.Record {
	c := *r
	c.Ends = r.Ends[:len(r.Ends):len(r.Ends)]
	c.Attempts = r.Attempts[:len(r.Attempts):len(r.Attempts)]
	return c
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
// and as many rejected ones. Zero means DefaultHistory. It keeps fewer where they
// would take more memory than LimitBytes says, by default of DefaultHistoryBytes.
func New(limit int) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	h := &History{
		limit: limit, firstRejected: 1, sent: ring{limit: limit}, made: ring{limit: limit},
		byCall: map[event.Key]*entry{}, feed: newFeed(), recent: map[string]*recentOutcomes{},
	}
	h.LimitBytes(DefaultHistoryBytes)
	return h
}

// LimitBytes makes the History forget the oldest calls when they take more than
// about n bytes with their attempts, the oldest of the collector's own when these
// take more than a quarter of that, and the oldest rejected ones when these take
// more than an eighth. To be called before it is in use.
func (h *History) LimitBytes(n int64) {
	h.maxBytes, h.sent.maxBytes, h.made.maxBytes = n, n, n/madeShare
}

// Observe implements Observer.
func (h *History) Observe(e event.Event) {
	switch e := e.(type) {
	case event.Accepted:
		h.addAccepted(e)
	case event.Repeated:
		h.addRepeated(e.Batch)
	case tracking.Rejection:
		h.addRejection(e)
	case event.Refusal:
		h.addRefusal(e)
	case tracking.Attempt:
		h.addAttempt(e, false)
	case tracking.Ended:
		h.addEnded(e, false)
	}
}

// Restore takes an Attempt or an Ended of an earlier process. It goes before what
// this process did: calls that this one delivered meanwhile are delivered.
func (h *History) Restore(e event.Event) {
	switch e := e.(type) {
	case tracking.Attempt:
		h.addAttempt(e, true)
	case tracking.Ended:
		h.addEnded(e, true)
	}
}

func (h *History) addAccepted(a event.Accepted) {
	if a.Keys == nil {
		a.Keys = event.KeysOf(a.Batch)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	slab := make([]entry, len(a.Calls)) // one allocation: they will be forgotten together
	for i := range a.Calls {
		h.keep(a.Keys[i], &a.Calls[i], &slab[i]).Partial = false
	}
	h.tally.add(a.ReceivedAt, tallyAccepted, len(a.Calls))
	h.wake()
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

func (h *History) addRepeated(b event.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.Calls {
		if e := h.byCall[event.KeyOf(b.Calls[i].Source, b.Calls[i].ID)]; e != nil {
			e.Repeats++
			h.noteChange(e)
		}
	}
	h.tally.add(b.ReceivedAt, tallyRepeated, len(b.Calls))
	h.wake()
}

func (h *History) addRejection(r tracking.Rejection) {
	read := readRejected(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rejectedBytes += recordBytes + int64(len(r.Body))
	for len(h.rejected) == h.limit || h.rejectedBytes > h.maxBytes/rejectionShare && len(h.rejected) > 0 {
		h.rejectedBytes -= recordBytes + int64(len(h.rejected[0].Body))
		h.rejected = h.rejected[1:]
		h.firstRejected++
		h.feed.removeOldest(&h.feed.rejected)
	}
	h.rejected = append(h.rejected, r)
	h.feed.add(&feedNode{Item: Item{Rejection: &r, Read: read}})
	h.tally.add(r.ReceivedAt, tallyRejected, 1)
	h.wake()
}

func (h *History) addAttempt(a tracking.Attempt, restored bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.find(a.Source, a.CallID, a.Call)
	if e == nil {
		return
	}
	a.Call = nil
	at := len(e.Attempts)
	if restored {
		at = e.restored.attempts
		e.restored.attempts++
	}
	size := attemptBytes + sizeOf(a.ResponseHeader) + len(a.ResponseBody) + len(a.Error)
	if at > 0 && bytes.Equal(e.Attempts[at-1].RequestBody, a.RequestBody) {
		a.RequestBody = e.Attempts[at-1].RequestBody // all attempts send the same, which is kept once
	} else {
		size += len(a.RequestBody)
	}
	e.Attempts = insertAt(e.Attempts, at, a)
	h.noteChange(e)
	h.grow(e, size)
	h.wake()
}

// insertAt inserts an element without changing what copies of the slice see.
func insertAt[T any](all []T, i int, v T) []T {
	if i == len(all) {
		return append(all, v)
	}
	return slices.Insert(slices.Clip(all), i, v)
}

// sizeOf is about how many bytes a header takes.
func sizeOf(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += headerBytes + len(name) + len(value)
		}
	}
	return n
}

func (h *History) addEnded(d tracking.Ended, restored bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.end(d)
	h.noteOutcome(d)
	defer h.wake()
	e := h.find(d.Source, d.CallID, d.Call)
	if e == nil {
		return
	}
	d.Call = nil
	at := len(e.Ends)
	if restored {
		at = e.restored.ends
		e.restored.ends++
	}
	e.Ends = insertAt(e.Ends, at, d)
	h.noteChange(e)
	h.grow(e, endBytes+len(d.Reason))
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

// Records returns the records that match, oldest first. A nil match takes all.
func (h *History) Records(match func(*tracking.Record) bool) []tracking.Record {
	var found []tracking.Record
	for after := int64(0); ; {
		chunk := h.above(after)
		if len(chunk) == 0 {
			return found
		}
		for i := range chunk {
			if match == nil || match(&chunk[i]) {
				found = append(found, chunk[i])
			}
		}
		after = chunk[len(chunk)-1].Seq
	}
}

// above returns the oldest records with a Seq above after, oldest first: match is
// not called with the lock held.
func (h *History) above(after int64) []tracking.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent, made := h.sent.entries[h.sent.from(after+1):], h.made.entries[h.made.from(after+1):]
	chunk := make([]tracking.Record, 0, min(len(sent)+len(made), historyChunk))
	for len(chunk) < cap(chunk) {
		oldest := &sent
		if len(sent) == 0 || len(made) > 0 && made[0].Seq < sent[0].Seq {
			oldest = &made
		}
		chunk = append(chunk, snapshot(&(*oldest)[0].Record))
		*oldest = (*oldest)[1:]
	}
	return chunk
}

// Undrained returns the calls that were not drained before, oldest first, and may
// drain them.
func (h *History) Undrained(drain bool) []tracking.Call {
	h.mu.Lock()
	after, upTo := h.drained, h.lastSeq
	if drain {
		h.drained = upTo
	}
	h.mu.Unlock()
	var calls []tracking.Call
	for {
		chunk := h.above(after)
		for i := range chunk {
			if after = chunk[i].Seq; after <= upTo {
				calls = append(calls, chunk[i].Call)
			}
		}
		if len(chunk) == 0 || after >= upTo {
			return calls
		}
	}
}

// Rejections returns the calls that were not taken, oldest first.
func (h *History) Rejections() []tracking.Rejection {
	all, _ := h.NumberedRejections()
	return all
}

// NumberedRejections returns them with the number of the first.
func (h *History) NumberedRejections() (all []tracking.Rejection, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected[:len(h.rejected):len(h.rejected)], h.firstRejected
}

// Forgotten returns how many calls were forgotten to keep the limit.
func (h *History) Forgotten() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.forgotten
}

// Clear forgets everything.
func (h *History) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.firstRejected += int64(len(h.rejected))
	for _, r := range []*ring{&h.sent, &h.made} {
		r.entries, r.bytes = nil, 0
	}
	h.rejected, h.byCall = nil, map[event.Key]*entry{}
	h.rejectedBytes = 0
	h.early = earlyEntries{}
	h.feed.clear()
	for w := range h.watchers {
		w.clear()
	}
	h.wake()
}

// Sources returns the names of the sources of the newest n calls of senders and of as
// many of the collector's own, in the order in which they came.
func (h *History) Sources(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	for _, r := range []*ring{&h.sent, &h.made} {
		for _, e := range r.entries[max(0, len(r.entries)-n):] {
			if !seen[e.Call.Source] {
				seen[e.Call.Source] = true
				names = append(names, e.Call.Source)
			}
		}
	}
	return names
}
