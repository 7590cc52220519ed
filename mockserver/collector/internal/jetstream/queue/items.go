package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
)

// bodyPause is how long an entry waits after its calls could not be read, or its end
// could not be stored.
const bodyPause = time.Second

// accounted waits until the account has a message of CALLS. It fails where the
// connection that the message came on is lost before: a server that was started again
// may have another of that number.
func (q *Queue) accounted(ctx context.Context, seq uint64) error {
	if err := q.set.account.Reached(ctx, seq); err != nil {
		return err
	}
	return ctx.Err()
}

// open returns the parts of a message of CALLS whose first attempt has not ended. The
// lock is held from here on until they are among the items: what ends meanwhile would
// be handed out again.
func (q *Queue) open(m *record.Calls) (open []record.Ref) {
	q.set.account.With(q.name, func(b *ledger.Account) {
		if b.Attached != q.attached || !b.Takes(m.Seq, m.Name) {
			return
		}
		for part := range record.Parts(m.Calls) {
			if ref := (record.Ref{Seq: m.Seq, Part: part}); !b.Ended(ref) {
				open = append(open, ref)
			}
		}
	})
	return open
}

// take makes the open parts of a message ready, and reports whether this process has
// the message now: it may have come before. The lock is held.
func (q *Queue) take(m *record.Calls, payload []byte, msg jetstream.Msg) bool {
	if p := q.messages[m.Seq]; p != nil {
		if msg != nil {
			p.msg = msg
		}
		return true
	}
	open := q.open(m)
	if len(open) == 0 {
		return false
	}
	p := &pendingMessage{msg: msg, calls: m.Calls, at: m.At, source: m.Name, left: len(open), payload: payload, traces: m.Traces}
	q.messages[m.Seq] = p
	for _, ref := range open {
		q.add(&item{Retry: record.Retry{Ref: ref, Attempt: 1}, message: p, since: time.Now()})
	}
	return true
}

// add makes an item ready. The lock is held.
func (q *Queue) add(it *item) {
	q.items[it.Ref] = it
	q.put(it)
}

// put makes an item ready that was not, or was no longer. The lock is held.
func (q *Queue) put(it *item) {
	it.leased = false
	q.ready.Push(it)
	q.wake()
}

// putOff has an item wait a moment.
func (q *Queue) putOff(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[it.Ref] != it {
		return
	}
	it.Due = time.Now().Add(bodyPause)
	q.put(it)
}

// wake lets those that wait in Next look: each may want something else. The lock is
// held.
func (q *Queue) wake() {
	if r := q.reader; r != nil && len(q.wants) > 0 {
		close(r.wake)
		r.wake = make(chan struct{})
		clear(q.wants)
	}
}

// low returns the message of CALLS below which every first attempt has ended, or
// 0 where another process may have one. The lock is held.
func (q *Queue) low() uint64 {
	if q.set.Shared && q.hold == nil {
		return 0
	}
	low := q.came + 1
	for seq := range q.messages {
		low = min(low, seq)
	}
	return low
}

// drop forgets an item that has ended, and acknowledges its message if nothing of it is
// left to do.
func (q *Queue) drop(it *item) {
	ack(q.remove(it))
}

// remove forgets an item, and returns the message to be acknowledged, if any.
func (q *Queue) remove(it *item) jetstream.Msg {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[it.Ref] == it {
		delete(q.items, it.Ref)
	}
	p := it.message
	if p == nil {
		return it.msg
	}
	if p.left--; p.left > 0 {
		return nil
	}
	if q.messages[it.Ref.Seq] == p {
		delete(q.messages, it.Ref.Seq)
	}
	return p.msg
}

// ack tells the server that a message has ended. If that is lost, the message
// comes again and is known.
func ack(m jetstream.Msg) {
	if m != nil {
		_ = m.Ack()
	}
}

// giveBack takes items that match, and that nobody works at, out of the queue, and returns
// the messages that are to be given back. A message comes again with all its items, so it
// goes with all of them or stays. The lock is held.
func (q *Queue) giveBack(match func(*item) bool) (give []jetstream.Msg) {
	may := map[*pendingMessage]int{} // how many items of it may go
	for _, it := range q.items {
		if it.message != nil && !it.leased && match(it) {
			may[it.message]++
		}
	}
	for _, it := range q.ready.Take(func(it *item) bool {
		if it.message == nil {
			return match(it)
		}
		return may[it.message] == it.message.left
	}) {
		delete(q.items, it.Ref)
		switch p := it.message; {
		case p == nil && it.msg == nil: // it was resumed
		case p == nil:
			give = append(give, it.msg)
		case q.messages[it.Ref.Seq] == p:
			delete(q.messages, it.Ref.Seq)
			if p.msg != nil {
				give = append(give, p.msg)
			}
		}
	}
	return give
}

// storedCalls are the calls of an item as they are stored.
type storedCalls struct {
	source string
	at     time.Time
	bodies [][]byte
	traces tracecontext.List
}

// bodies returns the calls of an item: for a first attempt out of its message,
// for a retry out of CALLS.
func (q *Queue) bodies(it *item) (s storedCalls, err error) {
	if p := it.message; p != nil {
		p.decode.Do(func() {
			p.bodies, p.err = record.DecodeCalls(p.payload)
			if p.payload = nil; p.err == nil && len(p.bodies) != p.calls {
				p.err = fmt.Errorf("%w: it has %d calls, and its header says %d", record.ErrBadSegment, len(p.bodies), p.calls)
			}
			p.decoded = record.Traces(p.traces, p.calls)
		})
		if p.err != nil {
			return storedCalls{at: p.at}, p.err
		}
		first := it.Ref.Part * record.PartCalls
		end := first + record.PartSize(p.calls, it.Ref.Part)
		return storedCalls{p.source, p.at, p.bodies[first:end], p.decoded.Between(first, end)}, nil
	}
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.RequestPatience)
	defer cancel()
	m, all, err := q.set.LoadCalls(ctx, it.Ref.Seq)
	if err != nil {
		return s, err
	}
	s = storedCalls{source: m.SourceName(), at: m.At}
	traces, places := record.Traces(m.Traces, m.Calls), it.Places
	if places == nil {
		places = allPlaces(it.Ref, m.Calls)
	}
	for _, place := range places {
		if place >= len(all) {
			return storedCalls{}, fmt.Errorf("%w: it has no call %d", record.ErrBadSegment, place)
		}
		s.traces = s.traces.With(len(s.bodies), traces.At(place))
		s.bodies = append(s.bodies, append([]byte(nil), all[place]...)) // the others may go
	}
	return s, nil
}

// allPlaces returns those of a whole part.
func allPlaces(ref record.Ref, calls int) []int {
	places := make([]int, record.PartSize(calls, ref.Part))
	for i := range places {
		places[i] = ref.Part*record.PartCalls + i
	}
	return places
}
