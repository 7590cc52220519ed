package jetstream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// queueSet are the queues of a journal, by destination, and what they share.
type queueSet struct {
	*store.Store
	settler  settler
	account  *ledger.Ledger
	calls    jetstream.Stream
	outcomes jetstream.Stream
	results  *results

	mu     sync.Mutex // guards what follows
	queues map[string]*queue
	closed bool
}

// A settler does what follows from outcomes that are stored. To do it twice does no harm.
type settler interface {
	// settle schedules the next attempt, and keeps the calls that were given up.
	settle(o *record.Outcome, given []mockserver.Call) error
	// settleFor does so for what is stored of messages of CALLS, by their numbers.
	settleFor(ctx context.Context, destination string, messages map[uint64][]string) error
	// restoreRetry publishes a retry as its outcome says.
	restoreRetry(ctx context.Context, destination string, ref record.Ref, r ledger.Waiting, read *store.Outcomes) error
}

func newQueueSet(s *store.Store, settler settler) *queueSet {
	return &queueSet{Store: s, settler: settler, queues: map[string]*queue{}}
}

// begin says what is known of what is stored. There are no queues before.
func (j *queueSet) begin(account *ledger.Ledger, calls, outcomes jetstream.Stream) {
	j.account, j.calls, j.outcomes, j.results = account, calls, outcomes, newResults(j.Store, account)
	j.Work.Go(j.results.run)
}

// open returns a reader of the queue of a destination as it is attached now.
func (j *queueSet) open(ctx context.Context, destination string) (mockserver.Reader, error) {
	q, err := j.queue(ctx, destination)
	if err != nil {
		return nil, err
	}
	return q.newReader(), nil
}

// queue returns the queue of a destination as it is attached now.
func (j *queueSet) queue(ctx context.Context, destination string) (*queue, error) {
	var attached uint64
	var since int64
	if !j.account.With(destination, func(b *ledger.Account) { attached, since = b.Attached, b.Since }) {
		return nil, fmt.Errorf("%w: it was detached meanwhile", mockserver.ErrNotAttached)
	}
	j.mu.Lock()
	q := j.queues[destination]
	j.mu.Unlock()
	if q != nil && q.attached == attached {
		return q, j.Patiently(ctx, q.ensure)
	}
	if q != nil {
		q.close()
	}
	q, err := newQueue(j, destination, attached, time.UnixMilli(since))
	if err != nil {
		return nil, err
	}
	if err := j.Patiently(ctx, q.ensure); err != nil {
		q.close()
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		q.close()
		return nil, mockserver.ErrJournalClosed
	}
	j.queues[destination] = q
	return q, nil
}

// leave closes the queue of a destination that was attached before a message of CALLS,
// which has detached it, maybe one of another process.
func (j *queueSet) leave(destination string, before uint64) {
	j.mu.Lock()
	q := j.queues[destination]
	if q != nil && q.attached < before {
		delete(j.queues, destination)
	} else {
		q = nil
	}
	j.mu.Unlock()
	if q != nil {
		q.close()
	}
}

// Record stores an outcome, and reports whether it counts: another process may have ended
// the attempt before.
func (j *queueSet) Record(o *record.Outcome) (counted bool, err error) {
	state := <-j.results.write(o)
	return state.counted, state.err
}

// attached returns the destinations that have a queue here, and the message of CALLS that
// attached each.
func (j *queueSet) attached() map[string]uint64 {
	all := map[string]uint64{}
	for _, q := range j.all() {
		all[q.name] = q.attached
	}
	return all
}

// close ends all queues.
func (j *queueSet) close() {
	j.mu.Lock()
	queues := j.queues
	j.queues, j.closed = nil, true
	j.mu.Unlock()
	for _, q := range queues {
		q.close()
	}
}

func (j *queueSet) get(destination string) *queue {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.queues[destination]
}

func (j *queueSet) all() []*queue {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Values(j.queues))
}

