package history

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Observe implements event.Observer.
func (h *History) Observe(e event.Event) { h.apply(e, false) }

// Restore adds an Attempt or Ended of a previous run, before the events of this process.
func (h *History) Restore(e event.Event) { h.apply(e, true) }

func (h *History) apply(e event.Event, restored bool) {
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
		h.addAttempt(e, restored)
	case tracking.Ended:
		h.addEnded(e, restored)
	}
}

func (h *History) addAccepted(a event.Accepted) {
	keys := event.KeysOf(a.Batch)
	h.mu.Lock()
	defer h.mu.Unlock()
	slab := make([]callEntry, len(a.Calls)) // one allocation for entries that will expire together
	for i := range a.Calls {
		known := h.byCall[keys[i]] != nil
		e := h.entryOf(keys[i], &a.Calls[i], 0, &slab[i])
		h.feed.record(activityRef{order: e.Order, kind: itemArrived})
		if !known {
			h.feed.recordEarly(e)
		}
		e.Record.Partial, e.Record.RetryCount = false, a.RetryCount
		setTrace(e.Record, a.Trace)
	}
	h.tally.add(a.ReceivedAt, tallyAccepted, len(a.Calls))
	h.wake()
}

func setTrace(r *tracking.Record, c *event.Trace) {
	if c != nil {
		r.TraceParent, r.TraceState = c.Parent, c.State
	}
}

func (h *History) addRepeated(b event.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.Calls {
		if e := h.byCall[event.KeyOf(b.Calls[i].Source, b.Calls[i].ID)]; e != nil {
			e.Record.Repeats++
			e.Record.RetryCount = b.RetryCount
			h.feed.touch(e)
		}
	}
	h.tally.add(b.ReceivedAt, tallyRepeated, len(b.Calls))
	h.wake()
}

func (h *History) addRejection(r tracking.Rejection) {
	read := readRejected(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &entry{Item: Item{Rejection: &r, Read: read}, size: recordBytes + int64(len(r.Body))}
	h.add(rejected, e)
	h.feed.record(activityRef{order: e.Order, kind: itemArrived})
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
	if e.Record.Partial && e.Record.TraceParent == "" {
		setTrace(e.Record, event.TraceOf(a.RequestHeader))
	}
	at := len(e.Record.Attempts)
	if restored {
		at = e.restored.attempts
		e.restored.attempts++
	}
	size := attemptBytes + sizeOf(a.ResponseHeader) + len(a.ResponseBody) + len(a.Error)
	if at > 0 && bytes.Equal(e.Record.Attempts[at-1].RequestBody, a.RequestBody) {
		a.RequestBody = e.Record.Attempts[at-1].RequestBody // all attempts share one copy of the body
	} else {
		size += len(a.RequestBody)
	}
	e.Record.Attempts = insertAt(e.Record.Attempts, at, a)
	if e.ring != nil && !restored {
		h.feed.record(activityRef{e.Order, itemAttempted, int32(at - e.restored.attempts)}) //nolint:gosec // a call has few
	}
	h.touch(e)
	h.grow(e, size)
	h.wake()
}

// insertAt inserts an element into a new slice, because copies of the record share the old one.
func insertAt[T any](all []T, i int, v T) []T {
	if i == len(all) {
		return append(all, v)
	}
	return slices.Insert(slices.Clip(all), i, v)
}

// sizeOf returns the approximate memory of a header in bytes.
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
	h.recent.add(d)
	defer h.wake()
	e := h.find(d.Source, d.CallID, d.Call)
	if e == nil {
		return
	}
	d.Call = nil
	at := e.indexOf(&d)
	if restored {
		at = e.restored.ends
		e.restored.ends++
	}
	late := at < len(e.Record.Ends)
	e.Record.Ends = insertAt(e.Record.Ends, at, d)
	if e.ring != nil && !restored {
		index := int32(at - e.restored.ends) //nolint:gosec // a call has few
		if late {
			h.feed.shiftEnds(e.Order, index)
		}
		h.feed.record(activityRef{e.Order, itemEnded, index})
	}
	h.touch(e)
	h.grow(e, endBytes+len(d.Reason))
}

// indexOf returns the index at which to insert an outcome. Outcomes from other collectors may
// arrive after later outcomes of the same destination. Such an outcome is inserted before a later
// one if its time is earlier and the sequence of outcomes lacks one at this place. Comparing times
// is not sufficient, because clocks differ.
func (e *entry) indexOf(d *tracking.Ended) int {
	ends, isFinal := e.Record.Ends, d.State != tracking.StatePending
	for next := len(ends) - 1; next >= e.restored.ends; next-- {
		later := &ends[next]
		if later.Destination != d.Destination {
			continue
		}
		if !d.At.Before(later.At) {
			break
		}
		before := tracking.Record{Ends: ends[:next]}
		last, decided := before.Last(d.Destination)
		wasFinal := decided && last.State != tracking.StatePending
		if wasFinal != isReplay(later) && wasFinal == isReplay(d) && isFinal == isReplay(later) {
			return next
		}
	}
	return len(ends)
}

// isReplay reports whether an outcome is the start of a replay. Only the start of a replay can
// follow a final outcome.
func isReplay(d *tracking.Ended) bool { return d.Attempt == 0 && d.State == tracking.StatePending }

// mergeInterval is the period in which refusals without a known write key are merged.
const mergeInterval = time.Minute

func (h *History) addRefusal(r event.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.add(r.At, tallyRejected, 1)
	r.Count = max(r.Count, 1)
	e := &entry{Item: Item{Refusal: &r}, size: recordBytes + int64(len(r.Body)), since: r.At}
	if r.Source != "" {
		h.add(refused, e)
	} else if known := h.mergeTarget(r); known != nil {
		r.Count += known.Refusal.Count
		known.Refusal = &r // a new Refusal, because copies of the item may refer to the old one
		e = known
		h.feed.touch(e)
	} else {
		h.add(anonymous, e)
	}
	h.feed.record(activityRef{order: e.Order, kind: itemArrived})
	h.wake()
}

// SeparateRefusals ends the merging of refusals without a known write key: later refusals are not
// merged with earlier ones.
func (h *History) SeparateRefusals() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.feed.rings[anonymous].entries {
		e.since = time.Time{}
	}
}

// mergeTarget returns the entry that a refusal without a known write key is merged into, or nil.
func (h *History) mergeTarget(r event.Refusal) *entry {
	for _, e := range slices.Backward(h.feed.rings[anonymous].entries) {
		if e.Refusal.Code == r.Code && r.At.Sub(e.since) < mergeInterval {
			return e
		}
	}
	return nil
}

// readRejected returns the readable part of a rejected call.
func readRejected(r tracking.Rejection) *tracking.Call {
	c := &tracking.Call{Source: r.Source, ReceivedAt: r.ReceivedAt, Body: r.Body}
	for m := range jsonscan.Members(r.Body) {
		if field := event.TextOf(c, fields.Of(m.Key)); field != nil {
			*field = fields.Text(m.Value)
		}
	}
	c.Type = r.Type // the type may be known only from the endpoint
	return c
}
