package journal

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pullExpires is how long a server keeps a request for messages. On a cluster
	// the server that keeps it may be gone.
	pullExpires         = 10 * time.Second
	pullExpiresEmbedded = 5 * time.Minute
	// repairPause is how long a puller waits after its consumer did not answer.
	repairPause = 100 * time.Millisecond
)

// A puller asks a consumer for messages, for so many as are wanted and no more:
// a backlog stays on the disk.
type puller struct {
	queue   *queue
	subject string // of requests
	sub     *nats.Subscription
	got     func(m *nats.Msg, seq uint64)
	expires time.Duration

	mu        sync.Mutex // guards what follows
	asked     int        // messages that may still come
	until     time.Time  // after which they do not
	repairing bool
	closed    bool
}

func newPuller(q *queue, kind string, got func(*nats.Msg, uint64)) (*puller, error) {
	j := q.journal
	p := &puller{queue: q, got: got, expires: pullExpiresEmbedded}
	if j.options.NATS != nil {
		p.expires = pullExpires
	}
	p.subject = "$JS.API.CONSUMER.MSG.NEXT." + j.names.stream(kind) + "." + j.names.consumer(q.name)
	var err error
	p.sub, err = j.nc.Subscribe(j.nc.NewInbox(), p.receive)
	return p, err
}

func (p *puller) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.sub.Unsubscribe()
}

// want asks for messages until n may come.
func (p *puller) want(n int) {
	p.mu.Lock()
	if p.asked > 0 && time.Now().After(p.until) {
		p.asked = 0 // they were lost on the way
	}
	n -= p.asked
	if n <= 0 || p.repairing || p.closed {
		p.mu.Unlock()
		return
	}
	p.asked += n
	p.until = time.Now().Add(p.expires + 2*time.Second)
	p.mu.Unlock()
	request, _ := json.Marshal(pullRequest{Batch: n, Expires: p.expires})
	if err := p.queue.journal.nc.PublishRequest(p.subject, p.sub.Subject, request); err != nil {
		p.repair()
	}
}

// receive takes messages, and what the server says about requests.
func (p *puller) receive(m *nats.Msg) {
	switch status := m.Header.Get("Status"); status {
	case "":
		p.came(1)
		if meta, err := m.Metadata(); err == nil {
			p.got(m, meta.Sequence.Stream)
		}
		p.queue.pull()
	case "100":
	case "408": // the request has expired
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			left = 1
		}
		p.came(left)
		p.queue.pull()
	default: // the consumer is gone, or moves to another server
		p.repair()
	}
}

func (p *puller) came(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = max(0, p.asked-n)
}

// reset forgets what was asked for: the connection is another.
func (p *puller) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = 0
}

// repair makes the consumer again if it is gone, and asks again.
func (p *puller) repair() {
	p.mu.Lock()
	p.asked = 0
	if p.repairing || p.closed {
		p.mu.Unlock()
		return
	}
	p.repairing = true
	p.mu.Unlock()
	go func() {
		ctx := p.queue.journal.ctx
		err := sleep(ctx, repairPause)
		for err == nil && !p.isClosed() {
			limited, cancel := context.WithTimeout(ctx, requestPatience)
			if p.queue.ensure(limited) == nil {
				err = context.Canceled // enough
			}
			cancel()
			if err == nil {
				err = sleep(ctx, repairPause)
			}
		}
		p.mu.Lock()
		p.repairing = false
		p.mu.Unlock()
		p.queue.pull()
	}()
}

func (p *puller) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
