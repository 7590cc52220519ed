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
)

// A consumer is a pull consumer.
type consumer struct {
	server    *Server
	stream    *stream
	name      string
	number    int    // counts the server's consumers
	alias     string // durable name, or a reproducible name if the name is random
	config    jetstream.ConsumerConfig
	created   time.Time
	active    time.Time            // when it was last used
	next      uint64               // sequence number of the next message to check
	delivered uint64               // number of delivered messages
	reached   uint64               // sequence number of the last delivered message; at first, the number before the start
	floor     uint64               // all messages up to this sequence number are acknowledged
	pending   map[uint64]*delivery // unacknowledged messages, keyed by sequence number
	waiting   []*pullRequest
}

// A delivery is a delivered but unacknowledged message.
type delivery struct {
	consumerSeq uint64
	times       int
	again       time.Time // time of the next redelivery
}

// A pullRequest requests messages.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
	NoWait    bool          `json:"no_wait"`
	MaxBytes  int           `json:"max_bytes"` // 0 means no limit
	full      bool          // whether it has received MaxBytes
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

// handleConsumer executes a request about a consumer.
func (s *Server) handleConsumer(what, streamName, name string, data []byte) any {
	st, c := s.streams[streamName], s.consumer(streamName, name)
	switch {
	case st == nil:
		return consumerResponse{Error: errNoStream}
	case what == "CREATE":
		ask := decode[consumerRequest](data)
		switch {
		case c == nil && ask.Action == "update":
			return consumerResponse{Error: &apiError{400, 10149, "consumer does not exist"}}
		case c == nil:
			c = s.newConsumer(st, name, ask.Config)
		case ask.Action == "create" && !sameConsumer(c.config, ask.Config):
			return consumerResponse{Error: &apiError{400, 10148, "consumer already exists"}}
		case ask.Action != "create":
			c.config.FilterSubject, c.config.FilterSubjects = ask.Config.FilterSubject, ask.Config.FilterSubjects
			c.dispatch()
		}
	case c == nil:
		return consumerResponse{Error: errNoConsumer}
	case what == "DELETE":
		c.end()
		return response{Success: true}
	case what != "INFO":
		panic("fakenats: CONSUMER." + what)
	}
	return consumerResponse{ConsumerInfo: c.info()}
}

// sameConsumer compares those fields of two configurations that the journal varies.
func sameConsumer(have, want jetstream.ConsumerConfig) bool {
	return slices.Equal(have.FilterSubjects, want.FilterSubjects) && have.OptStartSeq == want.OptStartSeq && have.AckWait == want.AckWait
}

func (s *Server) newConsumer(st *stream, name string, config jetstream.ConsumerConfig) *consumer {
	s.made++
	c := &consumer{
		server: s, stream: st, name: name, number: s.made, alias: cmp.Or(config.Durable, fmt.Sprint("#", s.made)), config: config,
		created: time.Now(), active: time.Now(), next: 1, pending: map[uint64]*delivery{},
	}
	switch config.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
	case jetstream.DeliverByStartSequencePolicy:
		c.next = config.OptStartSeq
	case jetstream.DeliverByStartTimePolicy:
		c.next = c.last() + 1
		if at := slices.IndexFunc(st.messages, func(m *message) bool { return !m.at.Before(*config.OptStartTime) }); at >= 0 {
			c.next = min(c.next, st.messages[at].seq)
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
		Delivered: jetstream.SequenceInfo{Consumer: c.delivered, Stream: c.reached}, AckFloor: jetstream.SequenceInfo{Stream: c.floor},
		NumAckPending: len(c.pending), NumWaiting: len(c.waiting), NumPending: c.behind(), TimeStamp: time.Now(),
	}
}

// skip moves the consumer to the first message that is still stored.
func (c *consumer) skip(first uint64) {
	if c.next < first {
		c.next, c.reached, c.floor = first, first-1, first-1
	}
	maps.DeleteFunc(c.pending, func(seq uint64, _ *delivery) bool { return seq < first })
}

// postpone delays the messages that are due for redelivery by AckWait. A real server does the same
// after a purge.
func (c *consumer) postpone() {
	for _, d := range c.pending {
		if !d.again.After(time.Now()) {
			d.again = time.Now().Add(c.config.AckWait)
		}
	}
}

