package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
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
	// resultsEvery is how long after one message of outcomes the next is written, unless
	// one may not wait or resultsCalls have ended: each takes a write to the disk. A
	// destination may have more entries than that which have ended. If the process dies
	// meanwhile, their calls are delivered again.
	resultsEvery = 200 * time.Millisecond
	resultsCalls = 128
	// resultsBytes bounds one message of outcomes.
	resultsBytes = 256 << 10
	// fencePause is how long after it failed a fence is tried again.
	fencePause = 100 * time.Millisecond
	// resultsQueue is how many outcomes may wait to be written.
	resultsQueue = 1024
)

// errTakenOver says that another process holds the destination now.
var errTakenOver = errors.New("journal: another collector delivers to the destination now")

// results writes outcomes. Those that may wait and come within resultsEvery share a message,
// and so a write to the disk; the first after a while is written at once.
type results struct {
	store   *store.Store
	account *ledger.Ledger
	number  *atomic.Uint64  // of the last message that this process wrote
	ctx     context.Context // ends when no more are written
	stop    context.CancelCauseFunc
	subject string
	queue   chan *pendingResult // never closed
	due     time.Time           // when the next may be written; used by run alone

	// Those of a hold have a subject of their own, whose last message they must be.

	held        context.Context         // ends with the hold; nil where there is none
	lose        context.CancelCauseFunc // ends held
	first, last uint64                  // the number of its first message, and where the newest of the subject is stored; used by fence, and then by run alone

	mu    sync.RWMutex // held to read while an outcome is put into queue; guards ended
	ended bool         // nobody takes from queue any longer
}

// A pendingResult waits to be written.
type pendingResult struct {
	outcome *record.Outcome
	mayWait bool             // for others that end soon
	done    chan resultState // gets one state; never closed
}

// A resultState tells what became of an outcome.
type resultState struct {
	counted bool // false: another process has ended the attempt before
	err     error
}

// newResults returns a writer of outcomes to a subject.
func newResults(s *store.Store, account *ledger.Ledger, number *atomic.Uint64, subject string) *results {
	r := &results{store: s, account: account, number: number, subject: subject, queue: make(chan *pendingResult, resultsQueue)}
	r.ctx, r.stop = context.WithCancelCause(s.Ctx)
	return r
}

// write hands over an outcome, which is written at once unless it may wait for others. The
// channel that it returns gets one state.
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

// run writes until the journal is closed, or another process holds the destination: nothing
// may be stored behind what was refused.
func (r *results) run() {
	ctx := r.ctx
	var next *pendingResult // what no longer fitted
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
			r.due = time.Time{} // it has waited with the others
		}
		r.storeGroup(group)
	}
}

// gather takes what waits, and what comes until the group is due, as far as it fits into
// one message.
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

// take returns an outcome that waits, or comes until the group is due: nil if it is, and
// none waits.
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

// storeGroup writes a group and waits until the account has it: it may say that
// another process was faster.
func (r *results) storeGroup(group []*pendingResult) {
	s := r.store
	id := record.WriteID{Writer: s.Writer, Number: r.number.Add(1)}
	m := nats.NewMsg(r.subject)
	m.Data = record.NewOutcomes(id)
	var one []byte
	for _, p := range group {
		one = p.outcome.Append(one[:0])
		m.Data = binary.AppendUvarint(m.Data, uint64(len(one)))
		m.Data = append(m.Data, one...)
	}
	told := make(chan []bool, 1)
	r.account.Expect(id, told)
	defer r.account.Forget(id)
	counted, err := r.counted(m, id, told)
	for err != nil && r.ctx.Err() == nil && !errors.Is(err, errTakenOver) {
		// What was delivered is not delivered again because that could not be stored.
		s.Log.Debug("outcomes could not be stored; it is tried again", "outcomes", len(group), "error", err)
		if s.AwaitStore() == nil {
			counted, err = r.counted(m, id, told)
		}
	}
	if errors.Is(err, errTakenOver) {
		r.stop(errTakenOver)
		r.lose(errTakenOver)
	}
	for i, p := range group {
		if err != nil {
			p.done <- resultState{err: err}
		} else {
			p.done <- resultState{counted: counted[i]}
		}
	}
}

// counted stores a message, unless the account has it although it was refused, and
// returns which of its outcomes count.
func (r *results) counted(m *nats.Msg, id record.WriteID, told <-chan []bool) ([]bool, error) {
	s := r.store
	select {
	case counted := <-told:
		return counted, nil
	default:
	}
	if err := r.publish(r.ctx, m, id); err != nil {
		return nil, fmt.Errorf("journal: writing outcomes: %w", err)
	}
	ctx, stop, err := s.While(s.Ctx, store.PublishPatience)
	if err != nil {
		return nil, err
	}
	defer stop()
	select {
	case counted := <-told:
		return counted, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("journal: the account does not follow: %w", context.Cause(ctx))
	}
}

// publish stores a message. Of a hold it is refused with errTakenOver where another process
// has stored outcomes of the destination since, and may be tried again where this one has.
func (r *results) publish(ctx context.Context, m *nats.Msg, id record.WriteID) error {
	if r.held == nil {
		_, err := r.store.Publish(ctx, m)
		return err
	}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(r.last, 10))
	seq, err := r.store.Publish(ctx, m)
	if err == nil {
		r.last = seq
	}
	if !store.IsWrongSequence(err) {
		return err
	}
	stored, failure := r.newest(ctx)
	if failure == nil && stored != id { // else it is stored, by a try that was not answered
		failure = err
	}
	return failure
}

// newest finds the newest message of the subject. Its error is errTakenOver if that is not
// of this hold.
func (r *results) newest(ctx context.Context) (id record.WriteID, err error) {
	ctx, stop, err := r.store.While(ctx, store.RequestPatience)
	if err != nil {
		return id, err
	}
	defer stop()
	m, err := r.store.JS.Last(ctx, r.store.Names.Stream(record.StreamOutcomes), r.subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) && r.held.Err() != nil:
		return id, errTakenOver // perhaps: what another has stored may have been trimmed
	case errors.Is(err, jetstream.ErrMsgNotFound):
		r.last = 0 // all were trimmed, and nobody else can have stored any
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

// fence stores a message without outcomes, from which on those of an earlier hold are
// refused. It comes before run, and tries until ctx ends. Like all of a hold it must be the
// last: one that is late must not end a later hold.
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
		if err == nil || errors.Is(err, errTakenOver) { // by the hold before
			err = r.publish(ctx, m, id)
		}
		if err == nil || pause.For(ctx, fencePause) != nil {
			return err
		}
	}
}

// end refuses what waits when the journal is closed, and what still comes.
func (r *results) end(err error) {
	r.mu.Lock() // whoever waits for room in the queue leaves: the journal's ctx has ended
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
