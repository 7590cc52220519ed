package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// MaxCalls bounds how many calls of one user are put in order.
	MaxCalls = 5000
	// maxIdentifyCalls bounds how many identify calls before a window are read for the traits.
	maxIdentifyCalls = 1000
)

// A Timeline is a window of the calls of one user, in the order in which they happened.
type Timeline struct {
	IDs     []ID // the one that was asked for is the first
	MoreIDs bool // there are more than MaxIDs

	Entries []Entry
	From    int // how many calls of the user are before the window
	Total   int // how many there are that were put in order
	Older   int // how many came before them, and were not: there were more than MaxCalls

	Traits        []byte // as they stand after the last entry, a JSON object
	PartialTraits bool   // some are not known: identify calls before were not read, or there are too many

	End      int64 // the Order of the newest item when this was read
	Retained int   // how many items the history has, of everyone
	Expired  int64 // how many calls it had and has not any more, of everyone
}

// An Entry is a call in a timeline.
type Entry struct {
	history.Item
	At     time.Time     // when it happened
	Gap    time.Duration // since the entry before happened; 0 for the first of all
	Late   time.Duration // how long after it happened it came
	Link   *Link         // which ids it joins
	Traits *Changes      // of an identify call that has some
}

// Read returns size calls of the user with an id, the first of them after the oldest from.
// Where from is negative, they are the newest size calls. Nobody has an empty id.
func Read(h *history.History, id string, from, size int) Timeline {
	end, kept := h.End()
	t := Timeline{End: end.Order, Retained: kept, Expired: h.Expired()}
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

// collect returns the user's calls in the order in which they happened.
func (t *Timeline) collect(h *history.History) []history.Item {
	mine := idSet(t.IDs)
	var calls []history.Item
	h.Scan(t.End+1, func(i *history.Item) bool {
		switch {
		case !hasID(i.Call(), mine):
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

// traitsBefore returns the traits that calls have set.
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

// Happened returns when a call happened: as its corrected timestamp says, or when it came
// where it has none.
func Happened(i *history.Item) time.Time {
	if at := i.Call().Timestamp; !at.IsZero() {
		return at
	}
	return i.At()
}

// CountSince returns how many calls of the user with an id came after the item of an order.
func CountSince(h *history.History, id string, order int64) (n int) {
	end, _ := h.End()
	if end.Order <= order || id == "" {
		return 0
	}
	ids, _ := linkedIDs(id, links(h, end.Order+1))
	mine := idSet(ids)
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if i.Order > order && hasID(i.Call(), mine) {
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

// isOf reports whether a call names one of the ids.
func hasID(c *tracking.Call, ids map[string]bool) bool {
	return ids[c.UserID] || ids[c.AnonymousID] || ids[c.PreviousID]
}
