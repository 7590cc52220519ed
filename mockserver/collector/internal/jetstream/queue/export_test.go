package queue

import (
	"context"
	"runtime"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Of returns the queue that a reader reads.
func Of(r journal.Reader) *Queue { return r.(*reader).queue }

// Stored returns a message of CALLS.
func (q *Queue) Stored(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	return q.set.calls.GetMsg(ctx, seq)
}

// ComeInTurn has a message of CALLS come as it was asked for.
func (q *Queue) ComeInTurn(calls *jetstream.RawStreamMsg) {
	q.gotCalls(context.Background(), &nats.Msg{Subject: calls.Subject, Header: calls.Header, Data: calls.Data}, calls.Sequence, 0)
}

// ComeAhead has a message of CALLS come before its turn.
func (q *Queue) ComeAhead(calls *jetstream.RawStreamMsg, source string) error {
	return q.overtook(calls, source)
}

// ComeAsRetry has a message of RETRY come.
func (q *Queue) ComeAsRetry(retry *jetstream.RawStreamMsg) {
	q.gotRetry(context.Background(), &nats.Msg{Subject: retry.Subject, Data: retry.Data}, 0, 0)
}

// EndWhile ends a lease while something comes, and returns how many items are there
// then, and whether the end counted.
func (q *Queue) EndWhile(l journal.Lease, r journal.Result, come func()) (items int, counted bool) {
	leased := l.(*lease)
	o, _ := leased.outcome(r)
	came := make(chan struct{})
	q.mu.Lock()
	go func() {
		defer close(came)
		come()
	}()
	state := <-q.set.results.write(o) // meanwhile what has come waits for the queue
	delete(q.items, leased.item.Ref)  // as it is dropped
	delete(q.messages, leased.item.Ref.Seq)
	q.mu.Unlock()
	<-came
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), state.counted
}

// Reconnect has the connection made again while so many messages are on their way.
func (q *Queue) Reconnect(ctx context.Context, onTheWay int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fresh.want(onTheWay)
	for waiting := 0; waiting < onTheWay && ctx.Err() == nil; runtime.Gosched() { // one of them to be taken
		waiting, _, _ = q.fresh.sub.Pending()
	}
	q.fresh.reset()
}
