package rows

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilterMatches(t *testing.T) {
	destinations := []engine.AttachedDestination{{Destination: tracking.Destination{Name: "hook"}}, {Destination: tracking.Destination{Name: "ios", Sources: []string{"ios"}}}}
	record := func(change func(*tracking.Record)) *history.Item {
		r := &tracking.Record{Call: tracking.Call{Source: "web", Type: "track", Event: "Order Completed", UserID: "ada", Body: []byte(`{"city":"Z\u00fcrich","plan":"PRO"}`)}}
		change(r)
		return &history.Item{Record: r}
	}
	plain := record(func(*tracking.Record) {})
	failed := record(func(r *tracking.Record) {
		r.Ends = []tracking.Ended{{Destination: "hook", Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: "responded with 410"}}}
	})
	rejected := &history.Item{Rejection: &tracking.Rejection{Code: tracking.CodeNoUser, Message: "a call needs a userId", Body: []byte(`{"type":"page","name":"Docs","properties":{"path":"/"}}`)}, Read: &tracking.Call{Type: "page", Name: "Docs", Body: []byte(`{"type":"page","name":"Docs","properties":{"path":"/"}}`)}}
	refused := &history.Item{Refusal: &event.Refusal{Code: tracking.CodeInvalidJSON, Status: 400, Path: "/v1/batch"}}
	answered := record(func(r *tracking.Record) {
		r.Repeats = 1
		r.Call.ID, r.Call.Violations = "audience-1", []tracking.Violation{{}}
		r.Ends = []tracking.Ended{{Destination: "hook", Outcome: tracking.Outcome{State: tracking.StateFailed}}}
		r.Attempts = []tracking.Attempt{
			{Destination: "hook", Attempt: webhook.Attempt{Status: 404, Time: time.Unix(2, 0)}}, {Destination: "hook", Attempt: webhook.Attempt{Status: 503, Time: time.Unix(1, 0)}},
		}
		r.Call.ReceivedAt = time.Now().Add(-time.Hour)
	})
	all := []*history.Item{plain, failed, rejected, refused, answered}
	for name, c := range map[string]struct {
		address string
		want    []*history.Item
	}{
		"none":                       {"", all},
		"source":                     {"source=web", []*history.Item{plain, failed, answered}},
		"type":                       {"type=page", []*history.Item{rejected}},
		"event":                      {"event=COMPLETED", []*history.Item{plain, failed, answered}},
		"page":                       {"event=docs", []*history.Item{rejected}},
		"user":                       {"user=AD", []*history.Item{plain, failed, answered}},
		"failed":                     {"status=failed", []*history.Item{failed, answered}},
		"pending":                    {"status=pending", []*history.Item{plain}},
		"rejected":                   {"status=rejected", []*history.Item{rejected, refused}},
		"nonsense":                   {"status=nonsense", nil},
		"text":                       {"text=PLAN", []*history.Item{plain, failed, answered}},
		"escaped":                    {"text=ZÜRICH", []*history.Item{plain, failed, answered}},
		"reason":                     {"text=410", []*history.Item{failed}},
		"code":                       {"text=invalid_json", []*history.Item{refused}},
		"two parameters":             {"event=order&status=failed", []*history.Item{failed, answered}},
		"own calls are hidden":       {"synthetic=hide", all},
		"a search":                   {"q=type:track+-status:failed", []*history.Item{plain}},
		"a search and a parameter":   {"q=city&status=failed", []*history.Item{failed, answered}},
		"words in any order":         {"q=PLAN+city", []*history.Item{plain, failed, answered}},
		"exact match":                {"q=event:%3DOrder", nil},
		"the last answer":            {"q=status:404", []*history.Item{answered}},
		"an answer before":           {"q=status:503", nil},
		"a class of answers":         {"q=status:4xx", []*history.Item{refused, answered}},
		"at a destination":           {"q=destination:hook+status:4xx", []*history.Item{answered}},
		"at another destination":     {"q=destination:ios", nil},
		"at no such destination":     {"q=destination:crm+status:none", nil},
		"no destinations by a minus": {"q=-destination:hook", []*history.Item{rejected, refused}},
		"sent again":                 {"q=status:repeated", []*history.Item{answered}},
		"unplanned":                  {"q=is:unplanned", []*history.Item{answered}},
		"a messageId":                {"q=id:AUDIENCE", []*history.Item{answered}},
		"a member of a rejected":     {"q=prop.path:*", []*history.Item{rejected}},
		"since":                      {"q=since:90m", []*history.Item{answered}},
		"until":                      {"q=until:90m", []*history.Item{plain, failed, rejected, refused}},
		"a search that is wrong":     {"q=evnt:x", nil},
		"a time that is wrong":       {"since=yesterday", nil},
	} {
		values, err := url.ParseQuery(c.address)
		require.NoError(t, err)
		filter := ReadFilter(values)
		match := filter.Matcher(destinations)
		var got []*history.Item
		for _, i := range all {
			if match(i) {
				got = append(got, i)
			}
		}
		assert.Equal(t, c.want, got, name)
		again, err := url.Parse(filter.Link("/", "call", "x"))
		require.NoError(t, err)
		assert.Equal(t, filter.Search(), ReadFilter(again.Query()).Search(), name)
	}
}

