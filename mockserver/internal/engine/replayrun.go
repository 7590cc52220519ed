package engine

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// maxRuns is how many replays are remembered, unless more go on.
	maxRuns = 20
	// maxFollowed is of how many calls of a replay the outcome is followed, at about 50
	// bytes each.
	maxFollowed = 50_000
)

// ErrReplaying says that a replay to the destination goes on.
var ErrReplaying = errors.New("mockserver: a replay to this destination goes on")

// A ReplayRun is a replay that goes on by itself, and what became of its calls.
type ReplayRun struct {
	ID          string    `json:"id"`
	Destination string    `json:"destination"`
	Cause       string    `json:"cause,omitempty"` // that the calls had failed for; empty for any
	StartedAt   time.Time `json:"startedAt"`
	EndedAt     time.Time `json:"endedAt,omitzero"`  // when all calls were due again; zero: not yet
	Problem     string    `json:"problem,omitempty"` // what ended it before that
	Expected    int       `json:"expected"`          // how many calls it was to replay
	Replayed    int       `json:"replayed"`          // how many it has
	// Followed are those of which the outcome is known: all, or the first 50,000. They are
	// Pending, Delivered, Failed or Filtered, as this process has seen it.
	Followed  int `json:"followed"`
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Filtered  int `json:"filtered"`
}

// Goes reports whether it still makes calls due.
func (r ReplayRun) Goes() bool { return r.EndedAt.IsZero() }

// Decided returns of how many calls it is known what became of them.
func (r ReplayRun) Decided() int { return r.Delivered + r.Failed + r.Filtered }

// Settled reports whether nothing of it will change any more.
func (r ReplayRun) Settled() bool { return !r.Goes() && r.Pending == 0 }

// replayRuns are the newest replays. They are an event.Observer. Its methods may be called
// from many goroutines at once.
type replayRuns struct {
	going sync.WaitGroup

	mu     sync.Mutex   // guards what follows
	closed bool         // no other may begin
	all    []*replayRun // the newest last
}

// A replayRun is a ReplayRun, and where its calls stand. replayRuns.mu guards it.
type replayRun struct {
	ReplayRun
	calls map[event.Key]tracking.State // nil once it is settled, or its destination removed
}

// newestFirst returns the replays as they are now.
func (rs *replayRuns) newestFirst() []ReplayRun {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	runs := make([]ReplayRun, 0, len(rs.all))
	for _, r := range slices.Backward(rs.all) {
		runs = append(runs, r.ReplayRun)
	}
	return runs
}

func (rs *replayRuns) begin(destination, cause string, expected int) (*replayRun, error) {
	r := &replayRun{calls: map[event.Key]tracking.State{}, ReplayRun: ReplayRun{
		ID: strings.ToLower(rand.Text()[:12]), Destination: destination, Cause: cause, StartedAt: time.Now(), Expected: expected,
	}}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch {
	case rs.closed:
		return nil, state.ErrClosed
	case slices.ContainsFunc(rs.all, func(r *replayRun) bool { return r.Destination == destination && r.Goes() }):
		return nil, ErrReplaying
	}
	for len(rs.all) >= maxRuns {
		ended := slices.IndexFunc(rs.all, func(r *replayRun) bool { return !r.Goes() })
		if ended < 0 {
			break // one goes on for each destination at most
		}
		rs.all = slices.Delete(rs.all, ended, ended+1)
	}
	rs.going.Add(1)
	rs.all = append(rs.all, r)
	return r, nil
}

func (rs *replayRuns) end(r *replayRun, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.EndedAt = time.Now()
	if err != nil && r.Problem == "" {
		r.Problem = err.Error()
	}
	r.settle()
}

// close lets no other begin, and waits for those that go on.
func (rs *replayRuns) close() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.going.Wait()
}

// begins notes that calls are about to be due again, and reports whether they may be: not
// where the destination was removed, of which there may be another of the name. r is nil
// where nobody follows.
func (rs *replayRuns) begins(r *replayRun, calls []tracking.Call) bool {
	if r == nil {
		return true
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.calls == nil {
		return false
	}
	for i := range calls {
		key := event.KeyOf(calls[i].Source, calls[i].ID)
		if _, known := r.calls[key]; !known && len(r.calls) < maxFollowed {
			r.calls[key] = tracking.StatePending
			r.Followed++
			r.Pending++
		}
	}
	r.Replayed += len(calls)
	return true
}

// fails takes back what begins noted: the journal has not taken the calls.
func (rs *replayRuns) fails(r *replayRun, calls []tracking.Call) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i := range calls {
		key := event.KeyOf(calls[i].Source, calls[i].ID)
		if was, known := r.calls[key]; known {
			*r.count(was)--
			r.Followed--
			delete(r.calls, key)
		}
	}
	r.Replayed -= len(calls)
}

// Observe implements event.Observer.
func (rs *replayRuns) Observe(e event.Event) {
	ended, ok := e.(tracking.Ended)
	if !ok || ended.Attempt == 0 { // that it was replayed
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var key event.Key
	for _, r := range rs.all {
		if r.calls == nil || r.Destination != ended.Destination {
			continue
		}
		if key == (event.Key{}) {
			key = event.KeyOf(ended.Source, ended.CallID)
		}
		if was, known := r.calls[key]; known && was != ended.State {
			*r.count(was)--
			*r.count(ended.State)++
			r.calls[key] = ended.State
			r.settle()
		}
	}
}

func (r *replayRun) count(s tracking.State) *int {
	switch s {
	case tracking.StateDelivered:
		return &r.Delivered
	case tracking.StateFailed:
		return &r.Failed
	case tracking.StateFiltered:
		return &r.Filtered
	default:
		return &r.Pending
	}
}

// settle lets the outcome stand where no call is pending.
func (r *replayRun) settle() {
	if r.Settled() {
		r.calls = nil
	}
}

// forget ends following calls of a destination that was removed.
func (rs *replayRuns) forget(destination string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.all {
		if r.Destination == destination && r.calls != nil {
			r.calls, r.Problem = nil, "the destination was removed, with the calls that were pending"
			r.Followed, r.Pending = r.Decided(), 0
		}
	}
}
