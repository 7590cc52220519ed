package tracking

// A Record is a call and what became of it.
type Record struct {
	// Seq counts the calls from 1 in the order in which they were accepted.
	Seq     int64
	Call    Call
	Repeats int // how often it was sent again
	// RetryCount is the X-Retry-Count of the request that brought the call, the newest
	// if there were several: how many requests with it the sender had made before, of
	// which some may have failed on their way. 0 is a first attempt, or a sender that
	// does not say.
	RetryCount int
	// TraceParent and TraceState are the W3C trace context of the request that brought the
	// call, as far as it is valid; empty where it had none.
	TraceParent, TraceState string
	Ends                    []Ended   // what was decided about it, by any destination, oldest first
	Attempts                []Attempt // the requests to webhooks that were made for it, oldest first
	// Partial reports whether the call was first heard of when it was attempted: what
	// other destinations did with it before is not known.
	Partial bool

	missed func(format string, args []any) // see Explaining; nil where nobody asks
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

// Missf is what a Match returns of a record that it does not pick: false, with the
// reason noted for the errors of a View's Wait, Expect and ExpectN:
//
//	func(r *mockserver.Record) bool {
//		return r.Call.Context()["ip"] != nil || r.Missf("it has no context.ip")
//	}
func (r *Record) Missf(format string, args ...any) bool {
	if r.missed != nil {
		r.missed(format, args)
	}
	return false
}

// Explaining returns a copy of the record that calls missed with what Matches that do
// not pick it give to Missf.
func (r Record) Explaining(missed func(format string, args []any)) Record {
	r.missed = missed
	return r
}
