package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/timeline"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A timelineView is a page of a user's calls.
type timelineView struct {
	IDs           []timeline.ID   `json:"ids"`
	MoreIDs       bool            `json:"moreIds"`
	Calls         []timelineEntry `json:"calls"`
	Offset        int             `json:"offset"`
	Total         int             `json:"total"`
	Older         int             `json:"older"`
	Traits        json.RawMessage `json:"traits"`
	PartialTraits bool            `json:"partialTraits"`
	Forgotten     int64           `json:"forgotten"`
}

// A timelineEntry is an accepted or rejected call.
type timelineEntry struct {
	At        time.Time           `json:"at"`
	Call      *export.Call        `json:"call,omitempty"`
	Rejection *tracking.Rejection `json:"rejection,omitempty"`
	Changes   []jsondiff.Line     `json:"changes,omitempty"` // changes of one trait or of a field in it
	Further   int                 `json:"furtherChanges,omitempty"`
}

// getTimeline returns a page of a user's calls, oldest first.
func (a *admin) getTimeline(r *http.Request) (any, error) {
	q, limit, offset := newQuery(r), defaultPage, -1
	q.int("limit", &limit, 1, maxPage)
	q.int("offset", &offset, 0, 1<<30)
	if err := q.done(); err != nil {
		return nil, err
	}
	t := timeline.Read(a.c.History(), r.PathValue("user"), offset, limit)
	view := timelineView{
		IDs: t.IDs, MoreIDs: t.MoreIDs, Calls: []timelineEntry{}, Offset: t.From, Total: t.Total, Older: t.Older,
		Traits: t.Traits, PartialTraits: t.PartialTraits, Forgotten: t.Expired,
	}
	destinations := a.c.Attached()
	for i := range t.Entries {
		view.Calls = append(view.Calls, viewEntry(&t.Entries[i], destinations))
	}
	return view, nil
}

func viewEntry(e *timeline.Entry, destinations []engine.AttachedDestination) timelineEntry {
	v := timelineEntry{At: e.At}
	if e.Rejection != nil {
		v.Rejection = e.Rejection
		return v
	}
	call := export.NewCall(e.Record, destinations)
	call.Body = e.Record.Call.Body
	v.Call = &call
	if e.Traits != nil {
		v.Further, v.Changes = e.Traits.More, e.Traits.Lines
	}
	return v
}
