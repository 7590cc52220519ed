package inspector

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
)

// listRows is how many rows a list shows.
const listRows = 200

// A list is what the page of calls shows.
type list struct {
	Rows    []rows.Row
	Matched int
	Total   int
	Older   int64 // the order before which an older page begins; 0 where there is none
	Before  int64 // the order before which this page begins; 0 for the live one
	Filter  rows.Filter
	From    string // the feed's position, for a stream to go on from
}

// NothingShown says why the list is empty.
func (l list) NothingShown() string {
	switch {
	case l.Filter.Problem != nil:
		return "The search is invalid."
	case l.Filter.Empty():
		return "No calls yet. New calls appear here."
	}
	return "No matching calls. New matches appear here."
}

// Hidden is how many items the filter hides.
func (l list) Hidden() int { return l.Total - l.Matched }

// list looks up the newest rows before an order, and counts.
func (in *Inspector) list(filter rows.Filter, before int64) list {
	h := in.c.History()
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	end, held := h.End()
	l := list{Filter: filter, Before: before, From: end.String(), Total: held}
	var shown []history.Item
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if !match(i) {
			return true
		}
		l.Matched++
		if before > 0 && i.Order >= before {
			return true
		}
		if len(shown) == listRows {
			l.Older = shown[listRows-1].Order
		} else {
			shown = append(shown, i.Snapshot())
		}
		// Without a filter all match, and there is nothing to count.
		return l.Older == 0 || !filter.Empty()
	})
	if filter.Empty() {
		l.Matched = l.Total
	}
	for i := range shown {
		l.Rows = append(l.Rows, rows.New(h, &shown[i], filter, destinations))
	}
	return l
}

// count returns how many items match, of how many.
func (in *Inspector) count(filter rows.Filter, match func(*history.Item) bool) (matched, total int) {
	end, total := in.c.History().End()
	if filter.Empty() {
		return total, total
	}
	in.c.History().Scan(end.Order+1, func(i *history.Item) bool {
		if match(i) {
			matched++
		}
		return true
	})
	return matched, total
}
