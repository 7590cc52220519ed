package alerts

import (
	"cmp"
	"crypto/rand"
	"time"
)

const (
	// every is the least time between two alerts about one subject.
	every = time.Minute
	// settled is how long the queue and the storage must be in trouble before that is
	// told: calls that are done with are removed within seconds where room is short.
	settled = 10 * time.Second
	// forgottenAfter is how long it is tried to tell that something is over.
	forgottenAfter = time.Hour
)

// A subject is what alerts are about.
type subject struct {
	kind        kind
	destination string // empty where the kind is of none
}

// A finding is what a look at a subject shows.
type finding struct {
	bad    bool
	reason string    // why, as far as the look shows it
	since  time.Time // when it became bad; the zero time where it is not known
	bytes  int64     // that the queue holds
	limit  int64     // and where it refuses more
}

// A conditionState is the state of a condition.
type conditionState uint8

const (
	fine    conditionState = iota
	pending                // something is wrong, but not yet for long enough
	raised                 // something is wrong for long enough
)

// A condition is how a subject is, and what the webhook does not know of that.
//
//	        | bad                         | good | a call was given up
//	--------+-----------------------------+------+--------------------
//	fine    | pending                     |      | raised, told
//	pending | raised after a while, told  | fine |
//	raised  |                             | fine, told | told
//
// A change marked "told" is news until the webhook has received an alert of it. What
// changes before that is in the same alert: how often it was raised, and how many calls were
// given up. A call is given up in the condition of the kind given_up alone, which is good
// when none was for as long as a destination must be down.
type condition struct {
	state    conditionState
	finding  finding   // the newest
	badSince time.Time // while it is pending: since when
	since    time.Time // when it began to be bad, the last time that it was raised
	until    time.Time // when that was over
	lastCall time.Time // when a call was given up
	total    int64     // calls that were given up since
	calls    int64     // and that the webhook does not know of
	times    int       // how often it was raised without its knowledge
	news     bool      // whether there is something to tell
	sentAt   time.Time // when the last alert was received
	triedAt  time.Time // when one was sent
	draft    *draft    // the alert with the news, if it was sent before and nothing changed since
	sent     *draft    // the alert that was sent last, if it is this webhook that got it
}

// A draft is an alert to be sent.
type draft struct {
	alert
	id      string // the same each time it is sent
	subject subject
	times   int // how often it was raised, of what the webhook did not know
	tries   int // how often it was sent
}

// A machine decides which alerts to send, from what it is shown. It knows no clock: each
// method takes the time. It must not be used concurrently.
type machine struct {
	after      time.Duration // how long a destination must be down
	collector  string        // the name of the one that tells
	conditions map[subject]*condition
	reasons    map[string]string // why a call to a destination failed, the newest
}

func newMachine(collector string) *machine {
	return &machine{collector: collector, conditions: map[subject]*condition{}, reasons: map[string]string{}}
}

// wait returns how long a subject must be bad before that is told.
func (m *machine) wait(k kind) time.Duration {
	if k == kindDestination {
		return m.after
	}
	return settled
}

// isBad reports whether something is wrong with a subject, as far as was seen.
func (m *machine) isBad(s subject) bool {
	c := m.conditions[s]
	return c != nil && c.state != fine
}

// see takes in what a look at a subject shows.
func (m *machine) see(s subject, f finding, now time.Time) {
	c := m.conditions[s]
	if c == nil {
		if !f.bad {
			return
		}
		c = &condition{}
		m.conditions[s] = c
	}
	c.finding = f
	switch {
	case f.bad && c.state == fine:
		c.state, c.badSince = pending, now
		if !f.since.IsZero() {
			c.badSince = f.since
		}
	case !f.bad && c.state == pending:
		c.state = fine
	case !f.bad && c.state == raised:
		c.state, c.until = fine, now
		c.change()
	}
	if c.state == pending && now.Sub(c.badSince) >= m.wait(s.kind) {
		c.raise(c.badSince)
	}
}

// failed takes in why a call to a destination failed.
func (m *machine) failed(destination, reason string) { m.reasons[destination] = reason }

