package mockserver

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Match reports whether it selects a call. Tests may define their own; a Match can
// explain a mismatch with [tracking.Record.Missf]. A Match runs on the goroutine that
// calls a method of View, once per change of a record.
type Match func(*tracking.Record) bool

// is compares one field of a record with the wanted value.
func is(r *tracking.Record, field, got, want string) bool {
	return got == want || r.Missf("%s is %v", field, unlike{got, want})
}

// distant is implemented by arguments of Missf. It measures how far the record's value is
// from the wanted value. If several records match equally well, the closest one is shown.
type distant interface{ distance() int }

// unlike contains an actual and a wanted string.
type unlike struct{ got, want string }

func (u unlike) String() string { return fmt.Sprintf("%q, want %q", u.got, u.want) }
func (u unlike) distance() int  { return jsondiff.Distance(u.got, u.want) }

// distantLine is an explanation with a distance.
type distantLine struct {
	text string
	by   int
}

func (l distantLine) String() string { return l.text }
func (l distantLine) distance() int  { return l.by }

// OfType selects calls of a type, such as "track" or "identify".
func OfType(typ string) Match {
	return func(r *tracking.Record) bool { return is(r, "type", r.Call.Type, typ) }
}

// OfEvent selects track calls of an event.
func OfEvent(event string) Match {
	return func(r *tracking.Record) bool {
		track := is(r, "type", r.Call.Type, "track")
		return is(r, "event", r.Call.Event, event) && track // evaluates both: a call with two mismatches is less similar
	}
}

// OfUser selects calls with a userId.
func OfUser(userID string) Match {
	return func(r *tracking.Record) bool { return is(r, "userId", r.Call.UserID, userID) }
}

// OfSource selects calls of a source by its name. To select calls by their write key, use
// [View.Source].
func OfSource(name string) Match {
	return func(r *tracking.Record) bool { return is(r, "source", r.Call.Source, name) }
}

// WithID selects the call with a messageId.
func WithID(messageID string) Match {
	return func(r *tracking.Record) bool { return is(r, "messageId", r.Call.ID, messageID) }
}

// Like selects calls that contain a JSON object:
//
//	mockserver.Like(`{"event":"Signed Up","properties":{"plan":"Pro"}}`)
//
// Objects may contain additional fields at any depth. Arrays must have the same length.
// Numbers are compared by value: 3 equals 3.0. If want is not JSON, Like selects nothing,
// and methods of View that take a [TB] fail the test immediately.
func Like(want string) Match {
	wanted, err := jsondiff.Decode([]byte(want))
	if err != nil {
		return (&unusable{fmt.Errorf("mockserver: Like requires JSON, got %q: %w", want, err)}).match
	}
	return func(r *tracking.Record) bool {
		got, err := jsondiff.Decode(r.Call.Body)
		if err != nil {
			return r.Missf("the call is not valid JSON: %v", err)
		}
		d := jsondiff.Compare(got, wanted, true)
		if len(d.Lines) == 0 {
			return true
		}
		r.Missf("%v", distantLine{d.Lines[0], d.Distance})
		for _, line := range d.Lines[1:] {
			r.Missf("%s", line)
		}
		return false
	}
}

// unusable is a Match built from invalid arguments.
type unusable struct{ err error }

func (u *unusable) match(r *tracking.Record) bool { return r.Missf("%v", u.err) }

// checkUsable returns the error of the first unusable match. Functions cannot be
// compared, so it identifies them by their code pointer.
func checkUsable(match []Match) error {
	code := reflect.ValueOf((&unusable{}).match).Pointer()
	for _, m := range match {
		if reflect.ValueOf(m).Pointer() == code {
			return errors.New(missesOf(tracking.Record{}, []Match{m}).lines[0])
		}
	}
	return nil
}

