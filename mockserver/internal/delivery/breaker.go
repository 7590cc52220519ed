package delivery

import "time"

const (
	// downAfter is the number of consecutive failures after which a destination is failing or
	// unreachable.
	downAfter = 10
	// probeEvery is the delay between the end of a probe and the next probe. One call at a time
	// probes an unreachable destination.
	probeEvery = time.Second
	// failingRate is the number of calls per second that a failing destination gets, because
	// it may reject thousands of calls but accept those behind them. After failingCalls
	// consecutive failed calls, the destination probably accepts no calls. Each failed call uses
	// memory until its retry, so the rate is then halved, and again after every slowerCalls
	// further failed calls.
	failingRate  = 1000
	failingCalls = 20_000
	slowerCalls  = 10_000
	// paceStep is the minimum length of a step.
	paceStep = 10 * time.Millisecond
)

// A breakerState is the state of a destination according to its results.
type breakerState uint8

const (
	working     breakerState = iota // calls begin when a slot is free
	failing                         // webhooks respond but accept no calls: calls begin at a limited rate
	unreachable                     // connections fail: calls probe the destination one at a time
)

// An outcome is the result of a call that the breaker counts.
type outcome uint8

const (
	outcomeUnknown     outcome = iota // not sent, or canceled
	outcomeWorking                    // a webhook accepted the call or refused it permanently
	outcomeFailed                     // the first attempt failed
	outcomeRetryFailed                // a retry failed; the call may be the cause
	outcomeUnreachable                // no connection; the call is not the cause
)

// A breaker decides when calls may begin, from the outcomes of earlier calls.
//
//	            | working  | failed               | retry failed | unreachable
//	------------+----------+----------------------+--------------+---------------------------
//	working     |          | failing, after 10    |              | unreachable, after 10
//	failing     | working  | slower, after 1000s  |              | unreachable, after 10
//	unreachable | working  | the previous state   | the previous | if it was the probe: next
//	            |          |                      | state        | probe after one second
//
// failed and missed count requests, so a failed batch counts once. failedCalls counts calls, and
// determines only the pace of a failing destination. outcomeWorking resets all counters; a failed
// call resets missed. The breaker does not read the clock: callers pass the time, which must
// not decrease. It is not safe for concurrent use.
type breaker struct {
	failed      int       // consecutive failed requests with first attempts
	failedCalls int       // calls in these requests
	missed      int       // consecutive connection failures
	probeAt     time.Time // if unreachable: earliest start of the next call
	stepEnd     time.Time // if failing: start of the next step
	left        int       // if failing: calls that may begin in this step
}

func (b *breaker) state() breakerState {
	switch {
	case b.missed >= downAfter:
		return unreachable
	case b.failed >= downAfter:
		return failing
	}
	return working
}

// record records the outcome of a call. probe reports that the call began while the destination was
// unreachable. Results of older calls do not change an unreachable destination's next probe. shared
// reports that another call represents the same request: the request counts once.
func (b *breaker) record(o outcome, probe, shared bool, now time.Time) {
	switch o {
	case outcomeUnknown:
	case outcomeWorking:
		*b = breaker{}
	case outcomeFailed:
		b.reached()
		b.failedCalls++
		if !shared {
			b.failed++
		}
	case outcomeRetryFailed:
		b.reached()
	case outcomeUnreachable:
		if !probe && (shared || b.state() == unreachable) {
			return
		}
		if b.missed++; b.state() == unreachable {
			b.probeAt = now.Add(probeEvery)
		}
	}
}

func (b *breaker) reached() { b.missed, b.probeAt = 0, time.Time{} }

// next returns the earliest time at which a call may begin. The zero time means now.
func (b *breaker) next(now time.Time) (at time.Time) {
	switch b.state() {
	case unreachable:
		at = b.probeAt
	case failing:
		if b.left <= 0 {
			at = b.stepEnd
		}
	}
	if at.After(now) {
		return at
	}
	return time.Time{}
}

// begin records the start of a call.
func (b *breaker) begin(now time.Time) {
	if b.state() != failing {
		return
	}
	if !now.Before(b.stepEnd) {
		var step time.Duration
		step, b.left = b.pace()
		b.stepEnd = now.Add(step)
	}
	b.left--
}

// pace returns the length of a step and the number of calls that may begin in each step.
func (b *breaker) pace() (step time.Duration, calls int) {
	halvings := 0
	if b.failedCalls > failingCalls {
		halvings = min(1+(b.failedCalls-failingCalls)/slowerCalls, 10)
	}
	interval := time.Second / failingRate << halvings // between two calls
	step = max(paceStep, interval)
	return step, int(step / interval)
}
