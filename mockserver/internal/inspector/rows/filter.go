package rows

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxFilterText limits a URL parameter, in bytes.
const maxFilterText = 500

// A Filter selects items of the feed. The zero value selects all items.
type Filter struct {
	Query search.Query
	// Problem is the error of an invalid search, and Written is the text of that search. An
	// invalid search selects no items.
	Problem *search.Error
	Written string
}

// By returns a filter with exact values. terms are pairs of fields and values; empty values
// are ignored.
func By(terms ...string) Filter {
	var f Filter
	for i := 0; i+1 < len(terms); i += 2 {
		if terms[i+1] != "" {
			f.Query = append(f.Query, search.Term{Field: terms[i], Op: search.OpEqual, Value: terms[i+1]})
		}
	}
	return f
}

// singles are the URL parameters that represent one search term each.
var singles = []string{"source", "type", "event", "user", "status", "since", "until"}

// ReadFilter reads a filter from URL or form values: the search q, and parameters that
// represent one search term each.
func ReadFilter(q url.Values) Filter {
	get := func(name string) string {
		value := q.Get(name)
		return strings.TrimSpace(strings.ToValidUTF8(value[:min(len(value), maxFilterText)], ""))
	}
	var terms search.Query
	for _, name := range singles {
		if value := get(name); value != "" {
			terms = append(terms, search.Term{Field: name, Value: value})
		}
	}
	if text := get("text"); text != "" {
		terms = append(terms, search.Term{Value: text})
	}
	if get("synthetic") == "hide" {
		terms = append(terms, withoutSynthetic)
	}
	written := strings.TrimSpace(q.Get("q") + " " + terms.String())
	query, err := search.Parse(written)
	f := Filter{Query: query}
	if errors.As(err, &f.Problem) {
		f.Written = strings.ToValidUTF8(written[:min(len(written), search.MaxBytes)], "")
	}
	return f
}

// withoutSynthetic excludes synthetic calls.
var withoutSynthetic = search.Term{Not: true, Field: "is", Value: "own"}

// CheckDestinations sets Problem if check reports a problem with a destination name of the search.
func (f *Filter) CheckDestinations(check func(name string) (problem, hint string)) {
	for i, t := range f.Query {
		if t.Field != "destination" || t.Op == search.OpExists {
			continue
		}
		if problem, hint := check(t.Value); problem != "" {
			written := f.Search()
			at := utf8.RuneCountInString(f.Query[:i].String()) + 1
			if i > 0 {
				at++ // the space
			}
			*f = Filter{Problem: &search.Error{At: at, Problem: problem, Hint: hint}, Written: written}
			return
		}
	}
}

// Search returns the filter as a search string.
func (f Filter) Search() string {
	if f.Problem != nil {
		return f.Written
	}
	return f.Query.String()
}

// Link returns path with the filter and more parameters, which are pairs of names and values.
func (f Filter) Link(path string, more ...string) string {
	return page.Link(path, append([]string{"q", f.Search()}, more...)...)
}

// Empty reports whether the filter selects all items.
func (f Filter) Empty() bool { return len(f.Query) == 0 && f.Problem == nil }

// FiltersSynthetic reports whether the filter has a condition on synthetic calls.
func (f Filter) FiltersSynthetic() bool {
	return slices.ContainsFunc(f.Query, func(t search.Term) bool { return t.Field == "is" && t.Value == "own" })
}

// HideSynthetic returns the filter without synthetic calls.
func (f Filter) HideSynthetic() Filter {
	return Filter{Query: append(slices.Clip(f.Query), withoutSynthetic)}
}

// Fixed returns the filter with relative times replaced by absolute times.
func (f Filter) Fixed(now time.Time) Filter {
	f.Query = f.Query.Fixed(now)
	return f
}

// A Condition is a term of a filter with a link that removes it.
type Condition struct{ Text, Without string }

// Conditions returns the terms of the filter.
func (f Filter) Conditions() []Condition {
	conditions := make([]Condition, len(f.Query))
	for i, t := range f.Query {
		conditions[i] = Condition{t.String(), Filter{Query: f.Query.Without(i)}.Link("/")}
	}
	return conditions
}

// Ranges returns the choices of time ranges.
func (f Filter) Ranges() []Choice {
	ranges := []Choice{f.choice("Any time", "", "since", "until")}
	for _, r := range [][2]string{{"5m", "Last 5 minutes"}, {"15m", "Last 15 minutes"}, {"1h", "Last hour"}, {"24h", "Last 24 hours"}, {"7d", "Last 7 days"}} {
		ranges = append(ranges, f.choice(r[1], "since:"+r[0], "since", "until"))
	}
	return ranges
}

// RangeLabel returns the label of the selected range.
func (f Filter) RangeLabel() string {
	for _, r := range f.Ranges() {
		if r.Chosen {
			return r.Label
		}
	}
	return "Custom"
}

// Timeless returns the search without its time range.
func (f Filter) Timeless() string { return f.Query.Drop("since", "until").String() }

