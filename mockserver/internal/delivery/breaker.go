package delivery

import "time"

const (
	// downAfter is how many calls must fail in a row before a destination counts as
	// failing or unreachable.
	downAfter = 10
	// While a destination cannot be reached, one call at a time probes it. The next probe
	// begins probeEvery after the last one ended: often enough that a destination that
	// recovers waits for about a second, and at a cost that does not grow.
	probeEvery = time.Second
	// While a destination is reached and fails, it gets failingRate calls a second: a
	// call that it takes may wait behind thousands that it does not. After failingCalls
	// in a row it is unlikely to take any, and each call waits for its next attempt in
	// memory: so after every slowerCalls more the rate is halved.
	failingRate  = 1000
	failingCalls = 20_000
	slowerCalls  = 10_000
	// paceStep is how often a share of the calls of a second may begin, at most.
	paceStep = 10 * time.Millisecond
)

// A breakerState is how a destination does, as far as its calls show.
type breakerState uint8

const (
	working     breakerState = iota // calls begin as soon as there is room
	failing                         // it is reached and takes no call: they begin at a rate
	unreachable                     // it cannot be connected to: one call at a time probes it
)

// An outcome classifies how a delivery ended, for the circuit breaker.
type outcome uint8

const (
	outcomeUnknown     outcome = iota // it was not sent, or we broke it off
	outcomeAnswered                   // a webhook took the call, or refused it for good
	outcomeFailed                     // none took a call that was not tried before
	outcomeRetryFailed                // none took a call that failed before: that may be the call's fault
	outcomeUnreachable                // no connection was made: that is no call's fault
)

// A breaker decides when calls may begin, from the outcomes of others.
//
//	            | answered | failed              | retry failed | unreachable
//	------------+----------+---------------------+--------------+------------------------
//	working     |          | failing, if 10 did  |              | unreachable, if 10 were
//	failing     | working  | slower, after 1000s |              | unreachable, if 10 were
//	unreachable | working  | as before it was    | as before    | of the probe: the next
//	            |          | unreachable         | it was       | one in a second
//
// Ten in a row count. An answer ends both rows; a call that fails ends the row of those
// that did not reach the destination. The breaker knows no clock: each method is told
// the time, which does not go back. It must not be used concurrently.
type breaker struct {
	failed  int       // calls that failed at their first attempt, in a row
	missed  int       // calls that did not reach the destination, in a row
	probeAt time.Time // while it is unreachable: when the next call may begin
	stepEnd time.Time // while it is failing: when the next step begins
	left    int       // calls that may begin in this step
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

// record takes in the outcome of a call. probe says that the call began while the
// destination was unreachable: one that was under way before shows nothing new.
func (b *breaker) record(o outcome, probe bool, now time.Time) {
	switch o {
	case outcomeUnknown:
	case outcomeAnswered:
		*b = breaker{}
	case outcomeFailed:
		b.reached()
		b.failed++
	case outcomeRetryFailed:
		b.reached()
	case outcomeUnreachable:
		if b.state() == unreachable && !probe {
			return
		}
		if b.missed++; b.state() == unreachable {
			b.probeAt = now.Add(probeEvery)
		}
	}
}

func (b *breaker) reached() { b.missed, b.probeAt = 0, time.Time{} }

// next returns when a call may begin; the zero time means now.
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

// begin counts a call that begins.
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

// pace returns how many calls may begin in a step, and how long a step is.
func (b *breaker) pace() (step time.Duration, calls int) {
	halvings := 0
	if b.failed > failingCalls {
		halvings = min(1+(b.failed-failingCalls)/slowerCalls, 10)
	}
	interval := time.Second / failingRate << halvings // from one call to the next
	step = max(paceStep, interval)
	return step, int(step / interval)
}
