package jetstream

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A model is the possible and required state of each call at each destination.
type model struct {
	stored map[string]bool             // whether a call is stored; false means certainly not stored
	source map[string]string           // sources of all calls, including calls with an unknown result
	fates  map[string]map[string]*fate // keyed by destination and call
}

// A fate is the state of a call at a destination.
type fate struct {
	leased   bool           // whether this process has leased the call
	message  string         // message that contains the call
	attempt  int            // last attempt with a stored result
	state    tracking.State // result of that attempt
	due      time.Time      // time of the next attempt
	doubt    *fate          // possible result that is not confirmed to be stored
	replays  int            // number of requested replays, the maximum of anew
	replayed int            // number of confirmed replays, the minimum of anew
	anew     int            // number of leases after a final result
}

func newModel() *model {
	return &model{stored: map[string]bool{}, source: map[string]string{}, fates: map[string]map[string]*fate{"crm": {}, "mail": {}}}
}

func (m *model) at(destination, id string) *fate {
	f := m.fates[destination][id]
	if f == nil {
		f = &fate{}
		m.fates[destination][id] = f
	}
	return f
}

// accept records the result of Append, if known.
func (m *model) accept(source, id string, stored, known bool) {
	m.source[id] = source
	if known || stored {
		m.stored[id] = stored
	}
}

// crashed removes all leases.
func (m *model) crashed() {
	for _, fates := range m.fates {
		for _, f := range fates {
			f.leased = false
		}
	}
}

// leased records a lease. If the lease is wrong, it returns the problem.
func (s *simulation) leased(destination string, entry journal.Entry) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	message := path.Dir(entry.ID) // the ID without the attempt
	for i := range entry.Calls {
		id := entry.Calls[i].ID
		f := s.model.at(destination, id)
		if stored, known := s.model.stored[id]; known && !stored {
			problem = id + " was refused"
		}
		if f.leased {
			problem = id + " is handed out twice at a time"
		}
		again := f.message == message
		if f.doubt != nil && (again && entry.Attempt == f.doubt.attempt+1 || !again && f.doubt.state == tracking.StateFailed) {
			f.end()
		}
		f.doubt = nil
		if !again && f.anew < f.replays && f.state == tracking.StateFailed {
			*f = fate{replays: f.replays, replayed: f.replayed, anew: f.anew + 1}
		}
		switch {
		case f.attempt > 0 && f.state != tracking.StatePending:
			problem = fmt.Sprintf("%s has ended: it is %v", id, f.state)
		case entry.Attempt != f.attempt+1:
			problem = fmt.Sprintf("%s has had %d attempts", id, f.attempt)
		case time.Now().Before(f.due.Truncate(time.Millisecond)):
			problem = fmt.Sprintf("%s is due in %v", id, time.Until(f.due))
		}
		f.leased, f.message = true, message
	}
	return problem
}

// returned records a returned lease.
func (s *simulation) returned(destination string, entry journal.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entry.Calls {
		s.model.at(destination, entry.Calls[i].ID).leased = false
	}
}

// finishing records the result of an entry. Until the result is confirmed, the calls may be leased
// again.
func (s *simulation) finishing(destination string, entry journal.Entry, result journal.Result) (ends []*fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entry.Calls {
		end := &fate{attempt: entry.Attempt, state: result.Outcomes[i].State, due: result.RetryAt}
		f := s.model.at(destination, entry.Calls[i].ID)
		f.leased, f.doubt = false, end
		ends = append(ends, end)
	}
	return ends
}

// finished confirms the results that finishing returned.
func (s *simulation) finished(destination string, entry journal.Entry, ends []*fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entry.Calls {
		if f := s.model.at(destination, entry.Calls[i].ID); f.doubt == ends[i] {
			f.end()
		}
	}
}

// end applies the possible result.
func (f *fate) end() {
	f.attempt, f.state, f.due, f.doubt = f.doubt.attempt, f.doubt.state, f.doubt.due, nil
}

// check compares a ledger and the list of failed calls with the model. No calls may be pending.
func (m *model) check(l tracking.Ledger, listed map[string]bool) (problem string) {
	n := map[tracking.State]int64{}
	for _, id := range slices.Sorted(maps.Keys(m.source)) {
		f := m.fates[l.Destination][id]
		takes := l.Destination == "crm" || m.source[id] == "web"
		switch {
		case f == nil && takes && m.stored[id]:
			return id + " was accepted and never handed out"
		case f == nil:
			continue
		case f.replayed > f.anew:
			return fmt.Sprintf("%s was replayed %d times, and handed out again %d times", id, f.replayed, f.anew)
		case f.doubt != nil:
			f = f.doubt
		}
		switch {
		case f.state == tracking.StatePending || f.leased:
			return id + " was accepted and has not ended"
		case listed[id] != (f.state == tracking.StateFailed):
			return fmt.Sprintf("%s is %v, and whether it is listed as failed is %v", id, f.state, listed[id])
		}
		n[f.state]++
	}
	for state, have := range map[tracking.State]int64{tracking.StateDelivered: l.Delivered, tracking.StateFiltered: l.Filtered, tracking.StateFailed: l.Failed} {
		if have != n[state] {
			return fmt.Sprintf("%d calls are %v, and not %d", n[state], state, have)
		}
	}
	return ""
}
