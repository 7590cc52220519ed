package measure

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxDestinations bounds of how many destinations attempts are counted: names come and go.
const maxDestinations = 1000

// A Failure is an attempt that failed.
type Failure struct {
	At     time.Time      `json:"at"`
	Status int            `json:"status,omitempty"` // of the answer, 0 where there was none
	Reason webhook.Reason `json:"reason,omitempty"`
	Error  string         `json:"error"` // why, for people
	Source string         `json:"source"`
	CallID string         `json:"messageId"`
}

// Measures say how a destination is doing.
type Measures struct {
	Since       time.Time `json:"since"` // when this process began to count
	Hour        Span      `json:"hour"`  // the last one, to a minute
	Day         Span      `json:"day"`   // the last 24 hours, to a quarter of an hour
	LastFailure *Failure  `json:"lastFailure,omitempty"`
}

// Destinations counts the attempts at each destination. Its methods may be called from
// many goroutines at once.
type Destinations struct {
	since time.Time

	mu     sync.Mutex // guards byName
	byName map[string]*destination
}

// A destination is what was counted of one.
type destination struct {
	mu        sync.Mutex // guards what follows
	hour, day window
	failure   *Failure // it does not change
	last      time.Time
}

// New returns counters that begin now.
func New() *Destinations {
	return &Destinations{since: time.Now(), byName: map[string]*destination{}}
}

// Observe implements event.Observer.
func (ds *Destinations) Observe(e event.Event) {
	a, ok := e.(tracking.Attempt)
	if !ok || a.Reason == webhook.ReasonCanceled {
		return
	}
	class := -1
	if reached(&a) {
		class = classOf(a.Duration)
	}
	d, ended := ds.of(a.Destination), a.Time.Add(a.Duration)
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := a.Verdict != webhook.Success
	d.hour.add(ended, failed, class)
	d.day.add(ended, failed, class)
	d.last = ended
	if failed {
		d.failure = &Failure{At: ended, Status: a.Status, Reason: a.Reason, Error: sender.Cause(&a.Attempt), Source: a.Source, CallID: a.CallID}
	}
}

// reached reports whether a request was sent to a receiver.
func reached(a *tracking.Attempt) bool {
	switch a.Reason {
	case webhook.ReasonPolicy, webhook.ReasonRequest, webhook.ReasonSelfSigned:
		return false
	}
	return !a.NotConnected
}

// of returns the counters of a destination, and makes them where there are none.
func (ds *Destinations) of(name string) *destination {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.byName[name]
	if d != nil {
		return d
	}
	if len(ds.byName) == maxDestinations {
		ds.forgetOldest()
	}
	d = &destination{hour: newWindow(time.Hour, time.Minute), day: newWindow(24*time.Hour, 15*time.Minute)}
	ds.byName[name] = d
	return d
}

// forgetOldest makes room: it forgets the destination whose last attempt is the longest
// ago. The lock is held.
func (ds *Destinations) forgetOldest() {
	oldest, at := "", time.Time{}
	for name, d := range ds.byName {
		d.mu.Lock()
		last := d.last
		d.mu.Unlock()
		if oldest == "" || last.Before(at) {
			oldest, at = name, last
		}
	}
	delete(ds.byName, oldest)
}

// Forget forgets a destination: another may get its name.
func (ds *Destinations) Forget(name string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.byName, name)
}

// Of returns how a destination is doing.
func (ds *Destinations) Of(name string) Measures {
	m := Measures{Since: ds.since}
	ds.mu.Lock()
	d := ds.byName[name]
	ds.mu.Unlock()
	if d == nil {
		return m
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	m.Hour, m.Day, m.LastFailure = d.hour.sum(now), d.day.sum(now), d.failure
	return m
}
