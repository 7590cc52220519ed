package mockserver

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Match picks calls by what is known of them. Tests may write their own, which can
// say by [tracking.Record.Missf] why they do not pick one. A record is shown to it whenever
// something has become of it, by the goroutine that looks or waits.
type Match func(*tracking.Record) bool

// is compares one field of a record with what is wanted.
func is(r *tracking.Record, field, got, want string) bool {
	return got == want || r.Missf("%s is %v", field, unlike{got, want})
}

// Of several records that matches miss alike, the nearest is shown: arguments of Missf
// that are distant say how far what a record has is from what is wanted.
type distant interface{ distance() int }

// unlike is a text and the one that is wanted instead.
type unlike struct{ got, want string }

func (u unlike) String() string { return fmt.Sprintf("%q, want %q", u.got, u.want) }
func (u unlike) distance() int  { return jsondiff.Distance(u.got, u.want) }

// distantLine is a line about what is as far from what is wanted as by says.
type distantLine struct {
	text string
	by   int
}

func (l distantLine) String() string { return l.text }
func (l distantLine) distance() int  { return l.by }

// OfType picks the calls of a type: "track", "identify" and so on.
func OfType(typ string) Match {
	return func(r *tracking.Record) bool { return is(r, "type", r.Call.Type, typ) }
}

// OfEvent picks the track calls of an event.
func OfEvent(event string) Match {
	return func(r *tracking.Record) bool {
		track := is(r, "type", r.Call.Type, "track")
		return is(r, "event", r.Call.Event, event) && track // a call that is neither is further away
	}
}

// OfUser picks the calls of a user, by userId.
func OfUser(userID string) Match {
	return func(r *tracking.Record) bool { return is(r, "userId", r.Call.UserID, userID) }
}

// OfSource picks the calls of a source, by its name. One that was made for a write
// key has a name that does not tell the key: [View.Source] finds its calls.
func OfSource(name string) Match {
	return func(r *tracking.Record) bool { return is(r, "source", r.Call.Source, name) }
}

// WithID picks the call with a messageId.
func WithID(messageID string) Match {
	return func(r *tracking.Record) bool { return is(r, "messageId", r.Call.ID, messageID) }
}

// Like picks the calls that hold what a JSON object holds, and perhaps more:
//
//	mockserver.Like(`{"event":"Signed Up","properties":{"plan":"Pro"}}`)
//
// Objects may hold more wherever they stand, but arrays have as many elements. Of
// numbers the value counts: 3 is 3.0. With what is not JSON it picks nothing, and the
// methods of a View that have a [TB] end the test at once.
func Like(want string) Match {
	wanted, err := jsondiff.Decode([]byte(want))
	if err != nil {
		return (&unusable{fmt.Errorf("mockserver: Like needs JSON, and %q is none: %w", want, err)}).match
	}
	return func(r *tracking.Record) bool {
		got, err := jsondiff.Decode(r.Call.Body)
		if err != nil {
			return r.Missf("it is not JSON: %v", err)
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

// An unusable match was made from what it cannot be made from.
type unusable struct{ err error }

func (u *unusable) match(r *tracking.Record) bool { return r.Missf("%v", u.err) }

// checkUsable returns the error of the first match that is unusable. A Match is a
// function, which can only be told by its code.
func checkUsable(match []Match) error {
	code := reflect.ValueOf((&unusable{}).match).Pointer()
	for _, m := range match {
		if reflect.ValueOf(m).Pointer() == code {
			return errors.New(missesOf(tracking.Record{}, []Match{m}).lines[0])
		}
	}
	return nil
}

// Retried picks the calls whose sender had made n requests with them before the newest one,
// as it says by X-Retry-Count: see [tracking.Record.RetryCount]. Retried(0) picks first
// attempts.
func Retried(n int) Match {
	return func(r *tracking.Record) bool {
		return r.RetryCount == n || r.Missf("its X-Retry-Count is %d, want %d", r.RetryCount, n)
	}
}

// InState picks the calls that are in a state at a destination, see [tracking.Record.State]:
// with StatePending those that were tried and are to be tried again.
func InState(destination string, state tracking.State) Match {
	return func(r *tracking.Record) bool {
		o, ok := r.State(destination)
		switch {
		case ok && o.State == state:
			return true
		case !ok:
			return r.Missf("destination %q has not tried it%s, want %s", destination, triedBy(r), state)
		case o.Reason != "":
			return r.Missf("at destination %q it is %s (%s), want %s", destination, o.State, o.Reason, state)
		}
		return r.Missf("at destination %q it is %s, want %s", destination, o.State, state)
	}
}

// triedBy names the destinations that have tried a call, for one whose name is wrong.
func triedBy(r *tracking.Record) string {
	var names []string
	for i := range r.Ends {
		names = append(names, strconv.Quote(r.Ends[i].Destination))
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " (those that have: " + strings.Join(slices.Compact(names), ", ") + ")"
}

// DeliveredTo picks the calls that a webhook of a destination has taken.
func DeliveredTo(destination string) Match { return InState(destination, tracking.StateDelivered) }

// Attempted picks the calls for which at least n requests to the webhooks of a
// destination have ended.
func Attempted(destination string, n int) Match {
	return func(r *tracking.Record) bool {
		got := 0
		for i := range r.Attempts {
			if r.Attempts[i].Destination == destination {
				got++
			}
		}
		return got >= n || r.Missf("%d requests were made for it to destination %q, want %d", got, destination, n)
	}
}

func every(match []Match) func(*tracking.Record) bool {
	return func(r *tracking.Record) bool {
		for _, m := range match {
			if !m(r) {
				return false
			}
		}
		return true
	}
}

// misses are why matches do not pick a record.
type misses struct {
	failed   int      // matches
	lines    []string // reasons
	distance int      // between what the record has and what is wanted, in bytes to edit
}

func (m *misses) compare(other *misses) int {
	return cmp.Or(cmp.Compare(m.failed, other.failed), cmp.Compare(len(m.lines), len(other.lines)), cmp.Compare(m.distance, other.distance))
}

// missesOf returns why matches do not pick a record.
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
			why.lines = []string{fmt.Sprintf("match %d of %d does not pick it: %s", i+1, len(match), excerpt(&r.Call))}
		}
		all.failed++
		all.lines = append(all.lines, why.lines...)
		all.distance += why.distance
	}
	return all
}

// nearest returns the record that the fewest matches do not pick, and why they do
// not; of several that with the fewest reasons, of those that whose values are most
// alike, and of those the newest.
func nearest(records []tracking.Record, match []Match) (record tracking.Record, lines []string) {
	least := &misses{}
	for _, r := range slices.Backward(records) {
		if why := missesOf(r, match); why.failed > 0 && (least.failed == 0 || why.compare(least) < 0) {
			record, least = r, why
		}
	}
	return record, least.lines
}

// maxBodyShown is how much is shown of a call, in bytes.
const maxBodyShown = 2000

// excerpt returns the call's body, or its first bytes.
func excerpt(c *tracking.Call) string { return text.CutBytes(maxBodyShown, string(c.Body)) }

// summary names a call in a line.
func summary(c *tracking.Call) string { return expect.Title(c) }
