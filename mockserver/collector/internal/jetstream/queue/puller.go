package queue

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// pullExpires is how long a server keeps a request for messages.
	pullExpires         = 10 * time.Second
	pullExpiresEmbedded = 5 * time.Minute
	// pullHeartbeat is how often a server of a cluster says that it keeps a request,
	// and pullSilence how long without a word a request is taken for lost: the server
	// that kept it has gone, or is cut off.
	pullHeartbeat = 1500 * time.Millisecond
	pullSilence   = 4 * time.Second
	// repairPause is how long a puller waits after its consumer did not answer.
	repairPause = 100 * time.Millisecond
)

// A puller asks a consumer for messages, for so many as are wanted and no more:
// a backlog stays on the disk.
type puller struct {
	queue     *Queue
	kind      string // of the stream
	subject   string // of requests
	got       func(lost context.Context, m *nats.Msg, seq, behind uint64)
	expires   time.Duration
	heartbeat time.Duration // 0: none

	mu        sync.Mutex // guards what follows
	sub       *nats.Subscription
	asked     int       // messages that may still come
	heard     time.Time // when the server said something, or was asked
	missed    bool      // what the server has handed out may not have come
	repairing bool
	closed    bool
}

func newPuller(q *Queue, kind string, got func(lost context.Context, m *nats.Msg, seq, behind uint64)) (*puller, error) {
	set := q.set
	p := &puller{queue: q, kind: kind, got: got, expires: pullExpiresEmbedded}
	if set.Shared {
		p.expires, p.heartbeat = pullExpires, pullHeartbeat
	}
	p.subject = "$JS.API.CONSUMER.MSG.NEXT." + set.Names.Stream(kind) + "." + set.Names.Consumer(q.name)
	return p, p.subscribe()
}

// subscribe has what is asked for from now on come on the connection as it is now.
func (p *puller) subscribe() (err error) {
	set := p.queue.set
	lost := set.Link.Load().Lost
	p.sub, err = set.NC.Subscribe(set.NC.NewInbox(), func(m *nats.Msg) { p.receive(lost, m) })
	return err
}

func (p *puller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.sub.Unsubscribe()
}

// want asks for messages until n may come.
func (p *puller) want(n int) {
	p.mu.Lock()
	n -= p.asked
	if n <= 0 || p.repairing || p.closed {
		p.mu.Unlock()
		return
	}
	if p.asked == 0 {
		p.heard = time.Now()
	}
	p.asked += n
	inbox := p.sub.Subject
	p.mu.Unlock()
	request, _ := json.Marshal(store.PullRequest{Batch: n, Expires: p.expires, Heartbeat: p.heartbeat})
	if err := p.queue.set.NC.PublishRequest(p.subject, inbox, request); err != nil {
		p.repair()
	}
}

// receive takes messages, and what the server says about requests. Messages may wait
// for the account until the connection is lost.
func (p *puller) receive(lost context.Context, m *nats.Msg) {
	switch status := m.Header.Get("Status"); status {
	case "":
		p.came(1)
		if meta, err := m.Metadata(); err == nil {
			p.got(lost, m, meta.Sequence.Stream, meta.NumPending)
		}
		p.queue.pull()
	case "100": // it keeps the request
		p.came(0)
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
	p.asked, p.heard = max(0, p.asked-n), time.Now()
}

// check asks again where nothing was heard for too long of what was asked for.
func (p *puller) check(now time.Time) {
	p.mu.Lock()
	lost := p.asked > 0 && now.Sub(p.heard) > pullSilence
	p.mu.Unlock()
	if lost {
		p.repair()
	}
}

// reset forgets what was asked for, and what has come and waits: the connection is
// another. A cluster hands it out again when nobody gives a sign of life for it.
// Within the process it would do so a day later, and what has ended behind it would
// count it as ended: so there is another consumer.
func (p *puller) reset() {
	p.mu.Lock()
	p.asked = 0
	if p.closed {
		p.mu.Unlock()
		return
	}
	_ = p.sub.Unsubscribe()
	_ = p.subscribe() // it fails where the journal is closed
	p.missed = !p.queue.set.Shared
	missed := p.missed
	p.mu.Unlock()
	if missed {
		p.repair()
	}
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
	p.queue.set.Work.Go(func() {
		ctx := p.queue.set.Ctx
		for pause.For(ctx, repairPause) == nil && !p.repaired(ctx) {
		}
		p.queue.pull()
	})
}

// repaired tries once to make the consumer again, and reports whether there is nothing
// more to do.
func (p *puller) repaired(ctx context.Context) bool {
	p.mu.Lock()
	missed, closed := p.missed, p.closed
	p.missed = false
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, store.AskPatience)
	defer cancel()
	var err error
	if missed && !closed {
		set := p.queue.set
		if err = set.JS.DeleteConsumer(ctx, set.Names.Stream(p.kind), set.Names.Consumer(p.queue.name)); errors.Is(err, jetstream.ErrConsumerNotFound) {
			err = nil
		}
	}
	if err == nil && !closed {
		missed, err = false, p.queue.ensure(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missed = p.missed || missed
	p.repairing = !p.closed && (err != nil || p.missed)
	return !p.repairing
}
