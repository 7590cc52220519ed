package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// expire gives up what is pending of the messages of CALLS before one: a
// destination may have been paused, or down, for as long as calls are kept. They
// are listed as failed, so that nothing goes without a trace.
func (j *Journal) expire(ctx context.Context, before uint64) error {
	for _, destination := range j.account.Behind(before) {
		old := map[record.Ref]int{} // the attempt that is pending
		var attached, floor uint64
		j.account.With(destination, func(b *ledger.Account) {
			attached, floor = b.Attached, b.Floor
			for ref, r := range b.Retries {
				if ref.Seq < before {
					old[ref] = r.Attempt
				}
			}
		})
		if err := j.undelivered(ctx, destination, floor, before, old); err != nil {
			return err
		}
		for _, ref := range j.queues.leased(destination) {
			delete(old, ref) // it ends by itself
		}
		if len(old) > 0 {
			j.Log.Warn("calls are given up: they are pending for longer than calls are kept", "destination", destination, "entries", len(old), "kept", j.options.Keep)
		}
		reason := fmt.Sprintf("it was still pending after the %v for which calls are kept", j.options.Keep)
		for ref, attempt := range old {
			if err := j.queues.expire(ctx, destination, attached, ref, attempt, reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// undelivered adds the parts of messages whose first attempt has not ended.
func (j *Journal) undelivered(ctx context.Context, destination string, floor, before uint64, old map[record.Ref]int) error {
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
					old[ref] = 1
				}
			}
		})
		return nil
	})
	t.HeadersOnly, t.Subjects = true, j.Names.CallSubjects(nil)
	return t.Scan(ctx)
}
