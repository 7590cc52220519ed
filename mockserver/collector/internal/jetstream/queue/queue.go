package queue

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

func newQueue(set *Set, name string, attached uint64, since time.Time) *Queue {
	q := &Queue{
		set: set, attachment: attachment{name, attached, since}, wants: map[*journal.Want]struct{}{},
		claimant: strconv.FormatUint(store.RandomNumber(), 16), ready: newReady(),
		items: map[record.Ref]*item{}, parked: map[record.Ref]*item{}, messages: map[uint64]*pendingMessage{}, redelivered: redeliveries{messages: map[uint64][]*nats.Msg{}},
	}
	q.ctx, q.cancel = context.WithCancel(set.Ctx)
	q.newPhase()
	q.fresh = newPuller(q, record.StreamCalls, func() int { fresh, _ := q.demand(); return fresh }, q.receiveCalls)
	q.retries = newPuller(q, record.StreamRetry, func() int { _, retries := q.demand(); return retries }, q.receiveRetry)
	return q
}

func newReady() *journal.WaitingQueue[*item] {
	return journal.NewWaitingQueue((*item).source, func(it *item) time.Time { return it.Due }, func(it *item) uint64 { return it.Ref.Number() })
}

// newPhase restarts the pullers. The caller holds the lock, or has not started the queue.
func (q *Queue) newPhase() {
	if q.endPhase != nil {
		q.endPhase()
	}
	q.phase, q.endPhase = context.WithCancel(q.ctx)
}

// start starts the pullers.
func (q *Queue) start() {
	q.set.Work.Go(q.fresh.run)
	q.set.Work.Go(q.retries.run)
}

// close closes the queue in this process. Leases can still be finished.
func (q *Queue) close() {
	q.mu.Lock()
	q.cancel()
	q.closeReader()
	var naks []*nats.Msg
	if q.set.Shared {
		naks = q.removeIdle(func(*item) bool { return true })
	}
	q.mu.Unlock()
	for _, m := range naks {
		_ = m.Nak()
	}
}

// receiveCalls adds a message of CALLS. ctx ends when the connection that delivered the
// message is lost, or a new phase begins.
func (q *Queue) receiveCalls(ctx context.Context, m *nats.Msg, meta *nats.MsgMetadata) {
	seq := meta.Sequence.Stream
	parsed, err := q.set.Names.ParseCalls(&jetstream.RawStreamMsg{Sequence: seq, Subject: m.Subject, Header: m.Header})
	if err != nil {
		q.set.Log.Error("a message of calls cannot be read; it stays in CALLS", "destination", q.name, "error", err)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.arrived(meta)
		return
	}
	if err := q.awaitLedger(ctx, seq); err != nil {
		_ = m.NakWithDelay(repairPause) // the ledger may be permanently broken
		return
	}
	q.mu.Lock()
	if ctx.Err() != nil { // the message belongs to an earlier phase
		q.mu.Unlock()
		_ = m.Nak()
		return
	}
	here := q.addMessage(parsed, m.Data, m)
	q.arrived(meta)
	q.mu.Unlock()
	if !here {
		q.ackEnded(m, meta, seq)
	}
}

// arrived records that a message of CALLS has been handled. The caller holds the lock.
func (q *Queue) arrived(meta *nats.MsgMetadata) {
	seq := meta.Sequence.Stream
	q.received, q.newest, q.ahead.behind = max(q.received, seq), max(q.newest, seq), meta.NumPending
	if q.handled = meta.Sequence.Consumer; q.inOrder {
		q.wake() // entries that waited for this message may be leased now
	}
}

// ackEnded acknowledges a message whose first attempt has ended. If the message was redelivered,
// another process may have exited after it stored the outcome and before it settled the outcome.
// So ackEnded settles the outcome first.
func (q *Queue) ackEnded(m *nats.Msg, meta *nats.MsgMetadata, seq uint64) {
	set := q.set
	if !set.Shared || meta.NumDelivered < 2 {
		ack(m)
		return
	}
	q.mu.Lock()
	if len(q.redelivered.messages) == 0 || meta.Timestamp.Before(q.redelivered.oldest) {
		q.redelivered.oldest = meta.Timestamp
	}
	q.redelivered.messages[seq] = append(q.redelivered.messages[seq], m)
	first := !q.redelivered.settling
	q.redelivered.settling = true
	q.mu.Unlock()
	if first {
		set.Work.Go(q.settleRedelivered)
	}
}

// settleRedelivered settles the outcomes of redelivered messages, then acknowledges the messages.
// It settles all messages that have arrived with a single pass over OUTCOMES.
func (q *Queue) settleRedelivered() {
	set := q.set
	for {
		q.mu.Lock()
		messages, since := q.redelivered.messages, q.redelivered.oldest // an outcome is stored after its message
		q.redelivered.messages = map[uint64][]*nats.Msg{}
		q.redelivered.settling = len(messages) > 0
		q.mu.Unlock()
		if len(messages) == 0 {
			return
		}
		if err := set.settler.SettleFor(set.Ctx, q.name, since, slices.Collect(maps.Keys(messages))); err != nil {
			set.Log.Warn("settling an outcome failed; retrying", "destination", q.name, "error", err)
			continue // the server redelivers them
		}
		for _, same := range messages {
			for _, m := range same {
				ack(m)
			}
		}
	}
}

// receiveRetry adds a message of RETRY.
func (q *Queue) receiveRetry(_ context.Context, m *nats.Msg, meta *nats.MsgMetadata) {
	set := q.set
	stored, err := record.DecodeRetry(m.Data)
	if err != nil {
		set.Log.Error("a retry cannot be read; it is restored from its outcome", "destination", q.name, "error", err)
		ack(m)
		return
	}
	it := &item{Retry: *stored}
	// The process that published the retry may have read further than this one.
	if set.ledger.Reached(set.Ctx, it.Ref.Seq, it.From) != nil {
		return
	}
	var waits ledger.PendingRetry // the retry according to the ledger
	q.mu.Lock()                   // before reading the ledger, see unattemptedParts
	set.ledger.With(q.name, func(a *ledger.Account) {
		if a.Attached == q.attached {
			waits = a.Retries[it.Ref]
		}
	})
	have := q.items[it.Ref]
	switch same := q.find(it.Ref, it.Attempt); {
	case same != nil:
		same.msg = m // the message was redelivered
		q.mu.Unlock()
		return
	case waits.Attempt == it.Attempt:
		it.msg, it.since, it.Due = m, time.Now(), it.DueFrom(time.Now())
		if it.isReplay() && q.inOrder {
			it.Due = time.Time{} // first attempts are ordered by position
		}
		delete(q.parked, it.Ref)
		q.add(it)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if have == nil && waits.Attempt > it.Attempt {
		// This attempt has ended, but a process was killed before it removed the
		// message and scheduled the next attempt.
		if err := set.settler.RestoreRetry(set.Ctx, ledger.Retry{Destination: q.name, Ref: it.Ref, PendingRetry: waits}); err != nil {
			set.Log.Warn("restoring a retry failed; retrying", "destination", q.name, "error", err)
			_ = m.NakWithDelay(time.Second)
			return
		}
	}
	q.ackEnded(m, meta, it.Ref.Seq)
}
