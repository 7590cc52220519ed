package mockserver

import (
	"bytes"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An Attempt is one request to a webhook.
type Attempt struct {
	CallID      string `json:"messageId"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	webhook.Attempt
	Call *Call `json:"-"` // the call itself, which must not be kept
}

// Ended says what became of a call at a destination, each time it is decided:
// StatePending where it is to be tried again.
type Ended struct {
	CallID      string    `json:"messageId"`
	Source      string    `json:"source"`
	Destination string    `json:"destination"`
	At          time.Time `json:"at"`
	ReceivedAt  time.Time `json:"receivedAt"` // when the collector took the call
	Attempt     int       `json:"attempt"`
	Outcome
	RetryAt time.Time `json:"retryAt,omitzero"`
	Call    *Call     `json:"-"` // the call itself, which must not be kept
}

// A History remembers the newest of what a collector did, for tests and for the
// inspector. It is an Observer. Its methods may be called from many goroutines at
// once.
type History struct {
	limit    int
	maxBytes int64
	adopting bool

	mu            sync.Mutex    // guards what follows
	changed       chan struct{} // closed at the next change; nil while nobody waits
	lastSeq       int64         // of the newest record
	sent          shelf         // calls of senders
	made          shelf         // calls that the collector made: a large audience must not push the others out
	byCall        map[callHash]*Record
	early         earlyRecords
	rejected      []Rejection
	firstRejected int64 // the number of rejected[0]; they are counted from 1
	rejectedBytes int64 // of rejected, about
	dropped       int64
	drained       int64 // the Seq of the last record that was drained
	watchers      map[*watcher]struct{}
	feed          feed
	tally         tally
	recent        map[string]*recentOutcomes // by destination
}

// A shelf holds records up to a number and about a size, oldest first. The
// History's lock guards it.
type shelf struct {
	limit     int
	maxBytes  int64
	records   []*Record // by Seq
	bytes     int64     // of records, about
	forgotten time.Time // the latest ReceivedAt of those that made room
}

// from returns the index of the first record with a Seq of at least seq.
func (s *shelf) from(seq int64) int {
	return sort.Search(len(s.records), func(i int) bool { return s.records[i].Seq >= seq })
}

// A Record is a call and what became of it.
type Record struct {
	// Seq counts the calls from 1 in the order in which they were accepted.
	Seq      int64
	Call     Call
	Repeats  int       // how often it was sent again
	Ends     []Ended   // what was decided about it, by any destination, oldest first
	Attempts []Attempt // the requests to webhooks that were made for it, oldest first

	key   callHash
	shelf *shelf // nil while the call was not accepted
	size  int64  // about, in bytes
	item  feedItem
	// adopted says that the History first heard of the call when it was attempted:
	// what other destinations did with it before is not known.
	adopted bool
	// restored counts those of Ends and of Attempts that an earlier process recorded.
	restored struct{ ends, attempts int }
	misses   *misses // where a Match notes why it does not pick the record, or nil
}

// State returns where the call stands with a destination, and why. The second
// result is false where the destination has not decided about it.
func (r Record) State(destination string) (Outcome, bool) {
	for i := len(r.Ends) - 1; i >= 0; i-- {
		if r.Ends[i].Destination == destination {
			return r.Ends[i].Outcome, true
		}
	}
	return Outcome{}, false
}

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
	// storingTime is how long before a call that made room another one must have come
	// to have made room too, rather than that it is just being stored.
	storingTime = time.Second
	// headerBytes is what each field of a header takes beside its texts.
	headerBytes = 64
	// rejectionShare is which part of the memory rejected calls may take, madeShare
	// which part the collector's own calls, and earlyShare which part a generation of
	// earlyRecords.
	rejectionShare = 8
	madeShare      = 4
	earlyShare     = 16
)

// NewHistory returns a History of the newest limit calls of senders, as many that
// the collector made itself for audiences, computed traits and deletion requests,
// and as many rejected ones. Zero means DefaultHistory. It keeps fewer where they
// would take more memory than LimitBytes says, by default of DefaultHistoryBytes.
func NewHistory(limit int) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	h := &History{
		limit: limit, firstRejected: 1, sent: shelf{limit: limit}, made: shelf{limit: limit},
		byCall: map[callHash]*Record{}, feed: newFeed(), recent: map[string]*recentOutcomes{},
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
func (h *History) Observe(e Event) {
	switch e := e.(type) {
	case Accepted:
		h.accepted(e.Batch)
	case Repeated:
		h.repeated(e.Batch)
	case Rejection:
		h.rejection(e)
	case Refusal:
		h.refused(e)
	case Attempt:
		h.attempted(e, false)
	case Ended:
		h.ended(e, false)
	}
}

// Restore takes an Attempt or an Ended of an earlier process. It goes before what
// this process did: calls that this one delivered meanwhile are delivered.
func (h *History) Restore(e Event) {
	switch e := e.(type) {
	case Attempt:
		h.attempted(e, true)
	case Ended:
		h.ended(e, true)
	}
}

func (h *History) accepted(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slab := make([]Record, len(b.Calls)) // one piece of memory: they will be forgotten together
	for i := range b.Calls {
		h.record(&b.Calls[i], &slab[i]).adopted = false
	}
	h.tally.add(b.ReceivedAt, tallyAccepted, len(b.Calls))
	h.tell()
}

// record adds a call as the record r, or returns the one that it has. The lock is
// held.
func (h *History) record(c *Call, r *Record) *Record {
	key := hashCall(c.Source, c.ID)
	if r := h.byCall[key]; r != nil {
		return r
	}
	s := h.shelfOf(c)
	if len(s.records) == s.limit {
		h.forgetOldest(s)
	}
	h.trim(s)
	h.lastSeq++
	*r = Record{Seq: h.lastSeq, Call: *c, key: key, shelf: s, size: recordBytes + int64(len(c.Body))}
	if early := h.early.take(key); early != nil {
		r.Ends, r.Attempts, r.restored = early.Ends, early.Attempts, early.restored
		r.size += early.size
	}
	s.bytes += r.size
	s.records = append(s.records, r)
	h.byCall[key] = r
	h.noteChange(r)
	return r
}

func (h *History) shelfOf(c *Call) *shelf {
	if c.isSynthetic() {
		return &h.made
	}
	return &h.sent
}

func (h *History) forgetOldest(s *shelf) {
	old := s.records[0]
	h.unname(old)
	s.records[0] = nil
	s.records = s.records[1:]
	s.bytes -= old.size
	if old.Call.ReceivedAt.After(s.forgotten) {
		s.forgotten = old.Call.ReceivedAt
	}
	h.dropped++
	h.feed.remove(&old.item)
}

// grow counts what a record takes more, and forgets the oldest where all of them
// take too much then. The lock is held.
func (h *History) grow(r *Record, n int) {
	r.size += int64(n)
	if r.shelf != nil {
		r.shelf.bytes += int64(n)
		h.trim(r.shelf)
	} else if h.early.bytes += int64(n); h.early.bytes > h.maxBytes/earlyShare {
		h.early.age()
	}
}

// trim forgets the oldest records while all of them take too much. The lock is held.
func (h *History) trim(s *shelf) {
	for s.bytes > s.maxBytes && len(s.records) > 0 {
		h.forgetOldest(s)
	}
}

// unname makes a record not to be found by its call. The lock is held.
func (h *History) unname(r *Record) {
	if h.byCall[r.key] == r {
		delete(h.byCall, r.key)
	}
}

// renew makes the calls of records be recorded anew when they come again, and those
// who wait look at the records again.
func (h *History) renew(records []Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		r := h.byCall[records[i].key]
		if r == nil || r.Seq != records[i].Seq {
			continue // it was forgotten, and may have come again
		}
		delete(h.byCall, r.key)
		for w := range h.watchers {
			w.add(r)
		}
	}
}

// find returns the record of a call, or one that waits for the call: a
// destination can be done with a call before the request that brought it is told
// that it is stored. It returns nil for a call that has made room, or would have. The
// lock is held.
func (h *History) find(source, id string, call *Call) *Record {
	key := hashCall(source, id)
	if r := h.byCall[key]; r != nil {
		return r
	}
	if !h.adopting || call == nil {
		return h.early.get(key)
	}
	switch age := h.shelfOf(call).forgotten.Sub(call.ReceivedAt); {
	case age < 0:
		r := h.record(call, new(Record))
		r.adopted = true
		return r
	case age < storingTime:
		return h.early.get(key) // it has made room perhaps, or is just being stored
	}
	return nil
}

// Adopt makes the History remember calls too that it first hears of when they are
// attempted: those that were accepted by an earlier process, or by another that
// shares the journal. To be called before it is in use.
func (h *History) Adopt() { h.adopting = true }

// earlyRecords are of calls that were not accepted yet, or are forgotten already:
// which of both, only time tells. It holds the newest of them in two generations.
type earlyRecords struct {
	younger, elder map[callHash]*Record
	bytes          int64 // that records have grown by since younger began, about
}

// manyEarly is how many records make a generation.
const manyEarly = 512

func (e *earlyRecords) get(key callHash) *Record {
	r := e.younger[key]
	if r == nil {
		r = e.elder[key]
	}
	if r != nil {
		return r
	}
	if e.younger == nil || len(e.younger) == manyEarly {
		e.age()
	}
	r = &Record{}
	e.younger[key] = r
	return r
}

// age begins another generation.
func (e *earlyRecords) age() {
	*e = earlyRecords{younger: map[callHash]*Record{}, elder: e.younger}
}

func (e *earlyRecords) take(key callHash) *Record {
	r := e.younger[key]
	if r == nil {
		r = e.elder[key]
	}
	delete(e.younger, key)
	delete(e.elder, key)
	return r
}

func (h *History) repeated(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range b.Calls {
		if r := h.byCall[hashCall(c.Source, c.ID)]; r != nil {
			r.Repeats++
			h.noteChange(r)
		}
	}
	h.tally.add(b.ReceivedAt, tallyRepeated, len(b.Calls))
	h.tell()
}

func (h *History) rejection(r Rejection) {
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
	h.feed.add(&feedItem{rejection: &r, read: read})
	h.tally.add(r.ReceivedAt, tallyRejected, 1)
	h.tell()
}

func (h *History) attempted(a Attempt, restored bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(a.Source, a.CallID, a.Call)
	if r == nil {
		return
	}
	a.Call = nil
	place := len(r.Attempts)
	if restored {
		place = r.restored.attempts
		r.restored.attempts++
	}
	size := attemptBytes + sizeOf(a.ResponseHeader) + len(a.ResponseBody) + len(a.Error)
	if place > 0 && bytes.Equal(r.Attempts[place-1].RequestBody, a.RequestBody) {
		a.RequestBody = r.Attempts[place-1].RequestBody // all attempts send the same, which is kept once
	} else {
		size += len(a.RequestBody)
	}
	r.Attempts = insertAt(r.Attempts, place, a)
	h.noteChange(r)
	h.grow(r, size)
	h.tell()
}

// insertAt inserts an element without changing what copies of the slice see.
func insertAt[T any](all []T, place int, v T) []T {
	if place == len(all) {
		return append(all, v)
	}
	return slices.Insert(slices.Clip(all), place, v)
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

func (h *History) ended(e Ended, restored bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.end(e)
	h.noteOutcome(e)
	defer h.tell()
	r := h.find(e.Source, e.CallID, e.Call)
	if r == nil {
		return
	}
	e.Call = nil
	place := len(r.Ends)
	if restored {
		place = r.restored.ends
		r.restored.ends++
	}
	r.Ends = insertAt(r.Ends, place, e)
	h.noteChange(r)
	h.grow(r, endBytes+len(e.Reason))
}

// tell wakes those who wait for a change. The lock is held.
func (h *History) tell() {
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
func (h *History) Records(match func(*Record) bool) []Record {
	var found []Record
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
func (h *History) above(after int64) []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent, made := h.sent.records[h.sent.from(after+1):], h.made.records[h.made.from(after+1):]
	chunk := make([]Record, 0, min(len(sent)+len(made), historyChunk))
	for len(chunk) < cap(chunk) {
		oldest := &sent
		if len(sent) == 0 || len(made) > 0 && made[0].Seq < sent[0].Seq {
			oldest = &made
		}
		chunk = append(chunk, (*oldest)[0].clone())
		*oldest = (*oldest)[1:]
	}
	return chunk
}

// clone copies what the History still appends to.
func (r *Record) clone() Record {
	c := *r
	c.item = feedItem{} // it leads to others
	c.Ends = r.Ends[:len(r.Ends):len(r.Ends)]
	c.Attempts = r.Attempts[:len(r.Attempts):len(r.Attempts)]
	return c
}

// undrained returns the calls that were not drained before, oldest first, and may
// drain them.
func (h *History) undrained(drain bool) []Call {
	h.mu.Lock()
	after, upTo := h.drained, h.lastSeq
	if drain {
		h.drained = upTo
	}
	h.mu.Unlock()
	var calls []Call
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
func (h *History) Rejections() []Rejection {
	all, _ := h.numberedRejections()
	return all
}

// numberedRejections returns them with the number of the first.
func (h *History) numberedRejections() (all []Rejection, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected[:len(h.rejected):len(h.rejected)], h.firstRejected
}

// Forgotten returns how many calls were forgotten to keep the limit.
func (h *History) Forgotten() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped
}

// Clear forgets everything.
func (h *History) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.firstRejected += int64(len(h.rejected))
	for _, s := range []*shelf{&h.sent, &h.made} {
		s.records, s.bytes = nil, 0
	}
	h.rejected, h.byCall = nil, map[callHash]*Record{}
	h.rejectedBytes = 0
	h.early = earlyRecords{}
	h.feed.clear()
	for w := range h.watchers {
		w.clear()
	}
	h.tell()
}
