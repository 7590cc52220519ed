package mockserver

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Recorder is told what the collector does with calls. Its methods are called
// from many goroutines at once, after the fact, and must not block.
type Recorder interface {
	Accepted(Batch)
	Repeated(Batch) // calls that were stored before; they are not stored again
	Rejected(Rejection)
	Refused(Refusal)
	Attempted(Attempt)
	Ended(Ended)
}

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

// recorders tells several.
type recorders []Recorder

func (rs recorders) Accepted(b Batch) {
	for _, r := range rs {
		r.Accepted(b)
	}
}

func (rs recorders) Repeated(b Batch) {
	for _, r := range rs {
		r.Repeated(b)
	}
}

func (rs recorders) Rejected(j Rejection) {
	for _, r := range rs {
		r.Rejected(j)
	}
}

func (rs recorders) Attempted(a Attempt) {
	for _, r := range rs {
		r.Attempted(a)
	}
}

func (rs recorders) Ended(e Ended) {
	for _, r := range rs {
		r.Ended(e)
	}
}

// A History remembers the newest of what a collector did, for tests and for the
// inspector. It is a Recorder. Its methods may be called from many goroutines at
// once.
type History struct {
	limit    int
	maxBytes int64
	adopting bool

	mu            sync.Mutex    // guards what follows
	changed       chan struct{} // closed at the next change; nil while nobody waits
	first         int64         // the sequence number of records[0]
	records       []*Record
	bytes         int64 // of records, about
	byCall        map[callHash]*Record
	early         earlyRecords
	rejected      []Rejection
	firstRejected int64 // the number of rejected[0]; they are counted from 1
	rejectedBytes int64 // of rejected, about
	refused       []Refusal
	dropped       int64
	drained       int64 // the Seq of the last record that drain returned
	watchers      map[*watcher]struct{}
	feed          feed
	tally         tally
}

// A Record is a call and what became of it.
type Record struct {
	// Seq counts the calls from 1 in the order in which they were accepted.
	Seq      int64
	Call     Call
	Repeats  int       // how often it was sent again
	Ends     []Ended   // what was decided about it, by any destination, oldest first
	Attempts []Attempt // the requests to webhooks that were made for it, oldest first

	key    callHash
	size   int64 // about, in bytes
	item   feedItem
	misses *[]string // where a Match notes why it does not pick the record, or nil
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
	// headerBytes is what each field of a header takes beside its texts.
	headerBytes = 64
	// rejectionShare is which part of the memory rejected calls may take, and
	// earlyShare which part a generation of earlyRecords.
	rejectionShare = 8
	earlyShare     = 16
)

// NewHistory returns a History of the newest limit calls, and as many rejected
// ones. Zero means DefaultHistory. It keeps fewer where they would take more than
// about DefaultHistoryBytes with their attempts, or than LimitBytes says.
func NewHistory(limit int) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	return &History{
		limit: limit, maxBytes: DefaultHistoryBytes, first: 1, firstRejected: 1,
		byCall: map[callHash]*Record{}, feed: newFeed(),
	}
}

// LimitBytes makes the History forget the oldest calls when it takes more than
// about n bytes, and the oldest rejected calls when these take more than an
// eighth of that. To be called before it is in use.
func (h *History) LimitBytes(n int64) { h.maxBytes = n }

// Accepted implements Recorder.
func (h *History) Accepted(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slab := make([]Record, len(b.Calls)) // one piece of memory: they will be forgotten together
	for i := range b.Calls {
		h.record(&b.Calls[i], &slab[i])
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
	if len(h.records) == h.limit {
		h.forgetOldest()
	}
	h.trim()
	*r = Record{Seq: h.first + int64(len(h.records)), Call: *c, key: key, size: recordBytes + int64(len(c.Body))}
	if early := h.early.take(key); early != nil {
		r.Ends, r.Attempts = early.Ends, early.Attempts
		r.size += early.size
	}
	h.bytes += r.size
	h.records = append(h.records, r)
	h.byCall[key] = r
	h.noteChange(r)
	return r
}

func (h *History) forgetOldest() {
	old := h.records[0]
	h.unname(old)
	h.records[0] = nil
	h.records = h.records[1:]
	h.bytes -= old.size
	h.first++
	h.dropped++
	h.feed.remove(&old.item)
}

// grow counts what a record takes more. The lock is held.
func (h *History) grow(r *Record, n int) {
	r.size += int64(n)
	if r.Seq > 0 {
		h.bytes += int64(n)
	} else if h.early.bytes += int64(n); h.early.bytes > h.maxBytes/earlyShare {
		h.early.age()
	}
}

// trim forgets the oldest records while all of them take too much. The lock is held.
func (h *History) trim() {
	for h.bytes > h.maxBytes && len(h.records) > 0 {
		h.forgetOldest()
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
// that it is stored. It returns nil for a call that is known to be too old to be
// remembered. The lock is held.
func (h *History) find(source, id string, call *Call) *Record {
	key := hashCall(source, id)
	if r := h.byCall[key]; r != nil {
		return r
	}
	switch {
	case !h.adopting || call == nil:
		return h.early.get(key)
	case h.dropped == 0 || len(h.records) == 0 || !call.ReceivedAt.Before(h.records[0].Call.ReceivedAt):
		return h.record(call, new(Record))
	}
	return nil // it is older than what is remembered
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

// Repeated implements Recorder.
func (h *History) Repeated(b Batch) {
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

// Rejected implements Recorder.
func (h *History) Rejected(r Rejection) {
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

// Attempted implements Recorder.
func (h *History) Attempted(a Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(a.Source, a.CallID, a.Call)
	if r == nil {
		return
	}
	a.Call = nil
	if n := len(r.Attempts); n > 0 && bytes.Equal(r.Attempts[n-1].RequestBody, a.RequestBody) {
		a.RequestBody = r.Attempts[n-1].RequestBody // all attempts send the same, which is kept once
	} else {
		h.grow(r, len(a.RequestBody))
	}
	h.grow(r, attemptBytes+sizeOf(a.ResponseHeader)+len(a.ResponseBody)+len(a.Error))
	r.Attempts = append(r.Attempts, a)
	h.noteChange(r)
	h.trim()
	h.tell()
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

// Ended implements Recorder.
func (h *History) Ended(e Ended) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.tell()
	h.tally.end(e)
	r := h.find(e.Source, e.CallID, e.Call)
	if r == nil {
		return
	}
	e.Call = nil
	h.grow(r, endBytes+len(e.Reason))
	r.Ends = append(r.Ends, e)
	h.noteChange(r)
	h.trim()
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
	start := int(min(int64(len(h.records)), max(0, after+1-h.first)))
	end := min(start+historyChunk, len(h.records))
	chunk := make([]Record, 0, end-start)
	for _, r := range h.records[start:end] {
		chunk = append(chunk, r.clone())
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

// drain returns the calls that it has not returned before, oldest first.
func (h *History) drain() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	var calls []Call
	for _, r := range h.records[max(0, h.drained+1-h.first):] {
		calls = append(calls, r.Call)
	}
	h.drained = h.first + int64(len(h.records)) - 1
	return calls
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
	h.first += int64(len(h.records))
	h.firstRejected += int64(len(h.rejected))
	h.records, h.rejected, h.refused, h.byCall = nil, nil, nil, map[callHash]*Record{}
	h.bytes, h.rejectedBytes = 0, 0
	h.early = earlyRecords{}
	h.feed.clear()
	for w := range h.watchers {
		w.clear()
	}
	h.tell()
}
