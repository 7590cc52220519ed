package measure

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/persist"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
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
	Since       time.Time `json:"since"` // when counting began, perhaps by an earlier process
	Hour        Span      `json:"hour"`  // the last one, to a minute
	Day         Span      `json:"day"`   // the last 24 hours, to a quarter of an hour
	LastFailure *Failure  `json:"lastFailure,omitempty"`
}

// Destinations counts the attempts at each destination. Its methods may be called from
// many goroutines at once.
type Destinations struct {
	persister *persist.Persister[record]

	mu     sync.Mutex // guards what follows
	since  time.Time  // from when on attempts are counted at destinations that have none
	byName map[string]*destination
}

// A destination is what was counted of one.
type destination struct {
	key string // of its record

	mu         sync.Mutex // guards what follows
	since      time.Time
	hour, day  window
	failure    *Failure // it does not change
	plainError string   // of the failure, without words of the answer
	last       time.Time
	changed    bool // since it was written
}

// New returns counters that begin now.
func New() *Destinations {
	return &Destinations{persister: persist.New[record]("measures", "the measures of destinations", recordVersion), since: time.Now(), byName: map[string]*destination{}}
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
	ds.mu.Lock()
	d, ended := ds.counters(a.Destination), a.Time.Add(a.Duration)
	ds.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := a.Verdict != webhook.Success
	d.hour.add(ended, failed, class)
	d.day.add(ended, failed, class)
	d.last, d.changed = ended, true
	if failed {
		d.plainError = a.Error
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
// The lock is held.
func (ds *Destinations) counters(name string) *destination {
	d := ds.byName[name]
	if d != nil {
		return d
	}
	if len(ds.byName) == maxDestinations {
		ds.evictOldest()
	}
	d = &destination{key: text.Digest(name), since: ds.since, hour: newWindow(time.Hour, time.Minute), day: newWindow(24*time.Hour, 15*time.Minute)}
	ds.byName[name] = d
	return d
}

// evictOldest makes room: it forgets the destination whose last attempt is the longest
// ago, and of which attempts are counted from now on. The lock is held.
func (ds *Destinations) evictOldest() {
	oldest, at := "", time.Time{}
	for name, d := range ds.byName {
		d.mu.Lock()
		last := d.last
		d.mu.Unlock()
		if oldest == "" || last.Before(at) {
			oldest, at = name, last
		}
	}
	ds.remove(oldest)
	ds.since = time.Now()
}

// remove forgets a destination. The lock is held.
func (ds *Destinations) remove(name string) {
	if d := ds.byName[name]; d != nil {
		delete(ds.byName, name)
		ds.persister.MarkChanged(d.key)
	}
}

// Forget forgets a destination: another may get its name.
func (ds *Destinations) Delete(name string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.persister.MarkDeleted(name)
	ds.remove(name)
}

// Of returns how a destination is doing.
func (ds *Destinations) Of(name string) Measures {
	ds.mu.Lock()
	m, d := Measures{Since: ds.since}, ds.byName[name]
	ds.mu.Unlock()
	if d == nil {
		return m
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	m.Since, m.Hour, m.Day, m.LastFailure = d.since, d.hour.sum(now), d.day.sum(now), d.failure
	return m
}
