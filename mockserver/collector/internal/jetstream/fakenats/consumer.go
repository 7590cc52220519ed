package fakenats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A consumer is a pull consumer.
type consumer struct {
	server  *Server
	stream  *stream
	name    string
	alias   string // its name, or what it is called in its place where that is random
	config  jetstream.ConsumerConfig
	created time.Time
	active  time.Time            // when it was used last
	next    uint64               // the message of the stream to be looked at next
	handed  uint64               // how many messages it has handed out
	reached uint64               // the last of them, or the one before the first
	floor   uint64               // up to where all of them are acknowledged
	pending map[uint64]*delivery // not acknowledged, by the number in the stream
	waiting []*pullRequest
}

// A delivery is a message that was handed out and not acknowledged.
type delivery struct {
	consumerSeq uint64
	times       int
	again       time.Time // when it is handed out again
}

// A pullRequest asks for messages.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
	NoWait    bool          `json:"no_wait"`
	MaxBytes  int           `json:"max_bytes"` // 0 for no limit
	full      bool          // it has got MaxBytes
	inbox     string
	until     time.Time
	spoken    time.Time
}

func (s *Server) consumer(stream, name string) *consumer {
	if st := s.streams[stream]; st != nil {
		return st.consumers[name]
	}
	return nil
}

// askConsumer does what is asked of a consumer.
func (s *Server) askConsumer(what, streamName, name string, data []byte) any {
	st, c := s.streams[streamName], s.consumer(streamName, name)
	switch {
	case st == nil:
		return consumerAnswer{Error: errNoStream}
	case what == "CREATE":
		ask := decode[consumerRequest](data)
		switch {
		case c == nil && ask.Action == "update":
			return consumerAnswer{Error: &apiError{400, 10149, "consumer does not exist"}}
		case c == nil:
			c = s.makeConsumer(st, name, ask.Config)
		case ask.Action == "create" && !sameConsumer(c.config, ask.Config):
			return consumerAnswer{Error: &apiError{400, 10148, "consumer already exists"}}
		case ask.Action != "create":
			c.config.FilterSubject, c.config.FilterSubjects = ask.Config.FilterSubject, ask.Config.FilterSubjects
			c.handOut()
		}
	case c == nil:
		return consumerAnswer{Error: errNoConsumer}
	case what == "DELETE":
		c.end()
		return answer{Success: true}
	case what != "INFO":
		panic("fakenats: CONSUMER." + what)
	}
	return consumerAnswer{ConsumerInfo: c.info()}
}

// sameConsumer reports whether what is asked for is there already.
func sameConsumer(have, want jetstream.ConsumerConfig) bool {
	return slices.Equal(have.FilterSubjects, want.FilterSubjects) && have.OptStartSeq == want.OptStartSeq && have.AckWait == want.AckWait
}

func (s *Server) makeConsumer(st *stream, name string, config jetstream.ConsumerConfig) *consumer {
	s.made++
	c := &consumer{
		server: s, stream: st, name: name, alias: cmp.Or(config.Durable, fmt.Sprint("#", s.made)), config: config,
		created: time.Now(), active: time.Now(), next: 1, pending: map[uint64]*delivery{},
	}
	switch config.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
	case jetstream.DeliverByStartSequencePolicy:
		c.next = config.OptStartSeq
	case jetstream.DeliverByStartTimePolicy:
		c.next = st.last + 1
		if at := slices.IndexFunc(st.messages, func(m *message) bool { return !m.at.Before(*config.OptStartTime) }); at >= 0 {
			c.next = st.messages[at].seq
		}
	default:
		panic("fakenats: a consumer with DeliverPolicy " + config.DeliverPolicy.String())
	}
	c.next = max(1, min(max(c.next, st.state().FirstSeq), st.last+1))
	c.reached = c.next - 1
	c.floor = c.reached
	st.consumers[name] = c
	return c
}

func (c *consumer) info() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{
		Stream: c.stream.config.Name, Name: c.name, Created: c.created, Config: c.config,
		Delivered: jetstream.SequenceInfo{Consumer: c.handed, Stream: c.reached}, AckFloor: jetstream.SequenceInfo{Stream: c.floor},
		NumAckPending: len(c.pending), NumWaiting: len(c.waiting), NumPending: c.behind(), TimeStamp: time.Now(),
	}
}