// TestConditionsOfOneFieldMustAllHold checks that a call must satisfy all terms of a field. Two
// states of a call can be states at different destinations.
func TestConditionsOfOneFieldMustAllHold(t *testing.T) {
	call := &history.Item{Record: &tracking.Record{Call: tracking.Call{Event: "Order Completed"}, Ends: []tracking.Ended{
		{Destination: "crm", Outcome: tracking.Outcome{State: tracking.StateFailed}},
		{Destination: "hook", Outcome: tracking.Outcome{State: tracking.StateDelivered}},
	}}}
	for search, want := range map[string]bool{
		"event:Order event:Completed":                      true,
		"event:Order event:Tested":                         false,
		"status:failed status:delivered":                   true,
		"status:failed status:pending":                     false,
		"destination:crm destination:hook":                 true,
		"destination:crm destination:ads":                  false,
		"destination:crm status:delivered":                 false,
		"destination:crm destination:hook status:failed":   true,
		"destination:crm destination:hook status:none":     false,
		"destination:crm destination:hook -status:pending": true,
	} {
		assert.Equal(t, want, ReadFilter(url.Values{"q": {search}}).Matcher(nil)(call), search)
	}
}

func TestConditionsAndRanges(t *testing.T) {
	f := ReadFilter(url.Values{"q": {`event:"Signed Up" since:1h`}, "user": {"ada"}})
	assert.Equal(t, `event:"Signed Up" since:1h user:ada`, f.Search())
	assert.Equal(t, []Condition{
		{`event:"Signed Up"`, "/?q=since%3A1h+user%3Aada"}, {"since:1h", "/?q=event%3A%22Signed+Up%22+user%3Aada"}, {"user:ada", "/?q=event%3A%22Signed+Up%22+since%3A1h"},
	}, f.Conditions())
	assert.Equal(t, "Last hour", f.RangeLabel())
	assert.Equal(t, Choice{Label: "Any time", Href: "/?q=event%3A%22Signed+Up%22+user%3Aada"}, f.Ranges()[0])
	assert.Equal(t, `event:"Signed Up" user:ada`, f.Timeless())
	assert.Equal(t, "Any time", Filter{}.RangeLabel())
	assert.Equal(t, "Custom", ReadFilter(url.Values{"q": {"until:1h"}}).RangeLabel())
	assert.Equal(t, "/?q=-is%3Aown", Filter{}.HideSynthetic().Link("/"))
	assert.True(t, Filter{}.HideSynthetic().FiltersSynthetic())
	assert.Equal(t, "/?q=user%3A%3Dada", By("user", "ada").Link("/"))
	wrong := ReadFilter(url.Values{"q": {"user:"}})
	assert.Equal(t, 1, wrong.Problem.At)
	assert.Equal(t, "/?q=user%3A", wrong.Link("/"))
	assert.False(t, wrong.Empty())
}

