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

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A Server is a NATS server in memory. Its methods may be called from many goroutines at
// once.
type Server struct {
	holds   bool       // requests wait for Let
	trouble chan error // gets what Fail is told; never closed

	mu      sync.Mutex // guards what follows
	running bool
	full    bool // nothing is stored
	streams map[string]*stream
	conns   []*conn // those that are open, oldest first
	dialed  int     // counts connections
	made    int     // counts consumers
	held    []*Request
	ordered int // so many of held have their place
}

// New returns a server that runs. One that holds does what Let says, and nothing else.
func New(holds bool) *Server {
	return &Server{holds: holds, trouble: make(chan error, 1), running: true, streams: map[string]*stream{}}
}

// Start has the server take connections, and do what it is asked.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	return nil
}

// Stop ends all connections, with what waits on them, and consumers that are in memory.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	return nil
}

func (s *Server) stop() {
	for _, c := range s.conns {
		_ = c.pipe.Close()
	}
	s.conns, s.held, s.ordered, s.running = nil, nil, 0, false
	for _, st := range s.streams {
		maps.DeleteFunc(st.consumers, func(_ string, c *consumer) bool { return c.config.MemoryStorage })
	}
}

// Fail says why the server cannot be relied on; Trouble tells.
func (s *Server) Fail(err error) {
	select {
	case s.trouble <- err:
	default: // it is known
	}
}

// Trouble gets why the server cannot be relied on.
func (s *Server) Trouble() <-chan error { return s.trouble }

// InProcessConn connects to the server. It makes it a nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil, errors.New("the server does not run")
	}
	client, pipe := net.Pipe()
	s.dialed++
	c := &conn{server: s, number: s.dialed, pipe: pipe, subjects: map[string]string{}, more: make(chan struct{}, 1)}
	s.conns = append(s.conns, c)
	c.send(`INFO {"server_id":"FAKE","server_name":"fake","version":"2.15.2","proto":1,"headers":true,"jetstream":true,"max_payload":8388608}` + "\r\n")
	go c.read()
	go c.write()
	return client, nil
}

// A conn is a connection of a client.
type conn struct {
	server *Server
	number int
	pipe   net.Conn
	more   chan struct{} // holds one token when there is something to write; closed by read

	subjects map[string]string // that the client has subscribed to, by sid; guarded by server.mu

	mu     sync.Mutex // guards what follows
	out    []byte     // yet to be written
	closed bool
}

// send has a text written. It does not wait for that: the client may be writing itself.
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

// read takes what the client says, until the connection ends.
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

// take takes one line of the protocol, and what belongs to it.
func (c *conn) take(r io.Reader, words []string) error {
	s := c.server
	switch words[0] {
	case "CONNECT", "PONG":
	case "PING":
		c.send("PONG\r\n")
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
		panic("fakenats: a client says " + words[0])
	}
	return nil
}

// deliver sends a message to whoever has subscribed to a subject, which need not be that
// of the message, and reports whether anybody has. The server's lock is held.
func (s *Server) deliver(to, subject, reply string, head, data []byte) bool {
	heard := false
	for _, c := range s.conns {
		for sid, pattern := range c.subjects {
			if !record.Matches(pattern, to) {
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

// headers returns the headers of a message in the form in which they are sent.
func headers(lines ...string) []byte {
	var b bytes.Buffer
	b.WriteString("NATS/1.0")
	for _, line := range lines {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// A Request is what a client has published: to a stream, to JetStream, or an
// acknowledgement.
type Request struct {
	Subject string
	conn    *conn
	reply   string
	head    []byte // its headers, as they are sent
	data    []byte
	key     string
}

// String tells what is asked, in the same words in each run.
func (r *Request) String() string { return r.key }

// A Fate is what becomes of a request.
type Fate int

// Fates.
const (
	Done     Fate = iota // it is done and answered
	Lost                 // it is done, and the answer is lost
	Dropped              // it is not done, and not answered
	Repeated             // it comes twice, and is done and answered each time
)

func (f Fate) String() string { return []string{"done", "lost", "dropped", "repeated"}[f] }

// received takes what a client has published.
func (s *Server) received(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return
	}
	if s.holds {
		s.held = append(s.held, r)
		return
	}
	s.do(r)
}

// Held returns the requests that may be let go, in an order that depends on nothing but
// what was let go before. Nobody may be about to make one. What a connection publishes to
// a stream goes in its order; of those that are the same there is one.
func (s *Server) Held() (free []*Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.held[s.ordered:] {
		r.key = s.keyOf(r)
	}
	slices.SortStableFunc(s.held[s.ordered:], func(x, y *Request) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.conn.number, y.conn.number))
	})
	s.ordered = len(s.held)
	type queue struct {
		conn *conn
		what string // the stream, or what is asked
	}
	first := map[queue]bool{}
	for _, r := range s.held {
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

// Let has a request end, and those that are the same. It must be one of Held.
func (s *Server) Let(r *Request, fate Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isSame := func(o *Request) bool {
		return o == r || o.key == r.key && o.conn == r.conn && s.streamOf(r.Subject) == nil
	}
	same := slices.DeleteFunc(slices.Clone(s.held), func(o *Request) bool { return !isSame(o) })
	s.held = slices.DeleteFunc(s.held, isSame)
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
	}
}

// keyOf says what a request is about without what is chosen at random: inboxes, and names of
// consumers that go by themselves.
func (s *Server) keyOf(r *Request) string {
	rest, api := strings.CutPrefix(r.Subject, "$JS.API.CONSUMER.")
	subject, data := r.Subject, r.data
	words := strings.Split(rest, ".")
	switch {
	case api && words[0] == "CREATE":
		c := decode[consumerRequest](r.data)
		subject = fmt.Sprint("CREATE.", c.Stream, ".", c.Config.Durable, c.Config.FilterSubjects, c.Config.OptStartSeq)
		data = nil
	case api: // MSG.NEXT, INFO or DELETE of a consumer
		if c := s.consumer(words[len(words)-2], words[len(words)-1]); c != nil {
			subject = strings.Join(words[:len(words)-1], ".") + "." + c.alias
		} else {
			subject = strings.Join(words[:len(words)-1], ".")
		}
	case strings.Contains(subject, ".s."): // maps, in any order
		data = nil
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return fmt.Sprintf("%s %x", subject, h.Sum64())
}

// Refuse has the server store nothing, as if there were no room, or again what comes.
func (s *Server) Refuse(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// HandOutAgain has all that was handed out and not acknowledged be handed out again.
func (s *Server) HandOutAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names() {
		consumers := s.streams[name].consumers
		for _, consumer := range slices.Sorted(maps.Keys(consumers)) {
			c := consumers[consumer]
			for _, d := range c.pending {
				d.again = time.Time{}
			}
			c.handOut()
		}
	}
}

// Crash ends all connections, and takes what a server forgets with its process: the
// consumers and streams that are not on the disk, and of what it has not acknowledged as
// much as keep says, of so many messages of each stream.
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
		st.acknowledged = st.last // what is there now was read from the disk
	}
}
