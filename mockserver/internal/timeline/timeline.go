package timeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// MaxCalls is the maximum number of calls in a timeline.
	MaxCalls = 5000
	// maxIdentifyCalls is the maximum number of identify calls that are read before a window.
	maxIdentifyCalls = 1000
)

// A Timeline is a window of the calls of one user, oldest first.
type Timeline struct {
	IDs     []ID `json:"ids"`     // linked IDs; the requested ID is the first
	MoreIDs bool `json:"moreIds"` // whether there are more than MaxIDs

	Entries []Entry `json:"-"`
	From    int     `json:"offset"` // number of calls before the window
	Total   int     `json:"total"`  // number of calls, at most MaxCalls
	Older   int     `json:"older"`  // number of older calls beyond MaxCalls

	Traits        json.RawMessage `json:"traits"`        // traits after the last entry, as a JSON object
	PartialTraits bool            `json:"partialTraits"` // some traits may be missing, because not all identify calls were read or there are too many traits

	End      int64 `json:"-"`         // order of the newest item at the time of Read
	Retained int   `json:"-"`         // number of items in the history, for all users
	Expired  int64 `json:"forgotten"` // number of expired calls, for all users
}

// An Entry is a call of a timeline.
type Entry struct {
	history.Item
	At     time.Time     // time of the call; see Happened
	Gap    time.Duration // time since the previous call; 0 for the first one
	Late   time.Duration // time between the call and its arrival
	Link   *Link         // link that the call created, or nil
	Traits *Changes      // changes by an identify call with traits
}

// Read returns size calls of the user who has an ID, starting at index from. If from is negative, it
// returns the newest size calls. If the ID is empty, the result is empty.
func Read(h *history.History, id string, from, size int) Timeline {
	end, count := h.End()
	t := Timeline{End: end.Order, Retained: count, Expired: h.Expired()}
	if id == "" {
		return t
	}
	t.IDs, t.MoreIDs = linkedIDs(id, links(h, end.Order+1))
	calls := t.collect(h)
	t.Total = len(calls)
	if from < 0 {
		from = t.Total - size
	}
	from = min(max(from, 0), t.Total)
	t.From = from
	window := calls[from:min(from+size, t.Total)]
	traits := t.traitsBefore(calls[:from])
	for i := range window {
		var before *history.Item
		if from+i > 0 {
			before = &calls[from+i-1]
		}
		t.Entries = append(t.Entries, newEntry(&window[i], before, traits))
	}
	t.Traits, t.PartialTraits = traits.JSON(), t.PartialTraits || traits.truncated
	return t
}

// collect returns the user's calls, oldest first.
func (t *Timeline) collect(h *history.History) []history.Item {
	own := idSet(t.IDs)
	var calls []history.Item
	h.Scan(t.End+1, func(i *history.Item) bool {
		switch {
		case !hasID(i.Call(), own):
		case len(calls) == MaxCalls:
			t.Older++
		default:
			calls = append(calls, i.Snapshot())
		}
		return true
	})
	slices.SortFunc(calls, func(a, b history.Item) int {
		return cmp.Or(Happened(&a).Compare(Happened(&b)), cmp.Compare(a.Order, b.Order))
	})
	return calls
}

// traitsBefore returns the traits that result from calls.
func (t *Timeline) traitsBefore(calls []history.Item) *Traits {
	var identifies []*tracking.Call
	for i := range calls {
		if isIdentify(&calls[i]) {
			identifies = append(identifies, &calls[i].Record.Call)
		}
	}
	skipped := max(0, len(identifies)-maxIdentifyCalls)
	t.PartialTraits = skipped > 0 || t.Older > 0
	traits := &Traits{}
	for _, c := range identifies[skipped:] {
		traits.set(traitsOf(c.Body))
	}
	return traits
}

func isIdentify(i *history.Item) bool {
	return i.Record != nil && i.Record.Call.Type == "identify"
}

func newEntry(i, before *history.Item, traits *Traits) Entry {
	e := Entry{Item: *i, At: Happened(i)}
	if before != nil {
		e.Gap = e.At.Sub(Happened(before))
	}
	e.Late = max(0, i.At().Sub(e.At))
	if i.Record == nil {
		return e
	}
	if l, ok := linkOf(&i.Record.Call); ok {
		e.Link = &l
	}
	if isIdentify(i) {
		e.Traits = traits.apply(i.Record.Call.Body)
	}
	return e
}

// Happened returns the corrected timestamp of a call, or its arrival if the timestamp is missing.
func Happened(i *history.Item) time.Time {
	if at := i.Call().Timestamp; !at.IsZero() {
		return at
	}
	return i.At()
}

// CountSince returns the number of calls that contain an ID and arrived after the item with an order.
func CountSince(h *history.History, id string, order int64) (n int) {
	end, _ := h.End()
	if end.Order <= order || id == "" {
		return 0
	}
	ids, _ := linkedIDs(id, links(h, end.Order+1))
	own := idSet(ids)
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if i.Order > order && hasID(i.Call(), own) {
			n++
		}
		return i.Order > order
	})
	return n
}

func idSet(ids []ID) map[string]bool {
	texts := make(map[string]bool, len(ids))
	for _, id := range ids {
		texts[id.ID] = true
	}
	return texts
}

// hasID reports whether a call contains one of the IDs.
func hasID(c *tracking.Call, ids map[string]bool) bool {
	return ids[c.UserID] || ids[c.AnonymousID] || ids[c.PreviousID]
}
