package history

import (
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A CallFilter picks calls. A zero field picks all; a call is picked if every
// other field agrees.
type CallFilter struct {
	IDs     []string // messageIds: any of them
	Sources []string // any of them
	Types   []string // any of them
	Event   string   // the event of a track call, or the name of a page or screen
	UserID  string   // the userId or the anonymousId
	Text    string   // anywhere in the body, as it is written there; ASCII letters in either case
	Since   time.Time
	Until   time.Time // exclusive; both are of ReceivedAt

	picked map[event.Key]bool // these alone, unless it is nil
}

// PickOnly makes the filter pick none but these calls.
func (f *CallFilter) PickOnly(calls map[event.Key]bool) { f.picked = calls }

// Matches reports whether the filter picks a call.
func (f *CallFilter) Matches(c *tracking.Call) bool {
	switch {
	case f.picked != nil && !f.picked[event.KeyOf(c.Source, c.ID)],
		len(f.IDs) > 0 && !slices.Contains(f.IDs, c.ID),
		len(f.Sources) > 0 && !slices.Contains(f.Sources, c.Source),
		len(f.Types) > 0 && !slices.Contains(f.Types, c.Type),
		f.Event != "" && f.Event != c.Event && f.Event != c.Name,
		f.UserID != "" && f.UserID != c.UserID && f.UserID != c.AnonymousID,
		!f.Since.IsZero() && c.ReceivedAt.Before(f.Since),
		!f.Until.IsZero() && !c.ReceivedAt.Before(f.Until):
		return false
	}
	return f.Text == "" || text.ContainsFold(c.Body, []byte(f.Text))
}

// historyChunk is how many records are copied in one go, so that a search does
// not hold up what is to be recorded.
const historyChunk = 256

// Page returns up to limit records that match, newest first, of those with a Seq
// below before, or of all where before is 0. It also reports whether there are
// more. A nil match takes all.
func (h *History) Page(before int64, limit int, match func(*tracking.Record) bool) (page []tracking.Record, more bool) {
	for r := range h.Backward(before) {
		if match != nil && !match(&r) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, r)
	}
	return page, false
}

// Backward yields the records below before, newest first, without the lock held.
func (h *History) Backward(before int64) func(yield func(tracking.Record) bool) {
	return func(yield func(tracking.Record) bool) {
		for {
			chunk := h.below(before)
			if len(chunk) == 0 {
				return
			}
			for _, r := range slices.Backward(chunk) {
				if !yield(r) {
					return
				}
			}
			before = chunk[0].Seq
		}
	}
}

// below returns the newest records with a Seq below before, or of all where before is
// 0, oldest first.
func (h *History) below(before int64) []tracking.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before <= 0 {
		before = h.lastSeq + 1
	}
	sent, made := h.sent.entries[:h.sent.from(before)], h.made.entries[:h.made.from(before)]
	chunk := make([]tracking.Record, min(len(sent)+len(made), historyChunk))
	for i := range slices.Backward(chunk) {
		newest := &sent
		if len(sent) == 0 || len(made) > 0 && made[len(made)-1].Seq > sent[len(sent)-1].Seq {
			newest = &made
		}
		chunk[i] = snapshot(&(*newest)[len(*newest)-1].Record)
		*newest = (*newest)[:len(*newest)-1]
	}
	return chunk
}

// Find returns the record of a call.
func (h *History) Find(source, messageID string) (tracking.Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byCall[event.KeyOf(source, messageID)]
	if e == nil {
		return tracking.Record{}, false
	}
	return snapshot(&e.Record), true
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
