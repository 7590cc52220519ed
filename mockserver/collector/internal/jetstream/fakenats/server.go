package fakenats

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A Server is an in-memory NATS server. Its methods are safe for concurrent use.
type Server struct {
	manual bool // whether requests wait for Complete

	mu      sync.Mutex // guards the fields below
	decide  func(*Request) (time.Duration, Fate)
	running bool
	full    bool          // whether messages are rejected
	lag     uint64        // see Lag
	ahead   time.Duration // of the server's clock; may be negative
	streams map[string]*stream
	conns   []*conn // open connections, oldest first
	dialed  int     // counts connections
	made    int     // counts consumers
	waiting []*Request
	ordered int // number of requests at the start of waiting that are already sorted
}

// New returns a running server. If manual is true, requests wait for Complete.
func New(manual bool) *Server {
	return &Server{manual: manual, running: true, streams: map[string]*stream{}}
}

// Start starts the server again.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
}

// Stop closes all connections, and discards waiting requests and consumers in memory.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	for _, c := range s.conns {
		_ = c.pipe.Close()
	}
	s.conns, s.waiting, s.ordered, s.running = nil, nil, 0, false
	for _, st := range s.streams {
		maps.DeleteFunc(st.consumers, func(_ string, c *consumer) bool { return c.config.MemoryStorage })
	}
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) { return s.connect(&Link{server: s}) }

func (s *Server) connect(l *Link) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || l.isCut || l.isSilent.Load() {
		return nil, errors.New("the server is not running")
	}
	client, pipe := net.Pipe()
	s.dialed++
	c := &conn{server: s, link: l, number: s.dialed, pipe: pipe, subjects: map[string]string{}, busy: map[string]time.Time{}, more: make(chan struct{}, 1)}
	s.conns = append(s.conns, c)
	c.send(`INFO {"server_id":"FAKE","server_name":"fake","version":"2.15.2","proto":1,"headers":true,"jetstream":true,"max_payload":8388608}` + "\r\n")
	go c.read()
	go c.write()
	return client, nil
}

// A conn is a client's connection.
type conn struct {
	server *Server
	link   *Link
	number int
	pipe   net.Conn
	more   chan struct{} // contains a token while out is not empty; closed by read

	subjects map[string]string    // subscriptions, keyed by sid; guarded by server.mu
	busy     map[string]time.Time // end of the last delayed request to each stream; guarded by server.mu

	mu     sync.Mutex // guards the fields below
	out    []byte     // data that is not written yet
	closed bool
}

// send queues a string to be written. It does not block, because the client may be writing.
func (c *conn) send(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.out = append(c.out, text...)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *conn) write() {
	for range c.more {
		c.mu.Lock()
		out := c.out
		c.out = nil
		c.mu.Unlock()
		if _, err := c.pipe.Write(out); err != nil {
			return
		}
	}
}

// read handles the client's protocol until the connection is closed.
func (c *conn) read() {
	r := bufio.NewReader(c.pipe)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		if err := c.take(r, strings.Fields(line)); err != nil {
			break
		}
	}
	_ = c.pipe.Close()
	c.server.mu.Lock()
	c.server.conns = slices.DeleteFunc(c.server.conns, func(o *conn) bool { return o == c })
	c.server.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.more)
}

// take handles one line of the protocol and its payload.
func (c *conn) take(r io.Reader, words []string) error {
	s := c.server
	switch words[0] {
	case "CONNECT", "PONG":
	case "PING":
		if !c.link.isSilent.Load() {
			c.send("PONG\r\n")
		}
	case "SUB":
		s.mu.Lock()
		defer s.mu.Unlock()
		c.subjects[words[len(words)-1]] = words[1]
	case "UNSUB":
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(c.subjects, words[1])
	case "PUB", "HPUB":
		m := &Request{conn: c, Subject: words[1]}
		numbers := words[len(words)-1:]
		if words[0] == "HPUB" {
			numbers = words[len(words)-2:]
		}
		if len(words)-len(numbers) == 3 {
			m.reply = words[2]
		}
		total, _ := strconv.Atoi(numbers[len(numbers)-1])
		data := make([]byte, total+len("\r\n"))
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		head := 0
		if len(numbers) == 2 {
			head, _ = strconv.Atoi(numbers[0])
		}
		m.head, m.data = data[:head], data[head:total]
		s.received(m)
	default:
		panic("fakenats: unknown command " + words[0])
	}
	return nil
}

// deliver sends a message to the subscribers of to, and reports whether there are any. The caller
// must hold the server's lock.
func (s *Server) deliver(to, subject, reply string, head, data []byte) bool {
	heard := false
	for _, c := range s.conns {
		for sid, pattern := range c.subjects {
			if c.link.isSilent.Load() || !matches(to, pattern) {
				continue
			}
			heard = true
			if len(head) > 0 {
				c.send(fmt.Sprintf("HMSG %s %s %s %d %d\r\n%s%s\r\n", subject, sid, reply, len(head), len(head)+len(data), head, data))
			} else {
				c.send(fmt.Sprintf("MSG %s %s %s %d\r\n%s\r\n", subject, sid, reply, len(data), data))
			}
		}
	}
	return heard
}

