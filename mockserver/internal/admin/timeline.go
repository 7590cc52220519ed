package admin

import (
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
	timeline.Timeline
	Calls []timelineEntry `json:"calls"`
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
	view := timelineView{timeline.Read(a.c.History(), r.PathValue("user"), offset, limit), []timelineEntry{}}
	destinations := a.c.Attached()
	for i := range view.Entries {
		view.Calls = append(view.Calls, viewEntry(&view.Entries[i], destinations))
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
