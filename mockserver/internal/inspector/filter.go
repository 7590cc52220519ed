package inspector

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxFilterText bounds each field of a filter, in bytes.
const maxFilterText = 500

// A callFilter picks from the feed. Empty fields pick all.
type callFilter struct {
	Source string // its name
	Type   string
	Event  string // a part of the event's, page's or screen's name, in any case
	User   string // a part of one of the user's or group's IDs, in any case
	Status string // one of statuses
	Text   string // a part of the body or of what went wrong, in any case
	// Synthetic is hide where the collector's own calls are not to be shown.
	Synthetic string
}

// hideSynthetic is a choice of callFilter.Synthetic.
const hideSynthetic = "hide"

// A status is a choice of callFilter.Status.
type status struct{ Name, Label string }

var statuses = []status{
	{"delivered", "Delivered"}, {"pending", "Waiting"}, {"failed", "Failed"}, {"filtered", "Filtered"},
	{"unknown", "Not known"}, {"none", "No destination"}, {"rejected", "Rejected"}, {"repeated", "Sent again"},
}

func readFilter(q url.Values) callFilter {
	get := func(name string) string {
		value := q.Get(name)
		return strings.ToValidUTF8(value[:min(len(value), maxFilterText)], "")
	}
	return callFilter{
		Source: get("source"), Type: get("type"), Event: get("event"),
		User: get("user"), Status: get("status"), Text: get("text"), Synthetic: get("synthetic"),
	}
}

// Link returns the filter in the address of a page, as readFilter reads it, with further
// parameters: names and values in turn.
func (f callFilter) Link(path string, more ...string) string {
	q := url.Values{}
	for name, value := range f.Fields() {
		if value != "" {
			q.Set(name, value)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Fields returns the filter's fields by their names in a form.
func (f callFilter) Fields() map[string]string {
	return map[string]string{"source": f.Source, "type": f.Type, "event": f.Event, "user": f.User, "status": f.Status, "text": f.Text, "synthetic": f.Synthetic}
}

// Empty reports whether the filter picks all.
func (f callFilter) Empty() bool { return f == callFilter{} }

// matcher returns the filter as a function. It is called with the History's lock
// held.
func (f callFilter) matcher(destinations []engine.AttachedDestination) func(*history.Item) bool {
	if f.Empty() {
		return func(*history.Item) bool { return true }
	}
	event, user, text := strings.ToLower(f.Event), strings.ToLower(f.User), strings.ToLower(f.Text)
	return func(i *history.Item) bool {
		c := i.Call()
		return (f.Source == "" || c.Source == f.Source) &&
			(f.Type == "" || c.Type == f.Type) &&
			(event == "" || anyContains(event, c.Event, c.Name)) &&
			(user == "" || anyContains(user, c.UserID, c.AnonymousID, c.GroupID, c.PreviousID)) &&
			(f.Synthetic != hideSynthetic || !history.IsSynthetic(c)) &&
			(f.Status == "" || hasStatus(i, f.Status, destinations)) &&
			(text == "" || containsText(i, text))
	}
}

func anyContains(lower string, values ...string) bool {
	return slices.ContainsFunc(values, func(value string) bool { return strings.Contains(strings.ToLower(value), lower) })
}

func hasStatus(i *history.Item, status string, destinations []engine.AttachedDestination) bool {
	if i.Record == nil {
		return status == "rejected"
	}
	switch status {
	case "rejected":
		return false
	case "repeated":
		return i.Record.Repeats > 0
	}
	states := deliveryStatesOf(i.Record, destinations)
	if status == "none" {
		return len(states) == 0
	}
	return slices.ContainsFunc(states, func(s deliveryState) bool { return s.state() == status })
}

// containsText looks into the body, and into what went wrong.
func containsText(i *history.Item, lower string) bool {
	switch {
	case i.Refusal != nil:
		return anyContains(lower, string(i.Refusal.Code), i.Refusal.Message, i.Refusal.Path)
	case i.Rejection != nil:
		return anyContains(lower, string(i.Rejection.Code), i.Rejection.Message) || bodyContains(i.Rejection.Body, lower)
	}
	return bodyContains(i.Record.Call.Body, lower) ||
		slices.ContainsFunc(i.Record.Ends, func(e tracking.Ended) bool { return anyContains(lower, e.Reason) })
}

// bodyContains looks for a lower-case text in JSON, whether its letters are
// escaped there or not.
func bodyContains(body []byte, lower string) bool {
	if !strings.ContainsFunc(lower, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return text.ContainsFold(body, []byte(lower))
	}
	if bytes.Contains(body, []byte(`\u`)) {
		if plain, err := webhook.Canonical(nil, body); err == nil {
			body = plain
		}
	}
	return bytes.Contains(bytes.ToLower(body), []byte(lower))
}