// check looks after requests that got lost.
func (j *queueSet) check(now time.Time) {
	for _, q := range j.all() {
		q.fresh.check(now)
		q.retries.check(now)
	}
}

// reset has all queues ask anew: what was asked for on a connection that was lost does
// not come.
func (j *queueSet) reset() {
	for _, q := range j.all() {
		q.fresh.reset()
		q.retries.reset()
		q.pull()
		q.mu.Lock()
		q.wake() // it handed out nothing while the store could not be written to
		q.mu.Unlock()
	}
}

// has reports whether this process has an entry.
func (j *queueSet) has(destination string, ref record.Ref) bool {
	q := j.get(destination)
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items[ref] != nil
}

// leased returns what somebody in this process works at.
func (j *queueSet) leased(destination string) (refs []record.Ref) {
	q := j.get(destination)
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for ref, it := range q.items {
		if it.leased {
			refs = append(refs, ref)
		}
	}
	return refs
}

// oldest returns when the oldest call was accepted that this process works at, if it is
// the only one: then it is the oldest of all.
func (j *queueSet) oldest(destination string) (oldest time.Time) {
	q := j.get(destination)
	if q == nil || j.Shared {
		return oldest
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for seq, p := range q.messages {
		if seq > q.last {
			continue // it has overtaken others
		}
		if oldest.IsZero() || p.at.Before(oldest) {
			oldest = p.at
		}
	}
	return oldest
}

// renew gives the cluster a sign of life for each message at work, and back those
// that nobody here asks for.
func (j *queueSet) renew(now time.Time) {
	for _, q := range j.all() {
		q.mu.Lock()
		var give []string
		if len(q.wants) == 0 {
			give = q.giveBack(func(it *item) bool { return now.Sub(it.since) > ackWait/2 })
		}
		var alive []string
		for _, p := range q.messages {
			if p.reply != "" {
				alive = append(alive, p.reply)
			}
		}
		for _, it := range q.items {
			if it.reply != "" {
				alive = append(alive, it.reply)
			}
		}
		q.mu.Unlock()
		for _, reply := range alive {
			_ = j.NC.Publish(reply, []byte("+WPI"))
		}
		for _, reply := range give {
			_ = j.NC.Publish(reply, []byte("-NAK"))
		}
	}
}

// giveBack takes items that nobody works at out of the queue, with their whole
// messages, and tells where they are to be given back. The lock is held.
func (q *queue) giveBack(match func(*item) bool) (replies []string) {
	whole := map[*pendingMessage]int{} // how many items of it are ready
	for _, it := range q.items {
		if it.message != nil && !it.leased {
			whole[it.message]++
		}
	}
	for _, it := range q.ready.Take(func(it *item) bool {
		return match(it) && (it.message == nil || whole[it.message] == it.message.left)
	}) {
		delete(q.items, it.Ref)
		switch p := it.message; {
		case p == nil:
			replies = append(replies, it.reply)
		case q.messages[it.Ref.Seq] == p:
			delete(q.messages, it.Ref.Seq)
			if p.reply != "" {
				replies = append(replies, p.reply)
			}
		}
	}
	return replies
}

// expire stores that calls are given up that nobody works at, and why.
func (j *queueSet) expire(ctx context.Context, destination string, attached uint64, ref record.Ref, attempt int, reason string) error {
	q := &queue{journal: j, name: destination, attached: attached}
	it := &item{Retry: record.Retry{Ref: ref, Attempt: attempt}}
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
		o, err := new(store.Outcomes).Get(ctx, j.outcomes, it.From, q.name, it.Ref)
		if err != nil {
			return err
		}
		it.Places = o.Again
	}
	source, _, bodies, err := q.bodies(it)
	if store.IsMissing(err) && !j.Shared {
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
		o.Failed = append(o.Failed, record.Failure{Place: it.Places[i], Reason: reason})
		if given[i], err = mockserver.ReadCall(source, body); err != nil {
			return err
		}
	}
	if counted, err := j.Record(o); err != nil || !counted {
		return err
	}
	return j.settler.settle(o, given)
}
