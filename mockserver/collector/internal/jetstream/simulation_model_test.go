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

// A model knows what may, and what must, become of each call at each destination.
type model struct {
	stored map[string]bool             // calls that are stored; false: that are not
	source map[string]string           // of the calls of which it is not known, too
	fates  map[string]map[string]*fate // by destination and call
}

// A fate is what became of a call at a destination.
type fate struct {
	leased   bool           // now, in this process
	message  string         // that it was handed out from
	attempt  int            // the last one whose end is stored
	state    tracking.State // how that ended
	due      time.Time      // when it may be tried again
	doubt    *fate          // how it may have ended: nobody was told that it is stored
	replays  int            // that were asked for: so often it may be handed out anew
	replayed int            // those of them that were promised: so often it must be
	anew     int            // how often it was
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

// accept notes what was said of a call, if that is known.
func (m *model) accept(source, id string, stored, known bool) {
	m.source[id] = source
	if known || stored {
		m.stored[id] = stored
	}
}

// crashed forgets who worked at what.
func (m *model) crashed() {
	for _, fates := range m.fates {
		for _, f := range fates {
			f.leased = false
		}
	}
}

// leased notes that an entry is handed out, and returns why it must not be.
func (s *simulation) leased(destination string, entry journal.Entry) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	message := path.Dir(entry.ID) // what follows is the attempt
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

// returned notes that an entry is given back.
func (s *simulation) returned(destination string, entry journal.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entry.Calls {
		s.model.at(destination, entry.Calls[i].ID).leased = false
	}
}

// finishing notes how an entry ends. The calls may be due again before that is known to
// be stored.
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

// finished notes that what finishing has returned is stored.
func (s *simulation) finished(destination string, entry journal.Entry, ends []*fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entry.Calls {
		if f := s.model.at(destination, entry.Calls[i].ID); f.doubt == ends[i] {
			f.end()
		}
	}
}

// end takes how the call may have ended for stored.
func (f *fate) end() {
	f.attempt, f.state, f.due, f.doubt = f.doubt.attempt, f.doubt.state, f.doubt.due, nil
}

// check holds a ledger, and what is listed as failed, against the model. Nothing is
// pending.
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
