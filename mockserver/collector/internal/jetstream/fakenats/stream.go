package fakenats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A stream stores the messages of a JetStream stream in memory.
type stream struct {
	config       jetstream.StreamConfig
	created      time.Time
	messages     []*message // ordered by sequence number
	last         uint64     // last sequence number
	lastTime     time.Time
	acknowledged uint64 // all messages up to this sequence number were acknowledged to their publishers
	ids          map[string]*message
	consumers    map[string]*consumer
}

// A message is a stored message.
type message struct {
	seq     uint64
	subject string
	head    []byte
	header  nats.Header
	data    []byte
	at      time.Time
	expires time.Time // zero if the message does not expire
	due     time.Time // time to publish a scheduled message to its target; otherwise zero

	replaced *message // message that this message replaced, or nil
}

// size returns the size of a message in the stream.
func (m *message) size() uint64 {
	n := 22 + len(m.subject) + len(m.data) + 8
	if len(m.head) > 0 {
		n += 4 + len(m.head)
	}
	return uint64(n)
}

// isLazy reports whether messages are acknowledged before they are on the disk.
func (st *stream) isLazy() bool { return st.config.PersistMode == jetstream.AsyncPersistMode }

// names returns the sorted names of the streams. The caller must hold the server's lock. This
// applies to all functions in this file.
func (s *Server) names() []string { return slices.Sorted(maps.Keys(s.streams)) }

// streamOf returns the stream of a subject, or nil.
func (s *Server) streamOf(subject string) *stream {
	for _, st := range s.streams {
		if slices.ContainsFunc(st.config.Subjects, func(p string) bool { return matches(subject, p) }) {
			return st
		}
	}
	return nil
}

// matches reports whether a subject matches a pattern.
func matches(subject, pattern string) bool {
	for {
		want, laterWant, more := strings.Cut(pattern, ".")
		have, laterHave, moreHave := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != have || more != moreHave:
			return false
		case !more:
			return true
		}
		pattern, subject = laterWant, laterHave
	}
}

// publish stores a message, and returns the response.
func (s *Server) publish(st *stream, r *Request) any {
	m := &message{subject: r.Subject, head: r.head, data: r.data, at: s.now()}
	if len(r.head) > 0 {
		var err error
		if m.header, err = nats.DecodeHeadersMsg(r.head); err != nil {
			panic(err)
		}
	}
	get := func(name string) string { return m.header.Get(name) }
	response := pubResponse{Stream: st.config.Name}
	if id := get(nats.MsgIdHdr); id != "" && st.ids[id] != nil && m.at.Sub(st.ids[id].at) < st.config.Duplicates {
		response.Seq, response.Duplicate = st.ids[id].seq, true
		st.acknowledge(r, response.Seq)
		return response
	}
	expected := func(name string, have uint64) bool {
		want, err := strconv.ParseUint(get(name), 10, 64)
		if err != nil || want == have {
			return true
		}
		response.Error = &apiError{400, 10071, fmt.Sprintf("wrong last sequence: %d", have)}
		return false
	}
	var before uint64
	if have := st.lastOf(r.Subject); have != nil {
		before = have.seq
	}
	if !expected(nats.ExpectedLastSeqHdr, st.last) || !expected(nats.ExpectedLastSubjSeqHdr, before) {
		return response
	}
	if s.full {
		response.Error = &apiError{503, 10023, "insufficient resources"}
		return response
	}
	if max := st.config.MaxBytes; st.config.Discard == jetstream.DiscardNew && max > 0 && st.bytes()+m.size() > uint64(max) {
		response.Error = &apiError{503, 10077, "maximum bytes exceeded"}
		return response
	}
	if ttl, err := time.ParseDuration(get(nats.MsgTTLHdr)); err == nil {
		m.expires = m.at.Add(ttl)
	}
	if at, ok := strings.CutPrefix(get("Nats-Schedule"), "@at "); ok {
		m.due, _ = time.Parse(time.RFC3339Nano, at)
	}
	st.store(m)
	if id := get(nats.MsgIdHdr); id != "" {
		st.ids[id] = m
	}
	response.Seq = m.seq
	st.acknowledge(r, m.seq)
	return response
}

// acknowledge records that a message is acknowledged to its publisher, unless the acknowledgement is
// lost.
func (st *stream) acknowledge(r *Request, seq uint64) {
	if r.reply != "" {
		st.acknowledged = max(st.acknowledged, seq)
	}
}

// store appends a message, and removes messages that exceed the stream's limits.
func (st *stream) store(m *message) {
	st.last++
	m.seq, st.lastTime = st.last, m.at
	if st.config.MaxMsgsPerSubject == 1 {
		old := st.lastOf(m.subject)
		st.remove(func(o *message) bool { return o == old })
		if st.config.Retention != jetstream.WorkQueuePolicy { // consumers of a work queue do not need the message
			m.replaced = old
		}
	}
	st.messages = append(st.messages, m)
	if max := st.config.MaxBytes; max > 0 && st.config.Discard == jetstream.DiscardOld {
		for st.bytes() > uint64(max) {
			st.messages = slices.Delete(st.messages, 0, 1)
		}
	}
	for _, c := range st.ordered() {
		c.dispatch()
	}
}

