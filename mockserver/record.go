package mockserver

import "fmt"

// A Record is a call and what became of it.
type Record struct {
	// Seq counts the calls from 1 in the order in which they were accepted.
	Seq      int64
	Call     Call
	Repeats  int       // how often it was sent again
	Ends     []Ended   // what was decided about it, by any destination, oldest first
	Attempts []Attempt // the requests to webhooks that were made for it, oldest first
	// Partial reports whether the call was first heard of when it was attempted: what
	// other destinations did with it before is not known.
	Partial bool

	misses *misses // where Missf notes why a Match does not pick the record, or nil
}

// Last returns what a destination decided about the call last. The second result is
// false where it has not decided.
func (r *Record) Last(destination string) (Ended, bool) {
	for i := len(r.Ends) - 1; i >= 0; i-- {
		if r.Ends[i].Destination == destination {
			return r.Ends[i], true
		}
	}
	return Ended{}, false
}

// State returns where the call stands with a destination, and why. The second
// result is false where the destination has not decided about it.
func (r Record) State(destination string) (Outcome, bool) {
	last, decided := r.Last(destination)
	return last.Outcome, decided
}

// misses are why matches do not pick a record.
type misses struct {
	lines    []string // reasons
	distance int      // between what the record has and what is wanted, in bytes to edit
}

// Missf is what a Match returns of a record that it does not pick: false, with the
// reason noted for the errors of a View's Wait, Expect and ExpectN:
//
//	func(r *mockserver.Record) bool {
//		return r.Call.Context()["ip"] != nil || r.Missf("it has no context.ip")
//	}
func (r *Record) Missf(format string, args ...any) bool {
	if r.misses != nil {
		r.misses.lines = append(r.misses.lines, fmt.Sprintf(format, args...))
	}
	return false
}
