package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Page sizes.
const (
	defaultPage = 50
	maxPage     = 500
)

// A query reads the parameters of a request and stores the first error.
type query struct {
	values url.Values
	known  []string
	err    error
}

func newQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = access.Errorf(http.StatusBadRequest, "invalid_parameter", "invalid query: %v", err)
	}
	return &query{values: values, err: err}
}

func (q *query) take(name string) []string {
	q.known = append(q.known, name)
	return q.values[name]
}

func (q *query) fail(name, value, hint string) {
	if q.err == nil {
		q.err = access.Errorf(http.StatusBadRequest, "invalid_parameter", "parameter %s is %.100q; %s", name, value, hint)
	}
}

func (q *query) text(name string, v *string) {
	switch values := q.take(name); len(values) {
	case 0:
	case 1:
		*v = values[0]
	default:
		q.fail(name, strings.Join(values, ", "), "use it once")
	}
}

func (q *query) int(name string, v *int, least, most int) {
	var s string
	if q.text(name, &s); s == "" {
		return
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		q.fail(name, s, fmt.Sprintf("use a number from %d to %d", least, most))
	}
	*v = n
}

func (q *query) bool(name string, v *bool) {
	var s string
	if q.text(name, &s); s == "" {
		return
	}
	if s != "true" && s != "false" {
		q.fail(name, s, "use true or false")
	}
	*v = s == "true"
}

func (q *query) time(name string, v *time.Time) {
	var s string
	if q.text(name, &s); s == "" {
		return
	}
	t, err := fields.ParseTime(s)
	if err != nil {
		q.fail(name, s, "use a time such as 2026-01-31T12:00:00Z")
	}
	*v = t
}

func (q *query) page(limit *int, before *int64) {
	q.int("limit", limit, 1, maxPage)
	var s string
	if q.text("before", &s); s == "" {
		return
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		q.fail("before", s, "use the next value of a page")
	}
	*before = n
}

func (q *query) state(s *string) tracking.State {
	q.text("state", s)
	var state tracking.State
	if *s != "" && state.UnmarshalText([]byte(*s)) != nil {
		q.fail("state", *s, "use pending, delivered, failed or filtered")
	}
	return state
}

// oneOf reports an error if a value is not in known.
func (q *query) oneOf(name string, values, known []string) {
	for _, value := range values {
		if !slices.Contains(known, value) {
			q.fail(name, value, "use "+text.Alternatives(known))
		}
	}
}

// acceptedFilter reads a filter for accepted calls. The types in the filter must be known.
func (q *query) acceptedFilter(f *history.CallFilter) {
	q.filter(f)
	q.oneOf("type", f.Types, fields.StoredTypes)
}

// filter reads a filter for calls of any type. Rejected calls can have unknown types.
func (q *query) filter(f *history.CallFilter) {
	f.IDs, f.Sources, f.Types = q.take("messageId"), q.take("source"), q.take("type")
	q.text("event", &f.Event)
	q.text("userId", &f.UserID)
	q.text("text", &f.Text)
	q.time("since", &f.Since)
	if q.time("until", &f.Until); isReversed(f.Since, f.Until) {
		q.fail("until", q.values.Get("until"), "use a time after since")
	}
	where := q.take("where")
	var err error
	if f.Where, err = readWhere(where); err != nil {
		q.fail("where", strings.Join(where, " "), err.Error())
	}
}

// isReversed reports whether a range of times ends before it begins. A zero time is no limit.
func isReversed(since, until time.Time) bool { return !until.IsZero() && until.Before(since) }

// readWhere parses conditions on fields of the body.
func readWhere(conditions []string) (search.Query, error) {
	query, err := search.Parse(strings.Join(conditions, " "))
	if err != nil {
		return nil, err
	}
	for _, term := range query {
		if len(term.Path) == 0 {
			return nil, errors.New("use conditions such as prop.plan:Pro, traits.city:Berlin or context.locale:=de")
		}
	}
	return query, nil
}

// done returns the first error. It treats unknown parameters as errors.
func (q *query) done() error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !slices.Contains(q.known, name) && q.err == nil {
			hint := "this resource has no parameters"
			if len(q.known) > 0 {
				hint = "the parameters are " + strings.Join(q.known, ", ")
			}
			q.err = access.Errorf(http.StatusBadRequest, "invalid_parameter", "unknown parameter %.100q; %s", name, hint)
		}
	}
	return q.err
}
