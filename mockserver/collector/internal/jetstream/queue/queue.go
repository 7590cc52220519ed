package queue

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/turns"
)

func newQueue(set *Set, name string, attached uint64, since time.Time) *Queue {
	q := &Queue{
		set: set, attachment: attachment{name, attached, since}, wants: map[*journal.Want]struct{}{},
		claimant: strconv.FormatUint(store.RandomNumber(), 16), ready: newReady(),
		items: map[record.Ref]*item{}, parked: map[record.Ref]*item{}, messages: map[uint64]*pendingMessage{}, again: repeats{messages: map[uint64][]jetstream.Msg{}},
	}
	q.ctx, q.cancel = context.WithCancel(set.Ctx)
	q.newPhase()
	q.fresh = newPuller(q, record.StreamCalls, func() int { fresh, _ := q.demand(); return fresh }, q.gotCalls)
	q.retries = newPuller(q, record.StreamRetry, func() int { _, retries := q.demand(); return retries }, q.gotRetry)
	return q
}

func newReady() *turns.Queue[*item] {
	return turns.New((*item).source, func(it *item) time.Time { return it.Due }, func(it *item) uint64 { return it.Ref.Number() })
}

// newPhase has the pullers begin anew. The lock is held, or the queue is not started.
func (q *Queue) newPhase() {
	if q.endPhase != nil {
		q.endPhase()
	}
	q.phase, q.endPhase = context.WithCancel(q.ctx)
}

// start has what is wanted come.
func (q *Queue) start() {
	q.set.Work.Go(q.fresh.run)
	q.set.Work.Go(q.retries.run)
}

// close ends the queue in this process. What is leased may still be finished.
func (q *Queue) close() {
	q.mu.Lock()
	q.cancel()
	if q.reader != nil {
		q.reader.end()
	}
	var give []jetstream.Msg
	if q.set.Shared {
		give = q.giveBack(func(*item) bool { return true })
	}
	q.mu.Unlock()
	for _, m := range give {
		_ = m.Nak()
	}
}

// gotCalls takes a message of CALLS. ctx ends when the connection is lost on which it came,
// or the queue begins anew.
func (q *Queue) gotCalls(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata) {
	seq := meta.Sequence.Stream
	parsed, err := q.set.Names.ParseCalls(seq, m.Subject(), m.Headers())
	if err != nil {
		q.set.Log.Error("a message of calls cannot be read; it stays where it is", "destination", q.name, "error", err)
		return
	}
	if err := q.accounted(ctx, seq); err != nil {
		_ = m.Nak()
		return
	}
	q.mu.Lock()
	if ctx.Err() != nil { // it came for another phase
		q.mu.Unlock()
		_ = m.Nak()
		return
	}
	q.last, q.came, q.ahead.behind = max(q.last, seq), max(q.came, seq), meta.NumPending
	here := q.take(parsed, m.Data(), m)
	if !here && q.inOrder {
		q.wake() // what waited for it to come may be handed out
	}
	q.mu.Unlock()
	if !here {
		q.known(m, meta, seq)
	}
}

// known acknowledges a message whose first attempt has ended. If it came before,
// a process may have died between the outcome and what follows from it.
func (q *Queue) known(m jetstream.Msg, meta *jetstream.MsgMetadata, seq uint64) {
	set := q.set
	if !set.Shared || meta.NumDelivered < 2 {
		ack(m)
		return
	}
	q.mu.Lock()
	q.again.messages[seq] = append(q.again.messages[seq], m)
	first := !q.again.settling
	q.again.settling = true
	q.mu.Unlock()
	if first {
		set.Work.Go(q.settleRepeated)
	}
}

// settleRepeated does what follows from the outcomes about the messages that came again,
// and acknowledges them. One reading of the outcomes serves all that have come until it
// begins.
func (q *Queue) settleRepeated() {
	set := q.set
	for {
		q.mu.Lock()
		messages := q.again.messages
		q.again.messages = map[uint64][]jetstream.Msg{}
		q.again.settling = len(messages) > 0
		q.mu.Unlock()
		if len(messages) == 0 {
			return
		}
		if err := set.settler.SettleFor(set.Ctx, q.name, slices.Collect(maps.Keys(messages))); err != nil {
			set.Log.Warn("what follows from an outcome could not be done; it is tried again", "destination", q.name, "error", err)
			continue // they come again
		}
		for _, same := range messages {
			for _, m := range same {
				ack(m)
			}
		}
	}
}

// gotRetry takes a message of RETRY.
func (q *Queue) gotRetry(_ context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata) {
	set := q.set
	stored, err := record.DecodeRetry(m.Data())
	if err != nil {
		set.Log.Error("a retry cannot be read; it is made again from its outcome", "destination", q.name, "error", err)
		ack(m)
		return
	}
	it := &item{Retry: *stored}
	// Another process may have read further than this one.
	if set.account.ReachedBoth(set.Ctx, it.Ref.Seq, it.From) != nil {
		return
	}
	var waits ledger.Waiting // what the account says that is waited for
	q.mu.Lock()              // before the account is asked, see open
	set.account.With(q.name, func(b *ledger.Account) {
		if b.Attached == q.attached {
			waits = b.Retries[it.Ref]
		}
	})
	have := q.items[it.Ref]
	switch {
	case have != nil && have.Attempt == it.Attempt:
		have.msg = m // it came again
		q.mu.Unlock()
		return
	case waits.Attempt == it.Attempt: // an attempt before it may be about to be forgotten
		it.msg, it.since, it.Due = m, time.Now(), it.DueFrom(time.Now())
		if it.isReplay() && q.inOrder {
			it.Due = time.Time{} // it comes in its place among first attempts
		}
		delete(q.parked, it.Ref)
		q.add(it)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if have == nil && waits.Attempt > it.Attempt {
		// What came has ended, and was still there because a process was killed
		// before RETRY was written. What was scheduled then may be missing.
		if err := set.settler.RestoreRetry(set.Ctx, q.name, it.Ref, waits, new(store.Outcomes)); err != nil {
			set.Log.Warn("a retry could not be made again; it is tried again", "destination", q.name, "error", err)
			_ = m.NakWithDelay(time.Second)
			return
		}
	}
	q.known(m, meta, it.Ref.Seq)
}
