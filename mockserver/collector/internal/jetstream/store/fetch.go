package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumer implements Consumer over a connection. It replaces jetstream.Consumer.Fetch, which starts
// a timer and parses the reply for each message. That takes 7.8 µs of CPU per message; this
// implementation takes 5.7 µs.
type consumer struct {
	jetstream.Consumer
	nc *nats.Conn

	mu    sync.Mutex         // guards the fields below
	sub   *nats.Subscription // nil before the first Fetch
	batch *batch             // batch of the last Fetch
}

// Info implements Consumer.
func (c *consumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := c.Consumer.Info(ctx)
	return info, markNoResponse(ctx, err)
}

// fetchBytes limits the size of a batch. A larger message is fetched alone. Without a limit, more
// data would wait in the server. The server closes a connection with too much pending data. Over a
// slow link, its PONG would also arrive so late that the client considers the connection dead.
const fetchBytes = 128 << 10

// Fetch implements Consumer.
func (c *consumer) Fetch(ctx context.Context, messages int, heartbeat time.Duration) (Batch, error) {
	end, _ := ctx.Deadline()
	expires := time.Until(end)
	expires -= min(expires/10, time.Second) // the server then reports the expiry before ctx ends
	heartbeat = min(heartbeat, expires/3)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub == nil {
		var err error
		if c.sub, err = c.nc.Subscribe(c.nc.NewInbox(), c.receive); err != nil {
			return nil, err
		}
	}
	b := newBatch(ctx, messages, 3*heartbeat/2)
	b.single = func() error { return c.pull(pullRequest{1, 0, expires, heartbeat}) }
	c.batch = b
	if err := c.pull(pullRequest{messages, fetchBytes, expires, heartbeat}); err != nil {
		b.end(err)
		return nil, err
	}
	return b, nil
}

func (c *consumer) pull(p pullRequest) error {
	request, err := json.Marshal(p)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	return c.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+info.Stream+"."+info.Name, c.sub.Subject, request)
}

// Stop implements Consumer.
func (c *consumer) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub != nil {
		_ = c.sub.Unsubscribe()
	}
}

func (c *consumer) receive(m *nats.Msg) {
	c.mu.Lock()
	b := c.batch
	c.mu.Unlock()
	b.receive(m)
}

// A pullRequest requests messages from a consumer.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"` // 0 means no limit
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// A batch implements Batch.
type batch struct {
	messages chan *nats.Msg // has a capacity for all messages; closed by end
	heard    atomic.Bool    // whether data was received since the last check
	silence  time.Duration  // interval between the checks
	single   func() error   // requests one message of any size

	mu     sync.Mutex // guards the fields below
	timer  *time.Timer
	unlink func() bool // detaches the batch from its context
	left   int         // number of messages that have not been received
	bytes  int         // size of the received messages
	ended  bool
	err    error

	delivered, passed uint64 // see Position
}

func newBatch(ctx context.Context, messages int, silence time.Duration) *batch {
	b := &batch{messages: make(chan *nats.Msg, messages), silence: silence, left: messages}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(silence, b.checkSilence)
	b.unlink = context.AfterFunc(ctx, func() { b.end(ctx.Err()) })
	return b
}

// Messages implements Batch.
func (b *batch) Messages() <-chan *nats.Msg { return b.messages }

// Error implements Batch.
func (b *batch) Error() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Position implements Batch.
func (b *batch) Position() (delivered, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.delivered, b.passed
}

// receive handles a message or a status message for the request.
func (b *batch) receive(m *nats.Msg) {
	b.heard.Store(true)
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case status == "":
		b.take(m)
	case status == "100": // heartbeat
		b.mu.Lock()
		defer b.mu.Unlock()
		b.delivered, _ = strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
		b.passed, _ = strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64)
	case description == "Batch Completed": // can arrive before the last messages, or belong to an earlier batch
	case status == "408": // expired
		b.end(nil)
	case description == "Message Size Exceeds MaxBytes":
		b.full(m.Header.Get("Nats-Pending-Messages"))
	default: // the consumer was deleted, or moves to another server
		b.end(fmt.Errorf("nats: %s %s", status, description))
	}
}

// full handles the report that the next message exceeds MaxBytes. unsent is the number of messages
// that the server will not send. The other messages may still arrive, because a replicated consumer
// sends them after this report. If the batch is empty, full requests the next message alone.
func (b *batch) full(unsent string) {
	n, err := strconv.Atoi(unsent)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	switch b.left -= n; {
	case err != nil:
		b.finish(fmt.Errorf("nats: a full batch reports %q pending messages", unsent))
	case n == cap(b.messages):
		b.left = 1
		if err := b.single(); err != nil {
			b.finish(err)
		}
	case b.left <= 0:
		b.finish(nil)
	}
}

func (b *batch) take(m *nats.Msg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.messages <- m
	b.bytes += m.Size()
	if b.left--; b.left == 0 || b.bytes >= fetchBytes { // the server does not report a batch that is exactly full
		b.finish(nil)
	}
}

// checkSilence ends the batch if the server has been silent for too long.
func (b *batch) checkSilence() {
	if !b.heard.Swap(false) {
		b.end(jetstream.ErrNoHeartbeat)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.timer.Reset(b.silence)
	}
}

// end closes the batch. err may be nil.
func (b *batch) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(err)
}

// finish is like end, but the caller must hold the lock.
func (b *batch) finish(err error) {
	if b.ended {
		return
	}
	b.ended, b.err = true, err
	b.timer.Stop()
	b.unlink()
	close(b.messages)
}