// skip has the consumer begin with a message: those before are gone.
func (c *consumer) skip(first uint64) {
	if c.next < first {
		c.next, c.reached, c.floor = first, first-1, first-1
	}
	maps.DeleteFunc(c.pending, func(seq uint64, _ *delivery) bool { return seq < first })
}

// postpone has what was given back wait as long as if it had not been: a real server forgets
// of it when its stream is purged.
func (c *consumer) postpone() {
	for _, d := range c.pending {
		if !d.again.After(time.Now()) {
			d.again = time.Now().Add(c.config.AckWait)
		}
	}
}

// end takes the consumer away.
func (c *consumer) end() {
	delete(c.stream.consumers, c.name)
	for _, p := range c.waiting {
		c.server.deliver(p.inbox, p.inbox, "", headers(" 409 Consumer Deleted"), nil)
	}
}

// wants reports whether the consumer's filters let a message through.
func (c *consumer) wants(m *message) bool {
	filters := c.config.FilterSubjects
	if c.config.FilterSubject != "" {
		filters = []string{c.config.FilterSubject}
	}
	return len(filters) == 0 || matchesAny(filters, m.subject)
}

func matchesAny(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return record.Matches(p, subject) })
}

// behind counts the messages that are yet to be handed out for the first time.
func (c *consumer) behind() (n uint64) {
	for _, m := range c.stream.messages[c.stream.find(c.next):] {
		if c.wants(m) {
			n++
		}
	}
	return n
}

// pull takes a request for messages.
func (s *Server) pull(r *Request, streamName, name string) {
	c := s.consumer(streamName, name)
	if c == nil {
		s.deliver(r.reply, r.reply, "", headers(" 503"), nil)
		return
	}
	p := decode[pullRequest](r.data)
	p.inbox, p.spoken = r.reply, time.Now()
	if p.Expires > 0 {
		p.until = time.Now().Add(p.Expires)
	}
	c.active = time.Now()
	c.waiting = append(c.waiting, &p)
	c.handOut()
	if p.NoWait && p.Expires == 0 && p.Batch > 0 {
		c.waiting = c.waiting[:len(c.waiting)-1]
		s.deliver(p.inbox, p.inbox, "", headers(" 404 No Messages"), nil)
	}
}

// handOut hands out messages while somebody asks for them.
func (c *consumer) handOut() {
	for len(c.waiting) > 0 {
		p := c.waiting[0]
		m, d := c.nextMessage()
		if m == nil {
			return
		}
		if !c.send(p, m, d) {
			c.waiting = c.waiting[1:]
			continue
		}
		p.spoken = time.Now()
		if p.Batch--; p.Batch == 0 || p.full {
			c.waiting = c.waiting[1:]
			if p.MaxBytes > 0 {
				done := headers(" 409 Batch Completed", "Nats-Pending-Messages: 0", fmt.Sprint("Nats-Pending-Bytes: ", p.MaxBytes))
				c.server.deliver(p.inbox, p.inbox, "", done, nil)
			}
		}
	}
}

// nextMessage returns what is to be handed out next, again if it was before.
func (c *consumer) nextMessage() (*message, *delivery) {
	for _, seq := range slices.Sorted(maps.Keys(c.pending)) {
		d := c.pending[seq]
		m := c.stream.get(seq)
		if m == nil {
			delete(c.pending, seq)
		} else if !d.again.After(time.Now()) {
			return m, d
		}
	}
	if c.config.MaxAckPending > 0 && len(c.pending) >= c.config.MaxAckPending {
		return nil, nil
	}
	for _, m := range c.stream.messages[c.stream.find(c.next):] {
		if c.wants(m) {
			return m, &delivery{}
		}
	}
	c.next = max(c.next, c.stream.last+1) // it does not go back, whatever its filters become
	return nil, nil
}

