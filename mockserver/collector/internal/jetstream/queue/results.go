package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// resultsEvery is the interval between messages with outcomes. A longer interval saves disk
	// writes, but more calls are delivered again after a crash. A message is written earlier if an
	// outcome must not wait, or if the message contains the outcomes of resultsCalls calls.
	resultsEvery = 200 * time.Millisecond
	resultsCalls = 128
	// resultsBytes limits the size of a message of outcomes.
	resultsBytes = 256 << 10
	// fencePause is the delay before a failed fence is retried.
	fencePause = 100 * time.Millisecond
	// resultsQueue is the number of outcomes that may wait to be written.
	resultsQueue = 1024
)

// errTakenOver reports that another process owns the destination now.
var errTakenOver = errors.New("journal: another collector delivers to the destination now")

// results writes outcomes. It combines outcomes that can wait into one message, which saves disk
// writes. The first outcome after a pause is written immediately.
type results struct {
	store   *store.Store
	ledger  *ledger.Live
	number  *atomic.Uint64  // number of the last message that this process has written
	ctx     context.Context // done when writing stops
	stop    context.CancelCauseFunc
	subject string
	queue   chan *pendingResult // never closed
	due     time.Time           // earliest time of the next write; used only by run

	// The fields below are for an ownership, which has its own subject. Each message must follow the
	// last message of the subject.

	owned         context.Context         // done when the ownership ends; nil without an ownership
	loseOwnership context.CancelCauseFunc // ends owned
	first, last   uint64                  // the number of the first message, and the newest sequence number of the subject; used by fence, then only by run

	mu    sync.RWMutex // read-locked while an outcome is added to queue; guards ended
	ended bool         // the queue has no reader
}

// A pendingResult is an outcome to be written.
type pendingResult struct {
	outcome *record.Outcome
	mayWait bool             // whether the outcome may wait for other outcomes
	done    chan resultState // receives one state; never closed
}

// A resultState is the result of writing an outcome.
type resultState struct {
	counted bool // false if another process had already ended the attempt
	err     error
}

// newResults returns a writer of outcomes to a subject.
func newResults(s *store.Store, l *ledger.Live, number *atomic.Uint64, subject string) *results {
	r := &results{store: s, ledger: l, number: number, subject: subject, queue: make(chan *pendingResult, resultsQueue)}
	r.ctx, r.stop = context.WithCancelCause(s.Ctx)
	return r
}

// write queues an outcome. If mayWait is set, the outcome may wait for other outcomes. The returned
// channel receives one state.
func (r *results) write(o *record.Outcome, mayWait bool) <-chan resultState {
	p := &pendingResult{outcome: o, mayWait: mayWait, done: make(chan resultState, 1)}
	r.mu.RLock()
	defer r.mu.RUnlock()
	ctx := r.ctx
	if r.ended {
		p.done <- resultState{err: context.Cause(ctx)}
		return p.done
	}
	select {
	case r.queue <- p:
	case <-ctx.Done():
		p.done <- resultState{err: context.Cause(ctx)}
	}
	return p.done
}

// run writes outcomes until the journal is closed or another process owns the destination. After
// a rejected outcome, no other outcome may be stored.
func (r *results) run() {
	ctx := r.ctx
	var next *pendingResult // the outcome that did not fit into the last message
	for {
		first := next
		if first == nil {
			select {
			case first = <-r.queue:
			case <-ctx.Done():
				r.end(context.Cause(ctx))
				return
			}
		}
		var group []*pendingResult
		group, next = r.gather(first)
		if r.due = time.Now().Add(resultsEvery); next != nil {
			r.due = time.Time{} // the outcome has already waited
		}
		r.storeGroup(group)
	}
}

// gather collects outcomes until the message is due or full. It returns the first outcome
// that does not fit.
func (r *results) gather(first *pendingResult) (group []*pendingResult, next *pendingResult) {
	timer := time.NewTimer(time.Until(r.due))
	defer timer.Stop()
	size, calls, due := 0, 0, false
	for p := first; ; {
		if size += p.outcome.Size(); size > resultsBytes && p != first {
			return group, p
		}
		group, calls = append(group, p), calls+p.outcome.Calls()
		due = due || !p.mayWait || calls >= resultsCalls
		if p, due = r.take(timer, due); p == nil {
			return group, nil
		}
	}
}

// take returns the next outcome, or nil if the message is due and the queue is empty.
func (r *results) take(timer *time.Timer, due bool) (p *pendingResult, isDue bool) {
	select {
	case p = <-r.queue:
		return p, due
	default:
	}
	if due {
		return nil, true
	}
	select {
	case p = <-r.queue:
		return p, false
	case <-timer.C:
	case <-r.ctx.Done():
	}
	return nil, true
}

