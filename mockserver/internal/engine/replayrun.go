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
	// maxRuns is the maximum number of retained replays, except running ones.
	maxRuns = 20
	// maxFollowed is the maximum number of calls with tracked results per replay. Each takes
	// about 50 bytes.
	maxFollowed = 50_000
)

// ErrReplaying reports that a replay to the destination is running.
var ErrReplaying = errors.New("mockserver: a replay to this destination is running")

// A ReplayRun is a background replay with the results of its calls.
type ReplayRun struct {
	ID          string    `json:"id"`
	Destination string    `json:"destination"`
	Cause       string    `json:"cause,omitempty"` // cause of the selected failures; empty for all causes
	StartedAt   time.Time `json:"startedAt"`
	EndedAt     time.Time `json:"endedAt,omitzero"`  // time when all calls were pending again; zero while running
	Problem     string    `json:"problem,omitempty"` // error that stopped the replay
	Missing     []string  `json:"missing,omitempty"` // selected messageIds without a matching call
	Expected    int       `json:"expected"`          // number of calls to replay
	Replayed    int       `json:"replayed"`          // number of calls replayed so far
	// Followed is the number of calls with tracked results: all calls, or the first 50,000. The
	// counts below are the numbers of these calls in each state, as observed by this process.
	Followed int `json:"followed"`
	event.Counts
}

// Running reports whether the replay is still running.
func (r ReplayRun) Running() bool { return r.EndedAt.IsZero() }

// Decided returns the number of calls with a result.
func (r ReplayRun) Decided() int { return r.Delivered + r.Failed + r.Filtered }

// Settled reports whether the counts are final.
func (r ReplayRun) Settled() bool { return !r.Running() && r.Pending == 0 }

// replayRuns contains the newest replays. It is an event.Observer. Its methods are safe for
// concurrent use.
type replayRuns struct {
	going sync.WaitGroup

	mu     sync.Mutex   // guards the fields below
	closed bool         // no new replay may begin
	all    []*replayRun // newest last
}

// A replayRun is a ReplayRun with the states of its calls. It is guarded by replayRuns.mu.
type replayRun struct {
	ReplayRun
	calls map[event.Key]tracking.State // nil when the results are final or the destination was removed
}

// newestFirst returns copies of the replays, newest first.
func (rs *replayRuns) newestFirst() []ReplayRun {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	runs := make([]ReplayRun, 0, len(rs.all))
	for _, r := range slices.Backward(rs.all) {
		runs = append(runs, r.ReplayRun)
	}
	return runs
}

func (rs *replayRuns) begin(destination string, sel *Selection, expected int) (*replayRun, error) {
	r := &replayRun{calls: map[event.Key]tracking.State{}, ReplayRun: ReplayRun{
		ID: strings.ToLower(rand.Text()[:12]), Destination: destination, Cause: sel.Cause, StartedAt: time.Now(), Missing: sel.Missing(), Expected: expected,
	}}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch {
	case rs.closed:
		return nil, state.ErrClosed
	case slices.ContainsFunc(rs.all, func(r *replayRun) bool { return r.Destination == destination && r.Running() }):
		return nil, ErrReplaying
	}
	for len(rs.all) >= maxRuns {
		ended := slices.IndexFunc(rs.all, func(r *replayRun) bool { return !r.Running() })
		if ended < 0 {
			break // at most one replay runs per destination
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

// close prevents new replays, and waits for the running ones.
func (rs *replayRuns) close() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.going.Wait()
}

// track records calls before they become pending. It returns false if the destination was
// removed, even if a new destination has the same name. r may be nil.
func (rs *replayRuns) track(r *replayRun, calls []tracking.Call) bool {
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

// untrack reverts track for calls that the journal did not store.
func (rs *replayRuns) untrack(r *replayRun, calls []tracking.Call) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i := range calls {
		key := event.KeyOf(calls[i].Source, calls[i].ID)
		if was, known := r.calls[key]; known {
			*r.Of(was)--
			r.Followed--
			delete(r.calls, key)
		}
	}
	r.Replayed -= len(calls)
}

// Observe implements event.Observer.
func (rs *replayRuns) Observe(e event.Event) {
	ended, ok := e.(tracking.Ended)
	if !ok || ended.Attempt == 0 { // the "replayed" event is not an attempt
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
			*r.Of(was)--
			*r.Of(ended.State)++
			r.calls[key] = ended.State
			r.settle()
		}
	}
}

// settle stops tracking if no call is pending.
func (r *replayRun) settle() {
	if r.Settled() {
		r.calls = nil
	}
}

// forget stops tracking the calls of a removed destination.
func (rs *replayRuns) forget(destination string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.all {
		if r.Destination == destination && r.calls != nil {
			r.calls, r.Problem = nil, "the destination was removed with its pending calls"
			r.Followed, r.Pending = r.Decided(), 0
		}
	}
}
