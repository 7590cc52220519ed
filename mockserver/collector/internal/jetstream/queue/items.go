package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// bodyPause is the delay before an entry is leased again after its calls could not be read
// or its outcome could not be stored.
const bodyPause = time.Second

// awaitLedger waits until the ledger has read a message of CALLS. It returns an error if ctx
// is done first. ctx ends with the connection that delivered the message, because a restarted
// server may have a different message with that number.
func (q *Queue) awaitLedger(ctx context.Context, seq uint64) error {
	if err := q.set.ledger.Reached(ctx, seq, 0); err != nil {
		return err
	}
	return ctx.Err()
}

// unattemptedParts returns the parts of a message of CALLS whose first attempt has not ended. The
// caller holds the lock until the parts are in items. Otherwise a part that ends in between
// would be leased again.
func (q *Queue) unattemptedParts(m *record.Calls) (parts []record.Ref) {
	q.set.ledger.With(q.name, func(a *ledger.Account) {
		if a.Attached == q.attached {
			parts = slices.Collect(a.UnattemptedParts(m))
		}
	})
	return parts
}

// addMessage adds the unattempted parts of a message. It reports whether the message is now in the
// queue, possibly from an earlier delivery. The caller holds the lock.
func (q *Queue) addMessage(m *record.Calls, payload []byte, msg *nats.Msg) bool {
	if p := q.messages[m.Seq]; p != nil {
		if msg != nil {
			p.msg = msg
		}
		return true
	}
	parts := q.unattemptedParts(m)
	if len(parts) == 0 {
		return false
	}
	p := &pendingMessage{msg: msg, calls: m.Calls, at: m.At, source: m.Name, left: len(parts), payload: payload, traces: m.Traces}
	q.messages[m.Seq] = p
	for _, ref := range parts {
		q.add(&item{Retry: record.Retry{Ref: ref, Attempt: 1}, message: p, since: time.Now()})
	}
	return true
}

// add adds an item. If the previous attempt is leased, the item waits for the end of the lease. The
// caller holds the lock.
func (q *Queue) add(it *item) {
	if have := q.items[it.Ref]; have != nil && have.leased {
		have.next = it
		return
	}
	q.items[it.Ref] = it
	q.makeReady(it)
}

// find returns the item of an attempt, or nil. The caller holds the lock.
func (q *Queue) find(ref record.Ref, attempt int) *item {
	it := q.items[ref]
	for it != nil && it.Attempt != attempt {
		it = it.next
	}
	return it
}

// makeReady makes an item available to readers. The caller holds the lock.
func (q *Queue) makeReady(it *item) {
	it.leased = false
	q.ready.Push(it)
	q.wake()
}

// postpone makes an item ready after bodyPause.
func (q *Queue) postpone(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[it.Ref] != it {
		return
	}
	it.Due = time.Now().Add(bodyPause)
	q.makeReady(it)
}

// putBack makes an item ready whose calls could not be read. With ordered delivery, a first attempt
// keeps its place, so that later calls of its users do not overtake it. putBack then returns true,
// and the caller must wait for bodyPause. Otherwise, the item is ready after bodyPause.
func (q *Queue) putBack(it *item) (inPlace bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[it.Ref] != it {
		return false
	}
	if inPlace = q.inOrder && it.Due.IsZero(); !inPlace {
		it.Due = time.Now().Add(bodyPause)
	}
	q.makeReady(it)
	return inPlace
}

// wake wakes all goroutines that wait in Next, because each may want different entries. The
// caller holds the lock.
func (q *Queue) wake() {
	if r := q.reader; r != nil && len(q.wants) > 0 {
		close(r.wake)
		r.wake = make(chan struct{})
		clear(q.wants)
	}
}

// lowWater returns a sequence number of CALLS: the first attempts of all messages below it have
// ended. It returns 0 if other processes may have earlier messages. The caller holds the lock.
func (q *Queue) lowWater() uint64 {
	if q.set.Shared && q.ownership == nil {
		return 0
	}
	low := q.newest + 1
	for seq := range q.messages {
		low = min(low, seq)
	}
	return low
}

// drop removes an ended item, and acknowledges its message if all of its items have ended.
func (q *Queue) drop(it *item) {
	ack(q.remove(it))
}

// remove removes an item, and returns the message to acknowledge, or nil.
func (q *Queue) remove(it *item) *nats.Msg {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeItem(it)
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

// removeItem removes an ended item from items, and adds the next attempt if it has been received. The
// caller holds the lock.
func (q *Queue) removeItem(it *item) {
	if q.items[it.Ref] != it {
		return
	}
	if delete(q.items, it.Ref); it.next != nil {
		q.add(it.next)
	}
}

// ack acknowledges a message. If the acknowledgement is lost, the server redelivers the
// message, and ackEnded acknowledges it.
func ack(m *nats.Msg) {
	if m != nil {
		_ = m.Ack()
	}
}

// removeIdle removes matching items that are not leased. It returns their messages, which the
// caller must return to the server. The server redelivers a message with all its items, so
// removeIdle removes either all items of a message or none. The caller holds the lock.
func (q *Queue) removeIdle(match func(*item) bool) (naks []*nats.Msg) {
	may := map[*pendingMessage]int{} // number of removable items
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
		if it.next != nil && it.next.msg != nil {
			naks = append(naks, it.next.msg)
		}
		switch p := it.message; {
		case p == nil && it.msg == nil: // a resumed item has no message
		case p == nil:
			naks = append(naks, it.msg)
		case q.messages[it.Ref.Seq] == p:
			delete(q.messages, it.Ref.Seq)
			if p.msg != nil {
				naks = append(naks, p.msg)
			}
		}
	}
	return naks
}

// storedCalls contains the calls of an item in their stored form.
type storedCalls struct {
	source string
	at     time.Time
	bodies [][]byte
	traces event.Traces
}

// bodies returns the calls of an item. It reads the calls of a first attempt from the item's
// message, and the calls of a retry from CALLS.
func (q *Queue) bodies(it *item) (s storedCalls, err error) {
	if p := it.message; p != nil {
		p.decode.Do(func() {
			p.bodies, p.err = record.DecodeCalls(p.payload)
			if p.payload = nil; p.err == nil && len(p.bodies) != p.calls {
				p.err = fmt.Errorf("%w: it contains %d calls, but its header says %d", record.ErrBadSegment, len(p.bodies), p.calls)
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
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.RequestTimeout)
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
		s.bodies = append(s.bodies, append([]byte(nil), all[place]...)) // a copy, to release the rest of the message
	}
	return s, nil
}

// allPlaces returns the places of all calls of a part.
func allPlaces(ref record.Ref, calls int) []int {
	places := make([]int, record.PartSize(calls, ref.Part))
	for i := range places {
		places[i] = ref.Part*record.PartCalls + i
	}
	return places
}
