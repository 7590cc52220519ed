package stats

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxDestinations is the maximum number of destinations that are counted.
const maxDestinations = 1000

// A Failure is a failed request.
type Failure struct {
	At     time.Time      `json:"at"`
	Status int            `json:"status,omitempty"` // status of the response; 0 if there was none
	Reason webhook.Reason `json:"reason,omitempty"`
	Error  string         `json:"error"` // error for display
	Source string         `json:"source"`
	CallID string         `json:"messageId"`
}

// Measures are the statistics of a destination.
type Measures struct {
	Since       time.Time `json:"since"` // start of counting, possibly in a previous run
	Hour        Span      `json:"hour"`  // accurate to a minute
	Day         Span      `json:"day"`   // accurate to 15 minutes
	LastFailure *Failure  `json:"lastFailure,omitempty"`
}

// Destinations counts the requests of each destination. A batch is one request. Destinations is safe for concurrent use.
type Destinations struct {
	persister *state.Persister[destinationRecord]

	mu     sync.Mutex // guards the fields below
	since  time.Time  // time when counting starts for new destinations
	byName map[string]*destination
}

// A destination has the counters of one destination.
type destination struct {
	key string // key of the stored record

	mu         sync.Mutex // guards the fields below
	since      time.Time
	hour, day  window
	failure    *Failure // immutable
	plainError string   // error of the failure, without the response
	last       time.Time
	changed    bool // whether the counters have changed since they were saved
}

// NewDestinations returns an empty Destinations.
func NewDestinations() *Destinations {
	return &Destinations{persister: state.NewPersister[destinationRecord]("measures", "the measures of destinations", destinationsVersion), since: time.Now(), byName: map[string]*destination{}}
}

// Observe implements event.Observer.
func (ds *Destinations) Observe(e event.Event) {
	a, ok := e.(tracking.Attempt)
	if !ok || a.Shared || a.Reason == webhook.ReasonCanceled {
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

// reached reports whether the request was sent to a receiver.
func reached(a *tracking.Attempt) bool {
	switch a.Reason {
	case webhook.ReasonPolicy, webhook.ReasonRequest, webhook.ReasonSelfSigned:
		return false
	}
	return !a.NotConnected
}

// counters returns the counters of a destination, and creates them if necessary. The lock must be
// held.
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

// evictOldest removes the destination whose last attempt is the oldest. It also sets since to the
// current time, because a destination that is added later may be the evicted one, and its earlier
// counts are lost. The lock must be held.
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

// remove removes a destination. The lock must be held.
func (ds *Destinations) remove(name string) {
	if d := ds.byName[name]; d != nil {
		delete(ds.byName, name)
		ds.persister.MarkChanged(d.key)
	}
}

// Delete removes the counters of a destination. Otherwise a new destination with the same name
// would have them.
func (ds *Destinations) Delete(name string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.persister.MarkDeleted(name)
	ds.remove(name)
}

// Of returns the measures of a destination.
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