func TestUnknownDestinationIsAProblem(t *testing.T) {
	check := func(name string) (problem, hint string) {
		if name == "crm" {
			return "", ""
		}
		return "no destination is named " + name, "the destinations are crm"
	}
	for written, at := range map[string]int{
		"destination:nope": 1, "user:ä destination:crm -destination:=nope x": 24, "destination:crm": 0, "destination:*": 0, "nope": 0,
	} {
		f := ReadFilter(url.Values{"q": {written}})
		f.CheckDestinations(check)
		assert.Equal(t, written, f.Search())
		if at == 0 {
			assert.Nil(t, f.Problem, written)
			continue
		}
		assert.Equal(t, &search.Error{At: at, Problem: "no destination is named nope", Hint: "the destinations are crm"}, f.Problem, written)
	}
}

func TestPreviewOfProperties(t *testing.T) {
	long := strings.Repeat("x", 100)
	for body, want := range map[string]string{
		`{"type":"track","properties":{"plan":"Pro","total":129.50,"vip":true,"none":null,"cart":{"a":1},"items":[1]},"traits":{"a":1}}`: "plan: Pro  total: 129.50  vip: true  none: null  cart: {…}  items: […]",
		`{"type":"track","properties":{}}`:                                                            "",
		`{"type":"track","properties":"x"}`:                                                           "",
		`{"type":"track","properties":{"a\nb":"\u00e4\ud83d"}}`:                                       "a\nb: ä\uFFFD",
		`{"type":"track","properties":{"` + long + `":"` + long + `"}}`:                               strings.Repeat("x", 40) + "…: " + strings.Repeat("x", 40) + "…",
		`{"type":"track","properties":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}}`: "a: 1  b: 1  c: 1  d: 1  e: 1  f: 1  g: 1  h: 1 …",
		`{"properties":{"a":`:                                                                         "",
	} {
		assert.Equal(t, want, previewOf("track", []byte(body)), body)
	}
	assert.Equal(t, "plan: Pro", previewOf("identify", []byte(`{"properties":{"a":1},"traits":{"plan":"Pro"}}`)))
}

func TestRowNamesTheMostUrgentDestinations(t *testing.T) {
	ended := func(name string, state tracking.State, attempt int, reason string) tracking.Ended {
		return tracking.Ended{Destination: name, Attempt: attempt, Outcome: tracking.Outcome{State: state, Reason: reason}}
	}
	r := &tracking.Record{
		Ends: []tracking.Ended{
			ended("warehouse", tracking.StateDelivered, 1, ""), ended("ios", tracking.StateFiltered, 0, "not connected"), ended("hook", tracking.StatePending, 2, ""),
			ended("crm", tracking.StateFailed, 1, ""), ended("ads", tracking.StateFailed, 1, ""),
		},
		Attempts: []tracking.Attempt{
			{Destination: "crm", Attempt: webhook.Attempt{Status: 503}}, {Destination: "crm", Attempt: webhook.Attempt{Status: 400}}, {Destination: "ads", Attempt: webhook.Attempt{Status: 404}},
			{Destination: "hook", Attempt: webhook.Attempt{Reason: webhook.ReasonSelfSigned}}, {Destination: "warehouse", Attempt: webhook.Attempt{Status: 200}},
		},
	}
	var row Row
	row.addStates(r, nil)
	assert.Equal(t, &Chip{"failed", "crm 400, ads 404"}, row.Chip)
	assert.Equal(t, 3, row.Others)
	assert.Equal(t, "retrying", row.Next)
	assert.Equal(t, "crm: failed 400\nads: failed 404\nhook: retrying self signed\nwarehouse: delivered\nios: filtered, not connected", row.States)

	r.Ends[4].Destination = "a considerably longer name"
	row = Row{}
	row.addStates(r, nil)
	assert.Equal(t, "crm 400", row.Chip.Label, "the other name does not fit")
	assert.Equal(t, 4, row.Others)

	row = Row{}
	row.addStates(&tracking.Record{}, nil)
	assert.Equal(t, Row{}, row, "no destinations")
}
