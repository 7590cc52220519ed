package queue

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
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
	// resultsQueue is how many outcomes may wait to be written.
	resultsQueue = 1024
)

// results writes outcomes. Those that may wait and come within resultsEvery share a message,
// and so a write to the disk; the first after a while is written at once.
type results struct {
	store   *store.Store
	account *ledger.Ledger
	queue   chan *pendingResult // never closed
	number  uint64              // of writes; used by run alone
	due     time.Time           // when the next may be written; used by run alone

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

func newResults(s *store.Store, account *ledger.Ledger) *results {
	return &results{store: s, account: account, queue: make(chan *pendingResult, resultsQueue)}
}

// write hands over an outcome, which is written at once unless it may wait for others. The
// channel that it returns gets one state.
func (r *results) write(o *record.Outcome, mayWait bool) <-chan resultState {
	p := &pendingResult{outcome: o, mayWait: mayWait, done: make(chan resultState, 1)}
	r.mu.RLock()
	defer r.mu.RUnlock()
	ctx := r.store.Ctx
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

// run writes until the journal is closed.
func (r *results) run() {
	ctx := r.store.Ctx
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
	case <-r.store.Ctx.Done():
	}
	return nil, true
}

// storeGroup writes a group and waits until the account has it: it may say that
// another process was faster.
func (r *results) storeGroup(group []*pendingResult) {
	s := r.store
	r.number++
	id := record.WriteID{Writer: s.Writer, Number: r.number}
	m := nats.NewMsg(s.Names.Subject("o"))
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
	counted, err := r.counted(m, told)
	for err != nil && s.Ctx.Err() == nil {
		// What was delivered is not delivered again because that could not be stored.
		s.Log.Debug("outcomes could not be stored; it is tried again", "outcomes", len(group), "error", err)
		if s.AwaitStore() == nil {
			counted, err = r.counted(m, told)
		}
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
func (r *results) counted(m *nats.Msg, told <-chan []bool) ([]bool, error) {
	s := r.store
	select {
	case counted := <-told:
		return counted, nil
	default:
	}
	if _, err := s.Publish(s.Ctx, m); err != nil {
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