// ordered returns the consumers, oldest first.
func (st *stream) ordered() []*consumer {
	return slices.SortedFunc(maps.Values(st.consumers), func(x, y *consumer) int { return cmp.Compare(x.number, y.number) })
}

func (st *stream) bytes() (n uint64) {
	for _, m := range st.messages {
		n += m.size()
	}
	return n
}

// remove removes matching messages, and returns their number.
func (st *stream) remove(match func(*message) bool) (removed uint64) {
	n := len(st.messages)
	st.messages = slices.DeleteFunc(st.messages, match)
	return uint64(n - len(st.messages))
}

// cut removes all but the first n messages, as if they had never been stored.
func (st *stream) cut(n int) {
	for _, m := range st.messages[n:] {
		maps.DeleteFunc(st.ids, func(_ string, o *message) bool { return o == m })
	}
	if n == len(st.messages) {
		return
	}
	st.last = st.messages[n].seq - 1
	gone := st.messages[n:]
	st.messages = st.messages[:n:n]
	for _, m := range gone {
		for m != nil && m.seq > st.last {
			m = m.replaced
		}
		if m != nil && st.get(m.seq) == nil {
			st.messages = slices.Insert(st.messages, st.find(m.seq), m)
		}
	}
}

// find returns the index of the first message with a sequence number of at least seq.
func (st *stream) find(seq uint64) int {
	at, _ := slices.BinarySearchFunc(st.messages, seq, func(m *message, seq uint64) int { return cmp.Compare(m.seq, seq) })
	return at
}

// get returns a message by its sequence number, or nil.
func (st *stream) get(seq uint64) *message {
	if at := st.find(seq); at < len(st.messages) && st.messages[at].seq == seq {
		return st.messages[at]
	}
	return nil
}

// lastOf returns the last message of a subject, or nil. For ">" it returns nil if the message with the last
// sequence number was removed.
func (st *stream) lastOf(subject string) *message {
	if subject == ">" {
		return st.get(st.last)
	}
	for _, m := range slices.Backward(st.messages) {
		if matches(m.subject, subject) {
			return m
		}
	}
	return nil
}

// state returns the state of the stream.
func (st *stream) state() jetstream.StreamState {
	state := jetstream.StreamState{Msgs: uint64(len(st.messages)), Bytes: st.bytes(), FirstSeq: st.last + 1, LastSeq: st.last, LastTime: st.lastTime, Consumers: len(st.consumers)}
	if st.last == 0 {
		state.FirstSeq = 0
	}
	if len(st.messages) > 0 {
		state.FirstSeq, state.FirstTime = st.messages[0].seq, st.messages[0].at
		state.NumDeleted = int(st.last - state.FirstSeq + 1 - state.Msgs)
	}
	state.NumSubjects = uint64(len(st.subjects(">")))
	return state
}

// deleted returns the missing sequence numbers between the first and the last message.
func (st *stream) deleted() (gone []uint64) {
	for i, m := range st.messages {
		next := st.last + 1
		if i+1 < len(st.messages) {
			next = st.messages[i+1].seq
		}
		for seq := m.seq + 1; seq < next; seq++ {
			gone = append(gone, seq)
		}
	}
	return gone
}

// subjects returns the number of messages of each matching subject.
func (st *stream) subjects(filter string) map[string]uint64 {
	n := map[string]uint64{}
	for _, m := range st.messages {
		if matches(m.subject, filter) {
			n[m.subject]++
		}
	}
	return n
}

// Tick processes everything that is due: it removes expired messages, publishes scheduled
// messages, finishes requests and redelivers unacknowledged messages.
func (s *Server) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return
	}
	now, monotonic := s.now(), time.Now()
	for _, name := range s.names() {
		st := s.streams[name]
		st.remove(func(m *message) bool {
			old := st.config.MaxAge > 0 && now.Sub(m.at) >= st.config.MaxAge
			return old || !m.expires.IsZero() && !m.expires.After(now)
		})
		due := slices.Clone(st.messages)
		due = slices.DeleteFunc(due, func(m *message) bool { return m.due.IsZero() || m.due.After(now) })
		for _, m := range due {
			st.carryOut(m, now)
		}
		for _, c := range st.ordered() {
			c.tick(monotonic)
		}
	}
}

// carryOut removes a scheduled message and publishes its data to the target subject.
func (st *stream) carryOut(m *message, now time.Time) {
	st.remove(func(o *message) bool { return o == m })
	h := nats.Header{"Nats-Scheduler": []string{m.subject}, "Nats-Schedule-Next": []string{"purge"}}
	lines := []string{"", "Nats-Scheduler: " + m.subject, "Nats-Schedule-Next: purge"}
	for key, values := range m.header {
		if strings.HasPrefix(key, "Nats-Schedule") {
			continue
		}
		h[key] = values
		lines = append(lines, key+": "+values[0])
	}
	st.store(&message{subject: m.header.Get("Nats-Schedule-Target"), head: headers(lines...), header: h, data: m.data, at: now})
}
