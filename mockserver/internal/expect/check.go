package expect

import "slices"

// A Status says how expectations stand.
type Status int

// Expectations are Waiting until all calls have come that are to come, and Holding then.
// They are Broken, and stay so, when too many have come.
const (
	Waiting Status = iota
	Holding
	Broken
)

// A Checker counts the calls of a request.
type Checker struct {
	request   *Request
	tallies   []tally
	turn      int // where calls are ordered: the expectation whose calls are due
	good, bad int // calls that were seen
}

// maxTitles is how many calls are listed.
const maxTitles = 10

// A tally is how many calls an expectation has.
type tally struct {
	got   int
	due   int      // that came in their turn
	first []string // the titles of the first
}

// NewChecker returns a Checker that has seen no calls.
func NewChecker(r *Request) *Checker {
	c := &Checker{request: r, tallies: make([]tally, len(r.Expect))}
	c.skip()
	return c
}

// Add counts a call. Calls are added in the order in which they came.
func (c *Checker) Add(call *Call) {
	if call.isBad() {
		c.bad++
	} else {
		c.good++
	}
	turn := c.turn
	for i, e := range c.request.Expect {
		if !e.takes(call) {
			continue
		}
		t := &c.tallies[i]
		if t.got++; t.got <= maxTitles {
			t.first = append(t.first, call.title())
		}
		if i == turn {
			t.due++
			c.skip()
		}
	}
	call.decoded = nil // which is larger than the call
}

// skip goes on to the next expectation that still waits for calls.
func (c *Checker) skip() {
	for c.turn < len(c.tallies) && c.tallies[c.turn].due >= c.request.Expect[c.turn].least {
		c.turn++
	}
}

// Status says how the expectations stand after the calls that were added.
func (c *Checker) Status() Status {
	status := Holding
	for i, e := range c.request.Expect {
		switch got := c.tallies[i].got; {
		case e.isBounded() && got > e.most:
			return Broken
		case got < e.least:
			status = Waiting
		}
	}
	if c.request.Ordered && c.turn < len(c.tallies) {
		return Waiting
	}
	return status
}

// IsBounded reports whether an expectation of the request can break.
func (r *Request) IsBounded() bool {
	return slices.ContainsFunc(r.Expect, (*Expectation).isBounded)
}

// WaitsForNone reports whether no call is to come.
func (r *Request) WaitsForNone() bool {
	return !slices.ContainsFunc(r.Expect, func(e *Expectation) bool { return e.least > 0 })
}
