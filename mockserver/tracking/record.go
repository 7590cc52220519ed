package tracking

// A Record is a call with its attempts and results.
type Record struct {
	// Seq increases in the order of acceptance. A mockserver.Server counts from 1.
	Seq     int64
	Call    Call
	Repeats int // number of duplicates received
	// RetryCount is the number of earlier requests with the call, as reported by the sender in the
	// X-Retry-Count header. If several requests contained the call, the newest one counts. It is
	// 0 for a first attempt, and if the sender does not report it.
	RetryCount int
	// TraceParent and TraceState are the W3C trace context of the request that contained the
	// call. They are empty if the context was missing or invalid.
	TraceParent, TraceState string
	Ends                    []Ended   // results at all destinations, oldest first
	Attempts                []Attempt // requests to webhooks, oldest first
	// Partial reports that the record began with an attempt at the call, so that earlier results
	// at other destinations are unknown.
	Partial bool

	missed func(format string, args []any) // see Explaining; may be nil
}

// Last returns the latest result at a destination. The second result is false if there is no
// result yet.
func (r *Record) Last(destination string) (Ended, bool) {
	for i := len(r.Ends) - 1; i >= 0; i-- {
		if r.Ends[i].Destination == destination {
			return r.Ends[i], true
		}
	}
	return Ended{}, false
}

// State returns the state of the call at a destination, with the reason. The second result is
// false if there is no result yet.
func (r Record) State(destination string) (Outcome, bool) {
	last, decided := r.Last(destination)
	return last.Outcome, decided
}

// Missf returns false, and records the reason why a Match rejects the record. The errors of a
// View's Wait, Expect and ExpectN contain the reason:
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

// Explaining returns a copy of the record that passes the arguments of Missf to missed.
func (r Record) Explaining(missed func(format string, args []any)) Record {
	r.missed = missed
	return r
}
