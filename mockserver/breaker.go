package mockserver

import "time"

const (
	// downAfter is how many calls in a row must fail before a destination is taken to
	// be down.
	downAfter = 10
	// While a destination cannot be reached, one call at a time probes it: at first
	// after firstProbe, then after twice as long each time, up to maxProbe. That and
	// the time to connect are within the 10 s in which it is to get calls again.
	firstProbe = time.Second
	maxProbe   = 4 * time.Second
	// While a destination is reached and fails, it gets failingRate calls a second: a
	// call that can be taken may stand behind thousands that cannot. Beyond
	// failingCalls in a row it is unlikely that it would take any, and each waits for
	// its next attempt in memory: so after each tamerCalls more it gets half as many.
	failingRate  = 1000
	failingCalls = 20_000
	tamerCalls   = 10_000
	// paceStep is how often a share of the calls that pass in a second may pass.
	paceStep = 10 * time.Millisecond
)

// A breakerState is how a destination does.
type breakerState uint8

const (
	working     breakerState = iota // calls pass
	failing                         // it is reached and takes no call: they pass at a rate
	unreachable                     // it cannot be connected to: one passes now and then
)

// tidings are what a call tells of its destination when it ends.
type tidings uint8

const (
	nothing      tidings = iota // it was not sent, or we broke it off
	itAnswers                   // it took a call, or refused it for good
	itFails                     // to take a call that was not tried before
	itFailsAgain                // to take one that failed before: that may be the call's fault
	itIsNotThere                // no connection was made: that is no call's fault
)

// A breaker says when calls may go to a destination, from what became of others.
//
//	           | itAnswers | itFails            | itFailsAgain | itIsNotThere
//	-----------+-----------+--------------------+--------------+------------------------
//	working    |           | failing, if 10 did |              | unreachable, if 10 were
//	failing    | working   | slower, if 1000s   |              | unreachable, if 10 were
//	unreachable| working   | as before it was   | as before    | of the probe: its pause
//	           |           | unreachable        | it was       | doubles
//
// Ten in a row count; what it answers to a call ends both rows, and what it fails to
// take ends that of the calls that did not come to it. It knows no clock: each method
// is told the time, which does not go back. It must not be used concurrently.
type breaker struct {
	failed  int // calls that it failed to take, each at its first attempt, in a row
	missed  int // calls that did not come to it, in a row
	pause   time.Duration
	probeAt time.Time // while it is unreachable: when the next call may pass
	stepEnd time.Time // while it is failing: when the next step begins
	left    int       // calls that may pass in this step
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

// learn takes in what a call tells. probe says that it passed while the destination
// was unreachable: another that was under way before tells nothing new.
func (b *breaker) learn(told tidings, probe bool, now time.Time) {
	switch told {
	case nothing:
	case itAnswers:
		*b = breaker{}
	case itFails:
		b.reached()
		b.failed++
	case itFailsAgain:
		b.reached()
	case itIsNotThere:
		if wasDown := b.state() == unreachable; wasDown && !probe {
			return
		}
		if b.missed++; b.state() == unreachable {
			b.pause = min(max(2*b.pause, firstProbe), maxProbe)
			b.probeAt = now.Add(b.pause)
		}
	}
}

func (b *breaker) reached() { b.missed, b.pause, b.probeAt = 0, 0, time.Time{} }

// next returns when a call may pass: the zero time is now.
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

// passed says that a call passes.
func (b *breaker) passed(now time.Time) {
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

// pace returns how many calls may pass in a step, and how long that is.
func (b *breaker) pace() (step time.Duration, calls int) {
	halvings := 0
	if b.failed > failingCalls {
		halvings = min(1+(b.failed-failingCalls)/tamerCalls, 10)
	}
	interval := time.Second / failingRate << halvings // from one call to the next
	step = max(paceStep, interval)
	return step, int(step / interval)
}