// Matcher returns the filter as a function, which may be called with the history locked.
func (f Filter) Matcher(destinations []engine.AttachedDestination) func(*history.Item) bool {
	if f.Problem != nil {
		return func(*history.Item) bool { return false }
	}
	if f.Empty() {
		return func(*history.Item) bool { return true }
	}
	return f.matcher(destinations).match
}

func (f Filter) matcher(destinations []engine.AttachedDestination) *matcher {
	m := &matcher{now: time.Now(), destinations: destinations, terms: slices.Clone(f.Query)}
	slices.SortStableFunc(m.terms, func(a, b search.Term) int { return cost(a) - cost(b) })
	for _, t := range m.terms {
		if t.Field == "destination" && !t.Not {
			m.names = append(m.names, t)
		}
		m.lower = append(m.lower, strings.ToLower(t.Value))
	}
	return m
}

// cost returns the relative cost of evaluating a term. Terms on bodies are the most expensive.
func cost(t search.Term) int {
	switch t.Field {
	case "event", "user", "id", "type", "source", "since", "until", "is":
		return 0
	case "destination", "status":
		return 1
	case "":
		return 2
	}
	return 3
}

// A matcher evaluates search terms for items.
type matcher struct {
	now          time.Time
	destinations []engine.AttachedDestination
	terms        []search.Term // cheapest first
	names        []search.Term // terms that select destinations for state conditions; all destinations if empty
	lower        []string      // lower-case values of the terms
}

func (m *matcher) match(i *history.Item) bool {
	for n := range m.terms {
		if m.matches(&m.terms[n], m.lower[n], i) == m.terms[n].Not {
			return false
		}
	}
	return true
}

func (m *matcher) matches(t *search.Term, lower string, i *history.Item) bool {
	c := i.Call()
	switch t.Field {
	case "":
		return m.containsText(i, lower)
	case "event":
		return t.MatchesText(c.Event, c.Name)
	case "user":
		return t.MatchesText(c.UserID, c.AnonymousID, c.GroupID, c.PreviousID)
	case "id":
		return t.MatchesText(c.ID)
	case "type":
		return t.MatchesName(c.Type)
	case "source":
		return t.MatchesName(c.Source)
	case "destination":
		return i.Record != nil && slices.ContainsFunc(StatesOf(i.Record, m.destinations), func(s DeliveryState) bool { return t.MatchesName(s.Destination) })
	case "status":
		return m.hasStatus(t.Value, i)
	case "since":
		return !i.At().Before(t.Time(m.now))
	case "until":
		return i.At().Before(t.Time(m.now))
	case "is":
		return t.Value == "own" && history.IsSynthetic(c) || t.Value == "unplanned" && len(c.Violations) > 0
	}
	return t.MatchesBody(c.Body)
}

// states returns the states of a call at the selected destinations.
func (m *matcher) states(r *tracking.Record) []DeliveryState {
	return slices.DeleteFunc(StatesOf(r, m.destinations), func(s DeliveryState) bool { return !m.selects(s.Destination) })
}

// selects reports whether state conditions apply to a destination.
func (m *matcher) selects(destination string) bool {
	return len(m.names) == 0 || slices.ContainsFunc(m.names, func(t search.Term) bool { return t.MatchesName(destination) })
}

func (m *matcher) hasStatus(status string, i *history.Item) bool {
	answers, isAnswer := search.StatusRange(status)
	switch {
	case i.Refusal != nil && isAnswer:
		return answers.From <= i.Refusal.Status && i.Refusal.Status <= answers.To
	case i.Record == nil:
		return status == "rejected"
	case status == "rejected":
		return false
	case status == "repeated":
		return i.Record.Repeats > 0
	}
	states := m.states(i.Record)
	if status == "none" {
		return len(states) == 0
	}
	return slices.ContainsFunc(states, func(s DeliveryState) bool {
		if isAnswer {
			last := lastAttempt(i.Record, s.Destination)
			return last != nil && answers.From <= last.Status && last.Status <= answers.To
		}
		return s.state() == status
	})
}

func anyContains(lower string, values ...string) bool {
	return slices.ContainsFunc(values, func(value string) bool { return strings.Contains(strings.ToLower(value), lower) })
}

// containsText searches the body and the errors of an item.
func (m *matcher) containsText(i *history.Item, lower string) bool {
	switch {
	case i.Refusal != nil:
		return anyContains(lower, string(i.Refusal.Code), i.Refusal.Message, i.Refusal.Path)
	case i.Rejection != nil:
		return anyContains(lower, string(i.Rejection.Code), i.Rejection.Message) || bodyContains(i.Call().Body, lower)
	}
	return bodyContains(i.Record.Call.Body, lower) ||
		slices.ContainsFunc(i.Record.Ends, func(e tracking.Ended) bool {
			return anyContains(lower, e.Reason) && !engine.IsPrevious(&e, m.destinations)
		})
}

// bodyContains searches JSON for lower-case text, escaped or not.
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