// end closes the requests of the consumer and deletes it.
func (c *consumer) end() {
	delete(c.stream.consumers, c.name)
	for _, p := range c.waiting {
		c.server.deliver(p.inbox, p.inbox, "", headers(" 409 Consumer Deleted"), nil)
	}
}

// wants reports whether a message matches the consumer's filters.
func (c *consumer) wants(m *message) bool {
	filters := c.config.FilterSubjects
	if c.config.FilterSubject != "" {
		filters = []string{c.config.FilterSubject}
	}
	return len(filters) == 0 || matchesAny(filters, m.subject)
}

func matchesAny(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(subject, p) })
}

// last returns the last sequence number of the stream on the consumer's server.
func (c *consumer) last() uint64 {
	if c.config.AckPolicy == jetstream.AckNonePolicy {
		return c.stream.last - min(c.stream.last, c.server.lag)
	}
	return c.stream.last
}

// visible returns the messages of the consumer's server that the consumer has not checked.
func (c *consumer) visible() []*message {
	from, to := c.stream.find(c.next), c.stream.find(c.last()+1)
	return c.stream.messages[from:max(from, to)]
}

// behind counts the messages that have never been delivered.
func (c *consumer) behind() (n uint64) {
	for _, m := range c.visible() {
		if c.wants(m) {
			n++
		}
	}
	return n
}

// pull adds a request for messages.
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
	c.dispatch()
	if p.NoWait && p.Expires == 0 && p.Batch > 0 {
		c.waiting = c.waiting[:len(c.waiting)-1]
		s.deliver(p.inbox, p.inbox, "", headers(" 404 No Messages"), nil)
	}
}

// dispatch delivers messages while there are requests for messages.
func (c *consumer) dispatch() {
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
		c.waiting = c.waiting[1:]
		if p.Batch--; p.Batch > 0 && !p.full {
			c.waiting = append(c.waiting, p) // requests take turns
		} else if p.MaxBytes > 0 {
			done := headers(" 409 Batch Completed", "Nats-Pending-Messages: 0", fmt.Sprint("Nats-Pending-Bytes: ", p.MaxBytes))
			c.server.deliver(p.inbox, p.inbox, "", done, nil)
		}
	}
}

// nextMessage returns the next message to deliver or redeliver, or nil.
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
	for _, m := range c.visible() {
		if c.wants(m) {
			return m, &delivery{}
		}
	}
	c.next = max(c.next, c.last()+1) // if the filters change later, the consumer does not move back
	return nil, nil
}

// send delivers a message. It returns false if the request is finished because the message is too
// large or the subscriber no longer exists.
func (c *consumer) send(p *pullRequest, m *message, d *delivery) bool {
	again := *d
	again.times++
	again.consumerSeq = c.delivered + 1
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
	c.delivered, c.reached = c.delivered+1, max(c.reached, m.seq)
	if c.config.AckPolicy == jetstream.AckExplicitPolicy {
		again.again = time.Now().Add(c.config.AckWait)
		c.pending[m.seq] = &again
	}
	return true
}

// acknowledge handles an acknowledgement. words contains the stream, the consumer, the number of
// deliveries, the sequence numbers in the stream and the consumer, the time, and the number of
// pending messages.
func (s *Server) acknowledge(r *Request, words []string) {
	c := s.consumer(words[0], words[1])
	seq, _ := strconv.ParseUint(words[3], 10, 64)
	if c == nil {
		return
	}
	d := c.pending[seq]
	switch text := string(r.data); {
	case d == nil: // the message was acknowledged or removed before
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
		_ = json.Unmarshal([]byte(strings.TrimPrefix(text, "-NAK")), &nak) // the delay is optional
		d.again = time.Now().Add(nak.Delay)
	default:
		panic("fakenats: unknown acknowledgement " + text)
	}
	if r.reply != "" {
		s.deliver(r.reply, r.reply, "", nil, nil)
	}
	c.dispatch()
}

// tick delivers due messages. It also finishes expired requests and sends heartbeats.
func (c *consumer) tick(now time.Time) {
	c.dispatch()
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
			head := headers(" 100 Idle Heartbeat", fmt.Sprint("Nats-Last-Consumer: ", c.delivered), fmt.Sprint("Nats-Last-Stream: ", c.next-1))
			c.server.deliver(p.inbox, p.inbox, "", head, nil)
		}
	}
	if len(c.waiting) > 0 {
		c.active = now
	} else if limit := c.config.InactiveThreshold; limit > 0 && now.Sub(c.active) > limit {
		c.end()
	}
}
