package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	defaultReceived = 100 // items per page
	// maxMemberPath limits the number of names in a parameter such as properties.plan.
	maxMemberPath = 20
)

// shows reports whether tests can see an item. They see the items that this process received
// after the last reset. The history can also contain calls from a previous run, if they were
// attempted again.
func (a *admin) shows(i *history.Item) bool {
	return i.Order > a.resets.of(i.Call().Source) && !i.At().Before(a.c.Started())
}

// A receivedView is an accepted call, a rejected call or a refused request.
type receivedView struct {
	Good       bool                 `json:"good"`
	Source     string               `json:"source,omitempty"`
	ReceivedAt time.Time            `json:"receivedAt"`
	Code       tracking.Code        `json:"code,omitempty"` // set if the call or request was not accepted
	Field      string               `json:"field,omitempty"`
	Reason     string               `json:"reason,omitempty"`
	Hint       string               `json:"hint,omitempty"`
	Violations []tracking.Violation `json:"violations,omitempty"`
	Sender     tracking.Sender      `json:"sender,omitzero"`   // set for rejections and refusals
	Request    *requestView         `json:"request,omitempty"` // set for refused requests
	Call       json.RawMessage      `json:"call,omitempty"`
	Body       string               `json:"body,omitempty"` // replaces Call if the body is not a JSON object
}

// A requestView is a refused request or a group of similar requests.
type requestView struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Status int    `json:"status"`
	Count  int    `json:"count"` // greater than 1 for grouped requests without a known write key
}

func viewReceived(i *history.Item) receivedView {
	v := receivedView{Source: i.Call().Source, ReceivedAt: i.At()}
	p := i.Problem()
	if p == nil {
		v.Good, v.Call, v.Violations = true, i.Record.Call.Body, i.Record.Call.Violations
		return v
	}
	v.Code, v.Field, v.Reason, v.Violations = p.Code, p.Field, p.Message, p.Violations
	v.Hint, v.Sender = event.HintOf(p.Code), p.Sender
	if f := i.Refusal; f != nil {
		v.Request = &requestView{f.Method, f.Path, f.Status, f.Count}
	} else if body, err := jsondiff.Decode(p.Body); err == nil && jsondiff.TypeOf(body) == "object" {
		v.Call = p.Body
		return v
	}
	v.Body = text.Valid(p.Body)
	return v
}

// listReceived lists accepted and rejected calls, oldest first.
func (a *admin) listReceived(r *http.Request, good, bad bool) (any, error) {
	q := newQuery(r)
	filter, limit, after := history.CallFilter{}, defaultReceived, history.Cursor{}
	q.filter(&filter)
	q.writeKey(a.c, &filter.Sources)
	members := q.members()
	q.int("limit", &limit, 1, maxPage)
	end, _ := a.c.History().End()
	q.after(end, &after)
	if err := q.done(); err != nil {
		return nil, err
	}
	response := struct {
		Calls []receivedView `json:"calls"`
		More  bool           `json:"more"`
		Next  string         `json:"next"` // value of the parameter after for the next page
	}{Calls: []receivedView{}}
	for item := range a.c.History().Forward(after.Order) {
		isGood := item.Record != nil
		if isGood && !good || !isGood && !bad || !a.shows(&item) || !picks(&filter, members, &item) {
			after.Order = item.Order
			continue
		}
		if len(response.Calls) == limit {
			response.More = true
			break
		}
		after.Order = item.Order
		response.Calls = append(response.Calls, viewReceived(&item))
	}
	response.Next = after.String()
	return response, nil
}

// picks reports whether an item matches the filter and has all required fields.
func picks(f *history.CallFilter, members []member, i *history.Item) bool {
	if !f.Matches(i.Call()) {
		return false
	}
	if len(members) == 0 {
		return true
	}
	body, _ := jsondiff.Decode(i.Call().Body) // invalid JSON has no fields
	return !slices.ContainsFunc(members, func(m member) bool { return !hasText(body, m.path, m.text) })
}

// A member is a field that a call must have, with its value as a string.
type member struct {
	path []string
	text string
}

// hasText reports whether v has a field at the path with this value. Field names may contain dots.
func hasText(v any, path []string, text string) bool {
	if len(path) == 0 {
		if s, ok := v.(string); ok {
			return s == text
		}
		want, err := jsondiff.Decode([]byte(text))
		return err == nil && jsondiff.TypeOf(v) != "object" && len(jsondiff.Compare(v, want, false).Lines) == 0
	}
	object, _ := v.(map[string]any)
	for n := 1; n <= len(path); n++ {
		if value, ok := object[strings.Join(path[:n], ".")]; ok && hasText(value, path[n:], text) {
			return true
		}
	}
	return false
}

// A resetView reports the result of a reset.
type resetView struct {
	Good    int    `json:"good"`
	Bad     int    `json:"bad"`
	Pending int64  `json:"pending"` // number of pending deliveries, which continue
	Message string `json:"message"`
}

// reset hides earlier calls of one source, or of all sources, from tests. It does not affect
// deliveries or the inspector.
func (a *admin) reset(r *http.Request) (any, error) {
	q := newQuery(r)
	var sources []string
	var source string
	q.text("source", &source)
	q.writeKey(a.c, &sources)
	if err := q.done(); err != nil {
		return nil, err
	}
	if len(sources) > 0 {
		source = sources[0]
	}
	ledgers, err := a.c.Ledger(r.Context())
	if err != nil {
		return nil, err
	}
	view := resetView{Message: "Earlier calls are hidden from tests. Pending deliveries continue."}
	for _, l := range ledgers {
		view.Pending += l.Pending
	}
	a.c.History().SeparateRefusals()
	end, _ := a.c.History().End()
	for item := range a.c.History().Forward(a.resets.of(source)) {
		switch {
		case item.Order > end.Order || source != "" && item.Call().Source != source || !a.shows(&item):
		case item.Record != nil:
			view.Good++
		default:
			view.Bad++
		}
	}
	if !a.resets.set(source, end.Order) {
		return nil, access.Errorf(http.StatusTooManyRequests, "too_many_resets", "%d sources were reset individually; reset all sources with POST /reset without a source", maxResets)
	}
	return view, nil
}

// writeKey reads a write key and adds its source to sources.
func (q *query) writeKey(c *engine.Collector, sources *[]string) {
	var key string
	if q.text("writeKey", &key); key == "" {
		return
	}
	name, known := c.SourceOf(key)
	if !known {
		q.fail("writeKey", key, "use the write key of a source")
	}
	*sources = append(*sources, name)
}

// members reads parameters such as properties.plan.
func (q *query) members() (members []member) {
	for name := range q.values {
		path := strings.Split(name, ".")
		if len(path) == 1 || !slices.Contains([]string{"properties", "traits", "context"}, path[0]) {
			continue
		}
		for _, text := range q.take(name) {
			members = append(members, member{path, text})
		}
		if len(path) > maxMemberPath {
			q.fail(name, "", fmt.Sprintf("use a path of at most %d names", maxMemberPath))
		}
	}
	return members
}

// after reads the start position of a page. end is the current position. A position from
// another process is invalid.
func (q *query) after(end history.Cursor, after *history.Cursor) {
	*after = end
	after.Order = 0
	var s string
	if q.text("after", &s); s == "" {
		return
	}
	given := history.ParseCursor(s)
	after.Order = given.Order
	if given.Change = end.Change; given.Order < 0 || given != *after {
		q.fail("after", s, "use the next value of a page from this collector process, or omit it to start over")
	}
}
