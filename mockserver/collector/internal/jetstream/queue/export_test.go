package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Of returns the queue that a reader reads.
func Of(r journal.Reader) *Queue { return r.(*reader).queue }

// Stored returns a message of CALLS.
func (q *Queue) Stored(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	return q.set.JS.Get(ctx, q.set.Names.Stream(record.StreamCalls), seq)
}

// A handedOut is a stored message that a consumer has handed out once.
type handedOut struct {
	jetstream.Msg
	*jetstream.RawStreamMsg
}

func (m handedOut) Subject() string      { return m.RawStreamMsg.Subject }
func (m handedOut) Headers() nats.Header { return m.Header }
func (m handedOut) Data() []byte         { return m.RawStreamMsg.Data }
func (m handedOut) Ack() error           { return nil }

func (m handedOut) metadata() *jetstream.MsgMetadata {
	return &jetstream.MsgMetadata{NumDelivered: 1, Sequence: jetstream.SequencePair{Stream: m.Sequence}}
}

// ComeInTurn has a message of CALLS come as it was asked for.
func (q *Queue) ComeInTurn(calls *jetstream.RawStreamMsg) {
	m := handedOut{RawStreamMsg: calls}
	q.gotCalls(context.Background(), m, m.metadata())
}

// ComeAhead has a message of CALLS come before its turn.
func (q *Queue) ComeAhead(calls *jetstream.RawStreamMsg, source string) error {
	return q.overtook(calls, source)
}

// ComeAsRetry has a message of RETRY come.
func (q *Queue) ComeAsRetry(retry *jetstream.RawStreamMsg) {
	m := handedOut{RawStreamMsg: retry}
	q.gotRetry(context.Background(), m, m.metadata())
}

// EndWhile ends a lease while something comes, and returns how many items are there
// then, and whether the end counted.
func (q *Queue) EndWhile(l journal.Lease, r journal.Result, come func()) (items int, counted bool) {
	leased := l.(*lease)
	o, _, _ := leased.outcome(r)
	came := make(chan struct{})
	q.mu.Lock()
	go func() {
		defer close(came)
		come()
	}()
	state := <-q.set.results.write(o, false) // meanwhile what has come waits for the queue
	delete(q.items, leased.item.Ref)         // as it is dropped
	delete(q.messages, leased.item.Ref.Seq)
	q.mu.Unlock()
	<-came
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), state.counted
}

// GiveBack gives back what nobody has worked at since then, as Renew does, and returns how
// many messages that are, and how many items are left.
func (q *Queue) GiveBack(then time.Time) (messages, items int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.giveBack(func(it *item) bool { return !it.since.After(then) })), len(q.items)
}

// A slowSettler does what follows from an outcome once it may.
type slowSettler struct {
	Settler
	may chan struct{}
}

func (s slowSettler) Settle(o *record.Outcome, given []tracking.Call, traces tracecontext.List) error {
	<-s.may
	return s.Settler.Settle(o, given, traces)
}

// SettleWhen has what follows from outcomes wait until the channel is closed.
func (q *Queue) SettleWhen(may chan struct{}) { q.set.settler = slowSettler{q.set.settler, may} }
