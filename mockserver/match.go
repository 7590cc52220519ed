package mockserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Match picks calls by what is known of them. Tests may write their own, which can
// say by [Record.Missf] why they do not pick one. A record is shown to it whenever
// something has become of it, by the goroutine that looks or waits.
type Match func(*Record) bool

// Missf is what a Match returns of a record that it does not pick: false, with the
// reason noted for the errors of [View.Wait], [View.Expect] and [View.ExpectN]:
//
//	func(r *mockserver.Record) bool {
//		return r.Call.Context()["ip"] != nil || r.Missf("it has no context.ip")
//	}
func (r *Record) Missf(format string, args ...any) bool {
	if r.misses != nil {
		*r.misses = append(*r.misses, fmt.Sprintf(format, args...))
	}
	return false
}

// is holds one field of the record against what is wanted.
func (r *Record) is(field, got, want string) bool {
	return got == want || r.Missf("%s is %q, want %q", field, got, want)
}

// OfType picks the calls of a type: "track", "identify" and so on.
func OfType(typ string) Match {
	return func(r *Record) bool { return r.is("type", r.Call.Type, typ) }
}

// OfEvent picks the track calls of an event.
func OfEvent(event string) Match {
	return func(r *Record) bool {
		track := r.is("type", r.Call.Type, "track")
		return r.is("event", r.Call.Event, event) && track // a call that is neither is further away
	}
}

// OfUser picks the calls of a user, by userId.
func OfUser(userID string) Match {
	return func(r *Record) bool { return r.is("userId", r.Call.UserID, userID) }
}

// OfSource picks the calls of a source, by its name. One that was made for a write
// key has a name that does not tell the key: [View.Source] finds its calls.
func OfSource(name string) Match {
	return func(r *Record) bool { return r.is("source", r.Call.Source, name) }
}

// WithID picks the call with a messageId.
func WithID(messageID string) Match {
	return func(r *Record) bool { return r.is("messageId", r.Call.ID, messageID) }
}

// Like picks the calls that hold what a JSON object holds, and perhaps more:
//
//	mockserver.Like(`{"event":"Signed Up","properties":{"plan":"Pro"}}`)
//
// Objects may hold more wherever they stand, but arrays have as many elements. Of
// numbers the value counts: 3 is 3.0. It panics if want is not JSON.
func Like(want string) Match {
	if _, err := decodeJSON([]byte(want)); err != nil {
		panic(fmt.Sprintf("mockserver: Like needs JSON: %v", err))
	}
	return func(r *Record) bool {
		differences, err := diffJSON(r.Call.Body, []byte(want), true)
		if err != nil {
			return r.Missf("%v", err)
		}
		for _, line := range differences {
			r.Missf("%s", line)
		}
		return len(differences) == 0
	}
}

// InState picks the calls that are in a state at a destination, see [Record.State]:
// with StatePending those that were tried and are to be tried again.
func InState(destination string, state State) Match {
	return func(r *Record) bool {
		o, ok := r.State(destination)
		switch {
		case ok && o.State == state:
			return true
		case !ok:
			return r.Missf("destination %q has not tried it%s, want %s", destination, r.triedBy(), state)
		case o.Reason != "":
			return r.Missf("at destination %q it is %s (%s), want %s", destination, o.State, o.Reason, state)
		}
		return r.Missf("at destination %q it is %s, want %s", destination, o.State, state)
	}
}

// triedBy names the destinations that have tried a call, for one whose name is wrong.
func (r *Record) triedBy() string {
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
func DeliveredTo(destination string) Match { return InState(destination, StateDelivered) }

// Attempted picks the calls for which at least n requests to the webhooks of a
// destination have ended.
func Attempted(destination string, n int) Match {
	return func(r *Record) bool {
		got := 0
		for i := range r.Attempts {
			if r.Attempts[i].Destination == destination {
				got++
			}
		}
		return got >= n || r.Missf("%d requests were made for it to destination %q, want %d", got, destination, n)
	}
}

func every(match []Match) func(*Record) bool {
	return func(r *Record) bool {
		for _, m := range match {
			if !m(r) {
				return false
			}
		}
		return true
	}
}

// misses returns why matches do not pick a record, a line for each reason, and
// how many of them do not.
func misses(r Record, match []Match) (lines []string, failed int) {
	for i, m := range match {
		var why []string
		r.misses = &why
		if m(&r) {
			continue
		}
		if failed++; len(why) == 0 {
			why = []string{fmt.Sprintf("match %d of %d does not pick it: %s", i+1, len(match), r.Call.excerpt())}
		}
		lines = append(lines, why...)
	}
	return lines, failed
}

// nearest returns the record that the fewest matches do not pick, and why they do
// not; of several that with the fewest reasons, and of those the newest.
func nearest(records []Record, match []Match) (record Record, lines []string) {
	least := -1
	for _, r := range slices.Backward(records) {
		why, failed := misses(r, match)
		if failed == 0 {
			continue
		}
		if least < 0 || cmp.Or(cmp.Compare(failed, least), cmp.Compare(len(why), len(lines))) < 0 {
			record, lines, least = r, why, failed
		}
	}
	return record, lines
}

// excerpt returns the call's body, or its first bytes.
func (c *Call) excerpt() string { return cutBytes(maxBodyShown, string(c.Body)) }

// summary names a call in a line.
func (c *Call) summary() string {
	var b strings.Builder
	b.WriteString(c.Type)
	for _, part := range []struct{ name, value string }{
		{"", c.Event}, {"", c.Name}, {"userId", c.UserID}, {"anonymousId", c.AnonymousID}, {"groupId", c.GroupID},
		{"previousId", c.PreviousID}, {"messageId", c.ID},
	} {
		if part.value == "" {
			continue
		}
		b.WriteByte(' ')
		if part.name != "" {
			b.WriteString(part.name + "=")
		}
		fmt.Fprintf(&b, "%.60q", part.value)
	}
	return b.String()
}