// headers returns the encoded headers of a message.
func headers(lines ...string) []byte {
	var b bytes.Buffer
	b.WriteString("NATS/1.0")
	for _, line := range lines {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// A Request is a message from a client: a message for a stream, a JetStream API request, or an
// acknowledgement.
type Request struct {
	Subject string
	Stream  string // stream of the request; set before the function of SetDecider is called, and empty for other requests
	conn    *conn
	reply   string
	head    []byte // encoded headers
	data    []byte
	key     string
}

// String describes the request. The description is the same in each run.
func (r *Request) String() string { return r.key }

// A Fate is the outcome of a request.
type Fate int

// Fates.
const (
	Done      Fate = iota // executed, with a response
	Lost                  // executed, but the response is lost
	Dropped               // not executed, without a response
	Repeated              // executed twice, with two responses
	Contested             // rejected if it has an expected last message: another message of its subject is being stored
)

func (f Fate) String() string {
	return []string{"done", "lost", "dropped", "repeated", "contested"}[f]
}

// received handles a published message.
func (s *Server) received(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.running || r.conn.link.isSilent.Load():
	case s.manual:
		s.waiting = append(s.waiting, r)
	case s.decide != nil:
		s.delay(r)
	default:
		s.do(r)
	}
}

// Waiting returns the requests that may be completed next. Their order depends only on the
// completed requests. When Waiting is called, no client may be about to send a request. Messages
// that a connection publishes to a stream stay in order. Identical requests are listed once.
func (s *Server) Waiting() (free []*Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.waiting[s.ordered:] {
		r.key = s.keyOf(r)
	}
	slices.SortStableFunc(s.waiting[s.ordered:], func(x, y *Request) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.conn.number, y.conn.number))
	})
	s.ordered = len(s.waiting)
	type queue struct {
		conn *conn
		what string // the stream, or the description of the request
	}
	first := map[queue]bool{}
	for _, r := range s.waiting {
		q := queue{r.conn, r.key}
		if st := s.streamOf(r.Subject); st != nil {
			q.what = st.config.Name
		}
		if !first[q] {
			free = append(free, r)
		}
		first[q] = true
	}
	return free
}

// Complete completes a request that Waiting has returned, and all identical requests.
func (s *Server) Complete(r *Request, fate Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isSame := func(o *Request) bool {
		return o == r || o.key == r.key && o.conn == r.conn && s.streamOf(r.Subject) == nil
	}
	same := slices.DeleteFunc(slices.Clone(s.waiting), func(o *Request) bool { return !isSame(o) })
	s.waiting = slices.DeleteFunc(s.waiting, isSame)
	s.ordered -= len(same)
	for _, o := range same {
		s.let(o, fate)
	}
}

func (s *Server) let(r *Request, fate Fate) {
	switch fate {
	case Done:
		s.do(r)
	case Lost:
		lost := *r
		lost.reply = ""
		s.do(&lost)
	case Dropped:
	case Repeated:
		s.do(r)
		s.do(r)
	case Contested:
		if st := s.streamOf(r.Subject); st != nil && bytes.Contains(r.head, []byte(nats.ExpectedLastSubjSeqHdr+":")) {
			s.respond(r, pubResponse{Stream: st.config.Name, Error: &apiError{400, 10164, "wrong last sequence"}})
			return
		}
		s.do(r)
	}
}

// keyOf describes a request without its random parts, which are inboxes and the names of ephemeral
// consumers.
func (s *Server) keyOf(r *Request) string {
	rest, api := strings.CutPrefix(r.Subject, "$JS.API.CONSUMER.")
	subject, data := r.Subject, r.data
	words := strings.Split(rest, ".")
	switch {
	case api && words[0] == "CREATE":
		c := decode[consumerRequest](r.data)
		subject = fmt.Sprint("CREATE.", c.Stream, ".", c.Config.Durable, c.Config.FilterSubjects, c.Config.OptStartSeq)
		data = nil
	case api: // MSG.NEXT, INFO or DELETE requests for a consumer
		if c := s.consumer(words[len(words)-2], words[len(words)-1]); c != nil {
			subject = strings.Join(words[:len(words)-1], ".") + "." + c.alias
		} else {
			subject = strings.Join(words[:len(words)-1], ".")
		}
	case strings.Contains(subject, ".s."): // the messages contain maps in random order
		data = nil
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return fmt.Sprintf("%s %x", subject, h.Sum64())
}

// Refuse makes the server reject messages as if it were full, or accept them again.
func (s *Server) Refuse(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// RedeliverAll redelivers all unacknowledged messages.
func (s *Server) RedeliverAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names() {
		for _, c := range s.streams[name].ordered() {
			for _, d := range c.pending {
				d.again = time.Time{}
			}
			c.dispatch()
		}
	}
}

// Crash closes all connections and simulates the loss of the server's process. It removes consumers
// and streams in memory. For each other stream, it calls keep with the number of unacknowledged
// messages, and keeps as many of them as keep returns, oldest first.
func (s *Server) Crash(keep func(stream string, unacknowledged int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	for _, name := range s.names() {
		st := s.streams[name]
		if st.isLazy() {
			st.messages = nil
			st.acknowledged = st.last
			continue
		}
		at := len(st.messages)
		for at > 0 && st.messages[at-1].seq > st.acknowledged {
			at--
		}
		if n := len(st.messages) - at; n > 0 {
			st.cut(at + keep(name, n))
		}
		st.acknowledged = st.last // the remaining messages are on the disk
	}
}
