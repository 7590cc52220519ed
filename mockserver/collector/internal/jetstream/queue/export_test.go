package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Of returns the queue of a reader.
func Of(r journal.Reader) *Queue { return r.(*reader).queue }

// Stored returns a message of CALLS.
func (q *Queue) Stored(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	return q.set.JS.Get(ctx, q.set.Names.Stream(record.StreamCalls), seq)
}

// handedOut returns a message at its first delivery by a consumer.
func handedOut(m *jetstream.RawStreamMsg) (*nats.Msg, *nats.MsgMetadata) {
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data},
		&nats.MsgMetadata{NumDelivered: 1, Sequence: nats.SequencePair{Stream: m.Sequence}}
}

// ReceiveInTurn receives a message of CALLS from the consumer.
func (q *Queue) ReceiveInTurn(calls *jetstream.RawStreamMsg) {
	m, meta := handedOut(calls)
	q.receiveCalls(context.Background(), m, meta)
}

// ReceiveAhead receives a message of CALLS ahead of its turn.
func (q *Queue) ReceiveAhead(calls *jetstream.RawStreamMsg, source string) error {
	return q.addOvertaking(calls, source)
}

// ReceiveRetry receives a message of RETRY.
func (q *Queue) ReceiveRetry(retry *jetstream.RawStreamMsg) {
	m, meta := handedOut(retry)
	q.receiveRetry(context.Background(), m, meta)
}

// EndWhile ends a lease while receive runs. It returns the number of items afterwards, and
// whether the outcome was counted.
func (q *Queue) EndWhile(l journal.Lease, r journal.Result, receive func()) (items int, counted bool) {
	leased := l.(*lease)
	o, _, _ := leased.outcome(r)
	came := make(chan struct{})
	q.mu.Lock()
	go func() {
		defer close(came)
		receive()
	}()
	state := <-q.set.results.write(o, false) // receive waits for the lock
	delete(q.items, leased.item.Ref)         // like drop
	delete(q.messages, leased.item.Ref.Seq)
	q.mu.Unlock()
	<-came
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), state.counted
}

// GiveBack is like Renew: it removes items that have been idle since a time. It returns the
// number of messages returned to the server and the number of remaining items.
func (q *Queue) GiveBack(then time.Time) (messages, items int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.removeIdle(func(it *item) bool { return it.isIdle(then) })), len(q.items)
}

// A slowSettler delays Settle until may is closed.
type slowSettler struct {
	Settler
	may chan struct{}
}

func (s slowSettler) Settle(o *record.Outcome, failed []tracking.Call, traces event.Traces) error {
	<-s.may
	return s.Settler.Settle(o, failed, traces)
}

// SettleWhen delays settling until may is closed.
func (q *Queue) SettleWhen(may chan struct{}) { q.set.settler = slowSettler{q.set.settler, may} }

// AwaitReads waits until calls that are read ahead have been read. It returns the number of their
// items.
func (q *Queue) AwaitReads() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items {
		if it.calls != nil {
			it.calls <- <-it.calls
			n++
		}
	}
	return n
}

// A failingSettler fails to store failed calls.
type failingSettler struct{ Settler }

func (s failingSettler) Settle(o *record.Outcome, failed []tracking.Call, traces event.Traces) error {
	if len(failed) > 0 {
		return errors.New("no space")
	}
	return s.Settler.Settle(o, failed, traces)
}

// FailToStoreFailed makes Settle fail for failed calls.
func (q *Queue) FailToStoreFailed() { q.set.settler = failingSettler{q.set.settler} }
