package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// expire gives up what is pending of the messages of CALLS before one: a
// destination may have been paused, or down, for as long as calls are kept. They
// are listed as failed, so that nothing goes without a trace.
func (j *Journal) expire(ctx context.Context, before uint64) error {
	for _, destination := range j.account.Behind(before) {
		q := &queue{journal: j, name: destination}
		old := map[record.Ref]*item{}
		var floor uint64
		j.account.With(destination, func(b *ledger.Account) {
			q.attached, floor = b.Attached, b.Floor
			for ref, r := range b.Retries {
				if ref.Seq < before {
					old[ref] = &item{Retry: record.Retry{Ref: ref, Attempt: r.Attempt}}
				}
			}
		})
		if err := j.undelivered(ctx, destination, floor, before, old); err != nil {
			return err
		}
		j.notAtWork(destination, old)
		if len(old) > 0 {
			j.Log.Warn("calls are given up: they are pending for longer than calls are kept", "destination", destination, "entries", len(old), "kept", j.options.Keep)
		}
		for _, it := range old {
			if err := q.expire(ctx, it); err != nil {
				return err
			}
		}
	}
	return nil
}

// undelivered adds the parts of messages whose first attempt has not ended.
func (j *Journal) undelivered(ctx context.Context, destination string, floor, before uint64, old map[record.Ref]*item) error {
	t := j.Tail(record.StreamCalls, floor+1, func(m *nats.Msg, seq uint64) error {
		if seq >= before {
			return store.ErrEnough
		}
		parsed, err := j.Names.ParseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		j.account.With(destination, func(b *ledger.Account) {
			for part := range record.Parts(parsed.Calls) {
				ref := record.Ref{Seq: seq, Part: part}
				if b.Takes(seq, parsed.Name) && !b.Ended(ref) {
					old[ref] = &item{Retry: record.Retry{Ref: ref, Attempt: 1}}
				}
			}
		})
		return nil
	})
	t.HeadersOnly, t.Subjects = true, j.Names.CallSubjects(nil)
	return t.Scan(ctx)
}

// notAtWork takes out the items that somebody in this process works at: they end
// by themselves.
func (j *Journal) notAtWork(destination string, old map[record.Ref]*item) {
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
	j.account.With(q.name, func(b *ledger.Account) {
		r, retrying := b.Retries[it.Ref]
		waits = b.Attached == q.attached && (retrying && r.Attempt == it.Attempt || !retrying && it.Attempt == 1 && !b.Ended(it.Ref))
		if waits && r.Outcome != 0 {
			it.From = r.Outcome
		}
		if waits && r.Which != (ledger.CallSet{}) {
			it.Places = r.Which.Places(it.Ref)
		}
	})
	if !waits {
		return nil
	}
	if it.From != 0 && it.Places == nil {
		o, err := new(readOutcomes).outcome(ctx, j, it.From, q.name, it.Ref)
		if err != nil {
			return err
		}
		it.Places = o.Again
	}
	source, _, bodies, err := q.bodies(it)
	if isMissing(err) && j.options.NATS == nil {
		q.giveUp(it)
		return nil
	}
	if err != nil {
		return err
	}
	o := &record.Outcome{Destination: q.name, Attached: q.attached, Ref: it.Ref, Attempt: it.Attempt}
	if it.Places == nil {
		it.Places = allPlaces(it.Ref, it.Ref.Part*record.PartCalls+len(bodies))
	}
	given := make([]mockserver.Call, len(bodies))
	for i, body := range bodies {
		o.Failed = append(o.Failed, record.Failure{Place: it.Places[i], Reason: fmt.Sprintf("it was still pending after the %v for which calls are kept", j.options.Keep)})
		if given[i], err = mockserver.ReadCall(source, body); err != nil {
			return err
		}
	}
	if state := <-j.results.write(o); state.err != nil || !state.counted {
		return state.err
	}
	return j.settle(o, given)
}
