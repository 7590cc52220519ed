package journal

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// expire gives up what is pending of the messages of CALLS before one: a
// destination may have been paused, or down, for as long as calls are kept. They
// are listed as failed, so that nothing goes without a trace.
func (j *Journal) expire(ctx context.Context, before uint64) error {
	for _, destination := range j.account.behind(before) {
		q := &queue{journal: j, name: destination}
		old := map[callsRef]*item{}
		var floor uint64
		j.account.with(destination, func(b *book) {
			q.attached, floor = b.attached, b.floor
			for ref, r := range b.retries {
				if ref.seq < before {
					old[ref] = &item{ref: ref, attempt: r.attempt}
				}
			}
		})
		if err := j.untried(ctx, destination, floor, before, old); err != nil {
			return err
		}
		j.notAtWork(destination, old)
		if len(old) > 0 {
			j.log.Warn("calls are given up: they are pending for longer than calls are kept", "destination", destination, "entries", len(old), "kept", j.options.Keep)
		}
		for _, it := range old {
			if err := q.expire(ctx, it); err != nil {
				return err
			}
		}
	}
	return nil
}

// behind returns the destinations with something pending before a message.
func (a *account) behind(before uint64) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, b := range a.books {
		pending := b.fresh > 0 && b.floor+1 < before
		for ref := range b.retries {
			pending = pending || ref.seq < before
		}
		if pending {
			names = append(names, name)
		}
	}
	return names
}

// untried adds the parts of messages whose first attempt has not ended.
func (j *Journal) untried(ctx context.Context, destination string, floor, before uint64, old map[callsRef]*item) error {
	t := j.tail(streamCalls, floor+1, func(m *nats.Msg, seq uint64) error {
		if seq >= before {
			return errEnough
		}
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		j.account.with(destination, func(b *book) {
			for part := range parts(parsed.calls) {
				ref := callsRef{seq, part}
				if b.takes(seq, parsed.name) && !b.ended(ref) {
					old[ref] = &item{ref: ref, attempt: 1}
				}
			}
		})
		return nil
	})
	t.headersOnly, t.subjects = true, j.callSubjects(nil)
	return t.scan(ctx)
}

// notAtWork takes out the items that somebody in this process works at: they end
// by themselves.
func (j *Journal) notAtWork(destination string, old map[callsRef]*item) {
	j.mu.Lock()
	q := j.queues[destination]
	j.mu.Unlock()
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for ref, it := range q.items {
		if it.leased {
			delete(old, ref)
		}
	}
}

// expire stores that the calls of an item are given up.
func (q *queue) expire(ctx context.Context, it *item) error {
	j := q.journal
	waits := false
	j.account.with(q.name, func(b *book) {
		r, retrying := b.retries[it.ref]
		waits = b.attached == q.attached && (retrying && r.attempt == it.attempt || !retrying && it.attempt == 1 && !b.ended(it.ref))
		if waits && r.outcome != 0 {
			it.from = r.outcome
		}
		if waits && r.which != (callSet{}) {
			it.places = r.which.places(it.ref)
		}
	})
	if !waits {
		return nil
	}
	if it.from != 0 && it.places == nil {
		o, err := new(readOutcomes).outcome(ctx, j, it.from, q.name, it.ref)
		if err != nil {
			return err
		}
		it.places = o.again
	}
	source, _, bodies, err := q.bodies(it)
	if isMissing(err) && j.options.NATS == nil {
		q.giveUp(it)
		return nil
	}
	if err != nil {
		return err
	}
	o := &outcome{destination: q.name, attached: q.attached, ref: it.ref, attempt: it.attempt}
	if it.places == nil {
		it.places = allPlaces(it.ref, it.ref.part*partCalls+len(bodies))
	}
	given := make([]tracking.Call, len(bodies))
	for i, body := range bodies {
		o.failed = append(o.failed, failure{it.places[i], fmt.Sprintf("it was still pending after the %v for which calls are kept", j.options.Keep)})
		if given[i], err = fields.ReadCall(source, body); err != nil {
			return err
		}
	}
	if state := <-j.results.write(o); state.err != nil || !state.counted {
		return state.err
	}
	return j.settle(o, given)
}