// storeGroup writes a group of outcomes. It waits until the ledger has read them, because the
// ledger decides which of them count.
func (r *results) storeGroup(group []*pendingResult) {
	s := r.store
	id := record.WriteID{Writer: s.Writer, Number: r.number.Add(1)}
	m := nats.NewMsg(r.subject)
	m.Data = record.NewOutcomes(id)
	var one []byte
	for _, p := range group {
		one = p.outcome.Append(one[:0])
		m.Data = record.AppendText(m.Data, one)
	}
	accounted := make(chan []bool, 1)
	r.ledger.Expect(id, accounted)
	defer r.ledger.Forget(id)
	counted, err := r.counted(m, id, accounted)
	for err != nil && r.ctx.Err() == nil && !errors.Is(err, errTakenOver) {
		// Retry. Otherwise, delivered calls would be delivered again.
		s.Log.Debug("storing outcomes failed; retrying", "outcomes", len(group), "error", err)
		if s.AwaitStore() == nil {
			counted, err = r.counted(m, id, accounted)
		}
	}
	if errors.Is(err, errTakenOver) {
		r.stop(errTakenOver)
		r.loseOwnership(errTakenOver)
	}
	for i, p := range group {
		if err != nil {
			p.done <- resultState{err: err}
		} else {
			p.done <- resultState{counted: counted[i]}
		}
	}
}

// counted stores a message and returns which of its outcomes count. If the ledger has already
// read the message, for example after a failed attempt to store it, counted does not store it again.
func (r *results) counted(m *nats.Msg, id record.WriteID, accounted <-chan []bool) ([]bool, error) {
	s := r.store
	select {
	case counted := <-accounted:
		return counted, nil
	default:
	}
	if err := r.publish(r.ctx, m, id); err != nil {
		return nil, fmt.Errorf("journal: writing outcomes: %w", err)
	}
	ctx, stop, err := s.WritableContext(s.Ctx, store.PublishTimeout)
	if err != nil {
		return nil, err
	}
	defer stop()
	select {
	case counted := <-accounted:
		return counted, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("journal: the ledger has not read the outcomes: %w", context.Cause(ctx))
	}
}

// publish stores a message. With an ownership it returns errTakenOver if another process has
// stored outcomes of the destination since. After any other error it can be called again.
func (r *results) publish(ctx context.Context, m *nats.Msg, id record.WriteID) error {
	if r.owned == nil {
		_, err := r.store.Publish(ctx, m)
		return err
	}
	store.ExpectLast(m, r.last)
	seq, err := r.store.Publish(ctx, m)
	if err == nil {
		r.last = seq
	}
	if !store.IsWrongSequence(err) {
		return err
	}
	stored, failure := r.newest(ctx)
	if failure == nil && stored != id { // otherwise an earlier attempt without a response has stored the message
		failure = err
	}
	return failure
}

// newest finds the newest message of the subject. It returns errTakenOver if that message is
// not from this ownership.
func (r *results) newest(ctx context.Context) (id record.WriteID, err error) {
	ctx, stop, err := r.store.WritableContext(ctx, store.RequestTimeout)
	if err != nil {
		return id, err
	}
	defer stop()
	m, err := r.store.JS.Last(ctx, r.store.Names.Stream(record.StreamOutcomes), r.subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) && r.owned.Err() != nil:
		return id, errTakenOver // another process may own the destination: its messages may have been trimmed
	case errors.Is(err, jetstream.ErrMsgNotFound):
		r.last = 0 // all messages were trimmed, and no other process can have stored any
		return id, nil
	case err != nil:
		return id, err
	}
	r.last = m.Sequence
	if id, _, err = record.DecodeOutcomes(m.Data); err == nil && (id.Writer != r.store.Writer || id.Number < r.first) {
		err = errTakenOver
	}
	return id, err
}

// fence stores a message without outcomes. From then on, outcomes of previous owners are rejected.
// fence is called before run, and retries until ctx is done. The message must follow the last
// message, so that a late fence cannot end a later ownership.
func (r *results) fence(ctx context.Context) error {
	id := record.WriteID{Writer: r.store.Writer, Number: r.number.Add(1)}
	m := nats.NewMsg(r.subject)
	m.Data = record.NewOutcomes(id)
	r.first = id.Number
	for {
		stored, err := r.newest(ctx)
		if err == nil && stored == id {
			return nil
		}
		if err == nil || errors.Is(err, errTakenOver) { // the newest message is from another owner
			err = r.publish(ctx, m, id)
		}
		if err == nil || pause.For(ctx, fencePause) != nil {
			return err
		}
	}
}

// end rejects queued and future outcomes.
func (r *results) end(err error) {
	r.mu.Lock() // writers blocked on a full queue return, because ctx has ended
	r.ended = true
	r.mu.Unlock()
	for {
		select {
		case p := <-r.queue:
			p.done <- resultState{err: err}
		default:
			return
		}
	}
}
