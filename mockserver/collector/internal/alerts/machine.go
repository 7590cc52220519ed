package alerts

import (
	"cmp"
	"crypto/rand"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// every is the minimum time between two alerts about the same subject.
	every = time.Minute
	// settled is how long a condition must last before an alert, unless it is about a
	// destination. A queue near its limit usually removes completed calls within seconds.
	settled = 10 * time.Second
	// dropAfter is how long the Alerter tries to report a recovery.
	dropAfter = time.Hour
)

// A subject identifies a condition.
type subject struct {
	kind        kind
	destination string // empty for kinds without a destination
}

// A finding is the result of checking a subject.
type finding struct {
	bad       bool
	reason    string    // may be empty
	messageID string    // of the call that failed; empty if the reason does not concern a call
	event     string    // of the same call: the name of its event, page or screen, or its type
	since     time.Time // when it became bad; zero if unknown
	bytes     int64     // size of the queue
	limit     int64     // limit of the queue
}

// A conditionState is the state of a condition.
type conditionState uint8

const (
	fine    conditionState = iota
	pending                // bad, but not for long enough
	raised                 // bad for long enough
)

// A condition is the state of a subject, with the changes that the webhook has not received.
//
//	        | bad                          | good         | call failed
//	--------+------------------------------+--------------+---------------
//	fine    | pending                      |              | raised, alert
//	pending | raised after a while, alert  | fine         |
//	raised  |                              | fine, alert  | alert
//
// A change marked "alert" is news until the webhook has received an alert about it. Further
// changes in the meantime are added to the same alert. Only conditions of the kind given_up count
// failed calls. Such a condition becomes fine when no call has failed during the time for which a
// destination must be down before an alert. It also becomes fine when the destination is removed and
// added again.
type condition struct {
	state    conditionState
	finding  finding   // latest finding
	badSince time.Time // when it became bad, if pending
	since    time.Time // when it was last raised
	until    time.Time // when it recovered
	lastCall time.Time // when a call last failed
	total    int64     // number of calls that failed since the condition was raised
	calls    int64     // number of failed calls that have not been reported
	times    int       // number of unreported changes to raised
	news     bool      // whether there is a change to report
	sentAt   time.Time // when the webhook received the last alert
	triedAt  time.Time // when an attempt to send an alert was last made
	draft    *draft    // alert with the news; nil if it was not sent or if the condition has changed since
	sent     *draft    // last alert that was sent to this webhook
}

// A draft is an alert to send.
type draft struct {
	alert
	id      string // alert ID, the same for all attempts
	subject subject
	times   int // number of changes to raised that this alert reports
	tries   int // number of attempts
}

// A machine decides which alerts to send. Its methods take the current time as an argument. It is
// not safe for concurrent use.
type machine struct {
	after      time.Duration // downtime of a destination before an alert
	collector  string        // name of the collector in alerts
	conditions map[subject]*condition
	failures   map[string]finding // latest failure of each destination
}

func newMachine(collector string) *machine {
	return &machine{collector: collector, conditions: map[subject]*condition{}, failures: map[string]finding{}}
}

// wait returns how long a condition must last before an alert.
func (m *machine) wait(k kind) time.Duration {
	if k == kindDestination {
		return m.after
	}
	return settled
}

// isBad reports whether a subject is pending or raised.
func (m *machine) isBad(s subject) bool {
	c := m.conditions[s]
	return c != nil && c.state != fine
}

// see processes a finding about a subject.
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

// recordFailure records a call that failed permanently.
func (m *machine) recordFailure(destination string, f finding, now time.Time) {
	s := subject{kindFailedCalls, destination}
	c := m.conditions[s]
	if c == nil {
		c = &condition{}
		m.conditions[s] = c
	}
	if c.state != raised {
		since, total := c.since, c.total
		if c.raise(now); c.calls > 0 { // the unreported calls belong to this condition
			c.since, c.total = since, total
		}
	}
	c.calls++
	c.total++
	c.lastCall, c.finding = now, f
	c.change()
}

// tick processes the passage of time, and conditions of removed destinations. attached contains the
// attachment times of the destinations. tick returns the kinds of the alerts that it dropped.
func (m *machine) tick(attached map[string]time.Time, now time.Time) (dropped []kind) {
	for s, c := range m.conditions {
		since, exists := attached[s.destination]
		switch {
		case s.kind == kindDestination && !exists:
			m.see(s, finding{reason: "it was removed"}, now)
		case s.kind == kindFailedCalls && c.state == raised && (now.Sub(c.lastCall) >= m.after || since.After(c.lastCall)):
			c.state, c.until = fine, now
			c.change()
		}
		if c.state == fine && c.news && now.Sub(c.until) >= dropAfter {
			c.news, c.calls, c.times = false, 0, 0
			dropped = append(dropped, s.kind)
		}
		if c.state == fine && !c.news && now.Sub(c.sentAt) >= every {
			delete(m.conditions, s)
		}
	}
	for name := range m.failures {
		if _, exists := attached[name]; !exists {
			delete(m.failures, name)
		}
	}
	return dropped
}

// resendAll makes all current alerts pending again, for a new webhook.
func (m *machine) resendAll() {
	for _, c := range m.conditions {
		c.sentAt, c.triedAt, c.draft, c.sent = time.Time{}, time.Time{}, nil, nil
		c.calls, c.times = 0, 0
		if c.news = c.state == raised; c.news {
			c.calls, c.times = c.total, 1
		}
	}
}

// next returns the alert to send now, or nil. If several alerts are pending, it returns the alert
// with the oldest last attempt.
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

// received records that the webhook received an alert.
func (m *machine) received(d *draft, now time.Time) {
	c := m.conditions[d.subject]
	if c == nil || c.sent != d {
		return // a previous webhook received the alert
	}
	c.sentAt = now
	c.calls -= d.Calls
	c.times -= d.times
	if c.draft == d { // the condition did not change during the request
		c.news, c.draft = false, nil
	}
}

// write creates the alert about a subject.
func (m *machine) write(s subject, c *condition, now time.Time) *draft {
	d := &draft{subject: s, id: "alert-" + rand.Text(), times: c.times}
	f := c.finding
	if c.state == raised && s.kind == kindDestination && f.reason == "" {
		f = m.failures[s.destination]
	}
	d.alert = alert{
		Type: "alert", Kind: s.kind, State: stateRaised, Collector: m.collector, Destination: s.destination,
		At: second(now), Since: second(c.since), Calls: c.calls, Total: c.total,
		Reason: reasonOf(f.reason), Event: text.Cut(maxEvent, f.event), MessageID: f.messageID, Bytes: f.bytes, LimitBytes: f.limit,
	}
	if c.times > 1 {
		d.Times = c.times
	}
	if c.state != raised {
		d.State, d.Until = stateRecovered, second(c.until)
		if s.kind == kindFailedCalls {
			d.Until = second(c.lastCall)
		}
		d.Event, d.MessageID = "", ""
	}
	d.Text = d.describe()
	return d
}

func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func (c *condition) raise(since time.Time) {
	c.state, c.since, c.until, c.total = raised, since, time.Time{}, 0
	c.times++
	c.change()
}

// change records a change to report.
func (c *condition) change() { c.news, c.draft = true, nil }