// gaveUp takes in that a call was given up.
func (m *machine) gaveUp(destination, reason string, now time.Time) {
	s := subject{kindGivenUp, destination}
	c := m.conditions[s]
	if c == nil {
		c = &condition{}
		m.conditions[s] = c
	}
	if c.state != raised {
		since, total := c.since, c.total
		if c.raise(now); c.calls > 0 { // of which the webhook does not know: they belong to these
			c.since, c.total = since, total
		}
	}
	c.calls++
	c.total++
	c.lastCall, c.finding = now, finding{bad: true, reason: reason}
	c.change()
}

// tick takes in that time has passed, and that there are only these destinations.
func (m *machine) tick(destinations map[string]bool, now time.Time) (dropped []kind) {
	for s, c := range m.conditions {
		switch {
		case s.kind == kindDestination && !destinations[s.destination]:
			m.see(s, finding{reason: "it was removed"}, now)
		case s.kind == kindGivenUp && c.state == raised && now.Sub(c.lastCall) >= m.after:
			c.state, c.until = fine, c.lastCall
			c.change()
		}
		if c.state == fine && c.news && now.Sub(c.until) >= forgottenAfter {
			c.news, c.calls, c.times = false, 0, 0
			dropped = append(dropped, s.kind)
		}
		if c.state == fine && !c.news && now.Sub(c.sentAt) >= every {
			delete(m.conditions, s)
		}
	}
	for name := range m.reasons {
		if !destinations[name] {
			delete(m.reasons, name)
		}
	}
	return dropped
}

// retell has all told again that is wrong now: another webhook knows nothing of it.
func (m *machine) retell() {
	for _, c := range m.conditions {
		c.sentAt, c.triedAt, c.draft, c.sent = time.Time{}, time.Time{}, nil, nil
		c.calls, c.times = 0, 0
		if c.news = c.state == raised; c.news {
			c.calls, c.times = c.total, 1
		}
	}
}

// next returns the alert that is to be sent now, or nil: of those that are due the one
// that was tried longest ago.
func (m *machine) next(now time.Time) *draft {
	var of subject
	var due *condition
	for s, c := range m.conditions {
		if !c.news || !c.sentAt.IsZero() && now.Sub(c.sentAt) < every {
			continue
		}
		if due == nil || cmp.Or(c.triedAt.Compare(due.triedAt), cmp.Compare(s.destination, of.destination), cmp.Compare(s.kind, of.kind)) < 0 {
			of, due = s, c
		}
	}
	if due == nil {
		return nil
	}
	due.triedAt = now
	if due.draft == nil {
		due.draft = m.write(of, due, now)
	}
	due.draft.tries++
	due.sent = due.draft
	return due.draft
}

// received takes in that an alert was received.
func (m *machine) received(d *draft, now time.Time) {
	c := m.conditions[d.subject]
	if c == nil || c.sent != d {
		return // it was another webhook that got it
	}
	c.sentAt = now
	c.calls -= d.Calls
	c.times -= d.times
	if c.draft == d { // else something changed while it was sent
		c.news, c.draft = false, nil
	}
}

// write writes the alert about a subject.
func (m *machine) write(s subject, c *condition, now time.Time) *draft {
	d := &draft{subject: s, id: "alert-" + rand.Text(), times: c.times}
	d.alert = alert{
		Type: "alert", Kind: s.kind, State: stateRaised, Collector: m.collector, Destination: s.destination,
		At: second(now), Since: second(c.since), Calls: c.calls, Total: c.total,
		Reason: c.finding.reason, Bytes: c.finding.bytes, LimitBytes: c.finding.limit,
	}
	if c.times > 1 {
		d.Times = c.times
	}
	if c.state != raised {
		d.State, d.Until = stateRecovered, second(c.until)
	} else if s.kind == kindDestination && d.Reason == "" {
		d.Reason = m.reasons[s.destination]
	}
	d.Reason = reasonOf(d.Reason)
	d.Text = d.describe()
	return d
}

func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func (c *condition) raise(since time.Time) {
	c.state, c.since, c.until, c.total = raised, since, time.Time{}, 0
	c.times++
	c.change()
}

// change notes that there is something to tell.
func (c *condition) change() { c.news, c.draft = true, nil }
