package inspector

import (
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
)

// listRows is the number of rows per page.
const listRows = 200

// A list is a page of rows.
type list struct {
	Rows    []rows.Row
	Matched int
	Total   int
	Older   int64 // value of Before for the next page; 0 on the last page
	Before  int64 // the page shows items with a smaller order; 0 for the live page
	Filter  rows.Filter
	From    string // position where a stream continues
	// RejectedSince is the time since which rejected calls are listed. It is zero if the search
	// is not for rejected calls.
	RejectedSince time.Time
}

// NothingShown returns the text to display for an empty list.
func (l list) NothingShown() string {
	switch {
	case l.Filter.Problem != nil:
		return "The search is invalid."
	case l.Filter.Empty():
		return "No calls yet. New calls appear here."
	}
	return "No matching calls. New matches appear here."
}

// Hidden returns the number of items that do not match the filter.
func (l list) Hidden() int { return l.Total - l.Matched }

// list returns the newest matching rows and the numbers of items. If before is positive, it returns
// only items with a smaller order.
func (in *Inspector) list(filter rows.Filter, before int64) list {
	h := in.c.History()
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	end, held := h.End()
	l := list{Filter: filter, Before: before, From: end.String(), Total: held}
	if slices.ContainsFunc(filter.Query, func(t search.Term) bool { return !t.Not && t.Field == "status" && t.Value == "rejected" }) {
		l.RejectedSince = h.RejectedSince()
	}
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
		// Without a filter, all items match, so Scan can stop early.
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

// count returns the number of matching items and of all items.
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