// send hands out a message. It reports false if the request has ended: it takes no message
// of that size, or has no subscriber.
func (c *consumer) send(p *pullRequest, m *message, d *delivery) bool {
	again := *d
	again.times++
	again.consumerSeq = c.handed + 1
	before := c.next
	c.next = max(c.next, m.seq+1)
	reply := fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.%d", c.stream.config.Name, c.name, again.times, m.seq, again.consumerSeq, m.at.UnixNano(), c.behind())
	head, data := m.head, m.data
	if c.config.HeadersOnly {
		size := fmt.Sprintf("Nats-Msg-Size: %d\r\n\r\n", len(data))
		if head == nil {
			head = headers("")
		}
		head, data = append(head[:len(head)-2:len(head)-2], size...), nil
	}
	size := len(m.subject) + len(reply) + len(head) + len(data)
	if p.MaxBytes > 0 && size > p.MaxBytes {
		pending := headers(" 409 Message Size Exceeds MaxBytes", fmt.Sprint("Nats-Pending-Messages: ", p.Batch), fmt.Sprint("Nats-Pending-Bytes: ", p.MaxBytes))
		c.server.deliver(p.inbox, p.inbox, "", pending, nil)
		c.next = before
		return false
	}
	if !c.server.deliver(p.inbox, m.subject, reply, head, data) {
		c.next = before
		return false
	}
	p.full = size == p.MaxBytes
	p.MaxBytes = max(0, p.MaxBytes-size)
	c.handed, c.reached = c.handed+1, max(c.reached, m.seq)
	if c.config.AckPolicy == jetstream.AckExplicitPolicy {
		again.again = time.Now().Add(c.config.AckWait)
		c.pending[m.seq] = &again
	}
	return true
}

// acknowledge takes what a client says of a message that it was handed: the words are
// stream, consumer, times, number in the stream, number in the consumer, time, pending.
func (s *Server) acknowledge(r *Request, words []string) {
	c := s.consumer(words[0], words[1])
	seq, _ := strconv.ParseUint(words[3], 10, 64)
	if c == nil {
		return
	}
	d := c.pending[seq]
	switch text := string(r.data); {
	case d == nil: // it was acknowledged, or removed
	case text == "" || text == "+ACK":
		delete(c.pending, seq)
		c.floor = c.reached
		for seq := range c.pending {
			c.floor = min(c.floor, seq-1)
		}
		if c.stream.config.Retention == jetstream.WorkQueuePolicy {
			c.stream.remove(func(m *message) bool { return m.seq == seq })
		}
	case text == "+WPI":
		d.again = time.Now().Add(c.config.AckWait)
	case strings.HasPrefix(text, "-NAK"):
		var nak struct {
			Delay time.Duration `json:"delay"`
		}
		_ = json.Unmarshal([]byte(strings.TrimPrefix(text, "-NAK")), &nak) // there may be none
		d.again = time.Now().Add(nak.Delay)
	default:
		panic("fakenats: an acknowledgement " + text)
	}
	if r.reply != "" {
		s.deliver(r.reply, r.reply, "", nil, nil)
	}
	c.handOut()
}

// tick does what is due.
func (c *consumer) tick(now time.Time) {
	c.handOut()
	c.waiting = slices.DeleteFunc(c.waiting, func(p *pullRequest) bool {
		if p.until.IsZero() || p.until.After(now) {
			return false
		}
		head := headers(" 408 Request Timeout", fmt.Sprint("Nats-Pending-Messages: ", p.Batch), "Nats-Pending-Bytes: 0")
		c.server.deliver(p.inbox, p.inbox, "", head, nil)
		return true
	})
	for _, p := range c.waiting {
		if p.Heartbeat > 0 && now.Sub(p.spoken) >= p.Heartbeat {
			p.spoken = now
			last := fmt.Sprint("Nats-Last-Consumer: ", c.handed)
			c.server.deliver(p.inbox, p.inbox, "", headers(" 100 Idle Heartbeat", last), nil)
		}
	}
	if len(c.waiting) > 0 {
		c.active = now
	} else if limit := c.config.InactiveThreshold; limit > 0 && now.Sub(c.active) > limit {
		c.end()
	}
}