// Retried selects calls for which the sender reported n earlier requests in the header
// X-Retry-Count; see [tracking.Record.RetryCount]. Retried(0) selects first attempts.
func Retried(n int) Match {
	return func(r *tracking.Record) bool {
		return r.RetryCount == n || r.Missf("X-Retry-Count is %d, want %d", r.RetryCount, n)
	}
}

// InState selects calls by their state at a destination; see [tracking.Record.State].
// StatePending selects calls that were attempted and have a retry scheduled.
func InState(destination string, state tracking.State) Match {
	return func(r *tracking.Record) bool {
		o, ok := r.State(destination)
		switch {
		case ok && o.State == state:
			return true
		case !ok:
			return r.Missf("destination %q has not attempted the call%s, want %s", destination, triedBy(r), state)
		case o.Reason != "":
			return r.Missf("state at destination %q is %s (%s), want %s", destination, o.State, o.Reason, state)
		}
		return r.Missf("state at destination %q is %s, want %s", destination, o.State, state)
	}
}

// triedBy lists the destinations that attempted a call, which helps if the name is wrong.
func triedBy(r *tracking.Record) string {
	var names []string
	for i := range r.Ends {
		names = append(names, strconv.Quote(r.Ends[i].Destination))
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " (attempted by: " + strings.Join(slices.Compact(names), ", ") + ")"
}

// DeliveredTo selects calls that were delivered to a destination.
func DeliveredTo(destination string) Match { return InState(destination, tracking.StateDelivered) }

// Attempted selects calls with at least n completed requests to a destination's webhooks.
func Attempted(destination string, n int) Match {
	return func(r *tracking.Record) bool {
		got := 0
		for i := range r.Attempts {
			if r.Attempts[i].Destination == destination {
				got++
			}
		}
		return got >= n || r.Missf("destination %[2]q has received %[1]d requests, want %[3]d", got, destination, n)
	}
}

func every(match []Match) func(*tracking.Record) bool {
	return func(r *tracking.Record) bool {
		return !slices.ContainsFunc(match, func(m Match) bool { return !m(r) })
	}
}

// misses explains why matches do not select a record.
type misses struct {
	failed   int      // number of mismatches
	lines    []string // explanations
	distance int      // edit distance in bytes between the actual and the wanted values
}

func (m *misses) compare(other *misses) int {
	return cmp.Or(cmp.Compare(m.failed, other.failed), cmp.Compare(len(m.lines), len(other.lines)), cmp.Compare(m.distance, other.distance))
}

// missesOf returns the reasons why matches do not select a record.
func missesOf(r tracking.Record, match []Match) *misses {
	all := &misses{}
	for i, m := range match {
		why := &misses{}
		explaining := r.Explaining(func(format string, args []any) {
			why.lines = append(why.lines, fmt.Sprintf(format, args...))
			for _, arg := range args {
				if d, ok := arg.(distant); ok {
					why.distance += d.distance()
				}
			}
		})
		if m(&explaining) {
			continue
		}
		if len(why.lines) == 0 {
			why.lines = []string{fmt.Sprintf("match %d of %d reports false: %s", i+1, len(match), excerpt(&r.Call))}
		}
		all.failed++
		all.lines = append(all.lines, why.lines...)
		all.distance += why.distance
	}
	return all
}

// nearest returns the record with the fewest mismatches, and the reasons. Ties are
// resolved by the number of reasons, then by distance, then by age: the newest wins.
func nearest(records []tracking.Record, match []Match) (record tracking.Record, lines []string) {
	least := &misses{}
	for _, r := range slices.Backward(records) {
		if why := missesOf(r, match); why.failed > 0 && (least.failed == 0 || why.compare(least) < 0) {
			record, least = r, why
		}
	}
	return record, least.lines
}

// maxBodyShown limits the bytes of a call that an error shows.
const maxBodyShown = 2000

// excerpt returns the beginning of the call's body.
func excerpt(c *tracking.Call) string { return text.CutBytes(maxBodyShown, string(c.Body)) }
