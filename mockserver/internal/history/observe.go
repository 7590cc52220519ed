package history

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Observe implements event.Observer.
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
