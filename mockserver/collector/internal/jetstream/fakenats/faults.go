package fakenats

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A Link is the network path of a client. It can be interrupted. A Link implements
// nats.InProcessConnProvider.
type Link struct {
	server   *Server
	isCut    bool // guarded by server.mu
	isSilent atomic.Bool
}

// Link returns a new path to the server.
func (s *Server) Link() *Link { return &Link{server: s} }

// InProcessConn implements nats.InProcessConnProvider.
func (l *Link) InProcessConn() (net.Conn, error) { return l.server.connect(l) }

// Cut closes the connections and refuses new ones, or accepts them again.
func (l *Link) Cut(cut bool) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.isCut = cut
	for _, c := range l.server.conns {
		if cut && c.link == l {
			_ = c.pipe.Close()
		}
	}
}

// Silence starts or stops the loss of all data on the path. Connections stay open. While the path is
// silent, it refuses new connections, because the client holds a sync.Mutex while it connects.
func (l *Link) Silence(silent bool) { l.isSilent.Store(silent) }

// SetDecider sets a function that decides about each request of an automatic server: its duration and
// its fate. The function must not call methods of the server.
func (s *Server) SetDecider(decide func(*Request) (time.Duration, Fate)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = decide
}

// delay executes a request after the time that decide returns. Messages of a connection for one
// stream stay in order. The server's lock is held.
func (s *Server) delay(r *Request) {
	r.key = s.keyOf(r)
	if st := s.streamOf(r.Subject); st != nil {
		r.Stream = st.config.Name
	} else if words := strings.Split(r.Subject, "."); words[0] == "$JS" {
		for _, word := range words {
			if s.streams[word] != nil {
				r.Stream = word
			}
		}
	}
	duration, fate := s.decide(r)
	end := time.Now().Add(duration)
	if s.streamOf(r.Subject) != nil {
		if last := r.conn.busy[r.Stream]; !end.After(last) {
			end = last.Add(1)
		}
		r.conn.busy[r.Stream] = end
	}
	time.AfterFunc(time.Until(end), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running {
			s.let(r, fate)
		}
	})
}

// Run calls Tick every interval until ctx ends.
func (s *Server) Run(ctx context.Context, interval time.Duration) {
	for ctx.Err() == nil {
		time.Sleep(interval)
		s.Tick()
	}
}

// ChangeLeader simulates a new leader of a stream: requests for messages are lost, and unacknowledged
// messages are delivered again.
func (s *Server) ChangeLeader(stream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[stream]
	if st == nil {
		return
	}
	for _, c := range st.consumers {
		c.waiting = nil
		for _, d := range c.pending {
			d.again = time.Time{}
		}
	}
}

// Lag simulates a server that lags behind without knowing it. It hides the last n messages of each
// stream from consumers without acknowledgements.
func (s *Server) Lag(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = n
	for _, name := range s.names() {
		for _, c := range s.streams[name].ordered() {
			c.dispatch()
		}
	}
}

// SetClock sets the difference between the server's clock and the clock of the simulation. It changes
// the times of messages, schedules and expiries, but no timeouts.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// now returns the time of the server's clock. The server's lock is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// LastSchedule returns the latest time of the scheduled messages, or the zero time. If the server's clock
// is behind, it publishes them later. If it is ahead, the clients wait.
func (s *Server) LastSchedule() (last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		for _, m := range st.messages {
			if at := m.due.Add(max(0, -s.ahead)); at.After(last) {
				last = at
			}
		}
	}
	return last
}

// Messages returns the data of the stored messages whose subjects match a pattern.
func (s *Server) Messages(pattern string) (all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		for _, m := range st.messages {
			if matches(m.subject, pattern) {
				all = append(all, m.data)
			}
		}
	}
	return all
}

// Streams returns the names of the streams.
func (s *Server) Streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names()
}

// Subjects returns the sorted subjects of the stored messages that match a pattern.
func (s *Server) Subjects(pattern string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, st := range s.streams {
		for subject := range st.subjects(pattern) {
			all[subject] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Lose removes the messages of a subject, and returns their data.
func (s *Server) Lose(subject string) (lost [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.remove(func(m *message) bool {
			if m.subject == subject {
				lost = append(lost, m.data)
			}
			return m.subject == subject
		})
	}
	return lost
}
