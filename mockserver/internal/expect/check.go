package expect

import "slices"

// A Status is the status of expectations.
type Status int

// Expectations are Waiting until all expected calls have arrived; then they are Holding. After too
// many calls, they are Broken permanently.
const (
	Waiting Status = iota
	Holding
	Broken
)

// A Checker counts the calls that match the expectations of a Request.
type Checker struct {
	request   *Request
	tallies   []tally
	next      int // index of the next expectation to fulfill, for ordered expectations
	good, bad int // numbers of accepted and rejected calls
}

// maxTitles is the maximum number of calls in a list.
const maxTitles = 10

// A tally counts the calls of an expectation.
type tally struct {
	got     int
	inOrder int      // number of calls that arrived in order
	first   []string // titles of the first calls
}

// NewChecker returns a Checker without calls.
func NewChecker(r *Request) *Checker {
	c := &Checker{request: r, tallies: make([]tally, len(r.Expect))}
	c.skip()
	return c
}

// Add counts a call. Calls must be added in order of arrival.
func (c *Checker) Add(call *Call) {
	if call.isBad() {
		c.bad++
	} else {
		c.good++
	}
	next := c.next
	for i, e := range c.request.Expect {
		if !e.takes(call) {
			continue
		}
		t := &c.tallies[i]
		if t.got++; t.got <= maxTitles {
			t.first = append(t.first, call.title())
		}
		if i == next {
			t.inOrder++
			c.skip()
		}
	}
	call.decoded = nil // frees the memory, which is larger than the call
}

// skip advances to the next expectation that needs calls.
func (c *Checker) skip() {
	for c.next < len(c.tallies) && c.tallies[c.next].inOrder >= c.request.Expect[c.next].least {
		c.next++
	}
}

// Status returns the status of the expectations after the added calls.
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
	if c.request.Ordered && c.next < len(c.tallies) {
		return Waiting
	}
	return status
}

// IsBounded reports whether any expectation limits the number of calls.
func (r *Request) IsBounded() bool {
	return slices.ContainsFunc(r.Expect, (*Expectation).isBounded)
}

// WaitsForNone reports whether no expectation requires a call.
func (r *Request) WaitsForNone() bool {
	return !slices.ContainsFunc(r.Expect, func(e *Expectation) bool { return e.least > 0 })
}
