package stats

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// maxGroups is the maximum number of groups of failures. The same limit applies to groups of
	// rejections and refusals.
	maxGroups = 200
	// othersKey is the record key of the evicted groups. It differs from all group IDs.
	othersKey = "others"
)

// Causes groups failures, rejections and refusals by cause. It is safe for concurrent use.
type Causes struct {
	persister *state.Persister[causeRecord]

	mu      sync.Mutex // guards the fields below
	since   time.Time
	failed  groups
	refused groups // groups of rejections and refusals
}

type groups struct {
	byKey  map[Key]*group
	others Others
}

// Others counts evicted groups.
type Others struct {
	Groups int   `json:"groups"` // number of evicted groups
	Calls  int64 `json:"calls"`  // number of their failed attempts, calls and requests
}

// A Report lists all groups.
type Report struct {
	Since   time.Time `json:"since"`   // start of counting, possibly in a previous run
	Failed  []Group   `json:"failed"`  // groups of failures; the most frequent in the last hour is first
	Refused []Group   `json:"refused"` // groups of rejections and refusals, in the same order
	// OtherFailed and OtherRefused count the evicted groups.
	OtherFailed  Others `json:"otherFailed"`
	OtherRefused Others `json:"otherRefused"`
}

// NewCauses returns an empty Causes.
func NewCauses() *Causes {
	return &Causes{
		persister: state.NewPersister[causeRecord]("causes", "the groups of problems", causesVersion),
		since:     time.Now(), failed: groups{byKey: map[Key]*group{}}, refused: groups{byKey: map[Key]*group{}},
	}
}

// Observe implements event.Observer.
func (c *Causes) Observe(e event.Event) {
	switch e := e.(type) {
	case tracking.Attempt:
		if e.Verdict != webhook.Success && e.Reason != webhook.ReasonCanceled {
			c.addAttempt(&e)
		}
	case tracking.Ended:
		if e.State == tracking.StateFailed && e.Attempt > 0 {
			c.addFailed(&e)
		}
	case tracking.Rejection:
		c.addRefused(KeyOf(Rejected, &e), e.ReceivedAt, 1, Sample{Message: e.Message}, e.Sender)
	case event.Refusal:
		r := tracking.Rejection{Code: e.Code, Message: e.Message, Source: e.Source}
		c.addRefused(KeyOf(Refused, &r), e.At, max(e.Count, 1), Sample{Message: e.Message, Status: e.Status}, e.Sender)
	}
}

func (c *Causes) addAttempt(a *tracking.Attempt) {
	message := sender.Cause(&a.Attempt)
	key := Key{Kind: Failed, Destination: a.Destination, Cause: CauseOf(message)}
	at, from := a.Time.Add(a.Duration), tracking.Sender{Library: libraryOf(a.Call)}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group(&c.failed, key)
	g.seen(at)
	g.attempts.add(at, 1)
	g.senders.add(at, a.Source, from, 1)
	g.addCall(Call{Source: a.Source, ID: a.CallID, At: at})
	response := a.ResponseBody[:min(len(a.ResponseBody), maxResponse)]
	g.sample = Sample{Message: text.Cut(maxMessage, message), Status: a.Status, Answer: text.Valid(response)}
}

// addFailed counts a call that failed permanently. It does not count the last attempt, which
// addAttempt has counted.
func (c *Causes) addFailed(e *tracking.Ended) {
	key := Key{Kind: Failed, Destination: e.Destination, Cause: CauseOf(e.Reason)}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group(&c.failed, key)
	g.seen(e.At)
	g.calls.add(e.At, 1)
	if g.attempts.total > 0 {
		return
	}
	g.sample.Message = text.Cut(maxMessage, e.Reason)
	g.addCall(Call{Source: e.Source, ID: e.CallID, At: e.At})
	g.senders.add(e.At, e.Source, tracking.Sender{Library: libraryOf(e.Call)}, 1)
}

// addRefused counts n rejected calls or refused requests.
func (c *Causes) addRefused(key Key, at time.Time, n int, sample Sample, from tracking.Sender) {
	sample.Message = text.Cut(maxMessage, sample.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group(&c.refused, key)
	g.seen(at)
	g.calls.add(at, n)
	g.senders.add(at, key.Source, from, n)
	g.sample = sample
}

// libraryOf returns the name and version of the library that sent a call, or "" if it is unknown.
func libraryOf(c *tracking.Call) string {
	if c == nil {
		return ""
	}
	return fields.Library(fields.Find(c.Body, fields.Context))
}

// group returns the group of a key, and creates it if it is missing. The lock must be held.
func (c *Causes) group(gs *groups, key Key) *group {
	if g := gs.byKey[key]; g != nil {
		return g
	}
	if len(gs.byKey) == maxGroups {
		c.evictQuietest(gs)
	}
	g := &group{Key: key, id: key.ID()}
	gs.byKey[key] = g
	return g
}

// evictQuietest removes the group whose last event is the oldest. The lock must be held.
func (c *Causes) evictQuietest(gs *groups) {
	quietest := slices.MinFunc(slices.Collect(maps.Values(gs.byKey)), func(a, b *group) int { return a.last.Compare(b.last) })
	gs.others.Groups++
	gs.others.Calls += max(quietest.attempts.total, quietest.calls.total)
	c.remove(gs, quietest)
	c.persister.MarkChanged(othersKey)
}

func (c *Causes) remove(gs *groups, g *group) {
	delete(gs.byKey, g.Key)
	c.persister.MarkChanged(g.id)
}

// Delete removes the failures of a destination. Otherwise a new destination with the same name
// would have them.
func (c *Causes) Delete(destination string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.persister.MarkDeleted(destination)
	for _, g := range c.failed.byKey {
		if g.Destination == destination {
			c.remove(&c.failed, g)
		}
	}
}

// Report returns the current groups.
func (c *Causes) Report() Report {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return Report{
		Since:  c.since,
		Failed: c.failed.view(now), OtherFailed: c.failed.others,
		Refused: c.refused.view(now), OtherRefused: c.refused.others,
	}
}

// view returns copies of the groups, most frequent first.
func (gs *groups) view(now time.Time) []Group {
	views := make([]Group, 0, len(gs.byKey))
	for _, g := range gs.byKey {
		views = append(views, g.view(now))
	}
	slices.SortFunc(views, func(a, b Group) int {
		return cmp.Or(cmp.Compare(max(b.Attempts.Hour, b.Calls.Hour), max(a.Attempts.Hour, a.Calls.Hour)),
			cmp.Compare(max(b.Attempts.Day, b.Calls.Day), max(a.Attempts.Day, a.Calls.Day)),
			b.Last.Compare(a.Last), strings.Compare(a.ID, b.ID))
	})
	return views
}
