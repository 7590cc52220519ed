package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/turns"
)

const (
	// AckWait is how long a server waits for a sign of life before it hands a
	// message to another process. Within one process nobody else is there.
	AckWait         = 10 * time.Second
	ackWaitEmbedded = 24 * time.Hour
	// Renewal is how often such a sign is given.
	Renewal = AckWait / 3
	// maxUnended is how many messages of a destination may be at work, in all
	// processes.
	maxUnended = 4096
	// bodyPause is how long an entry waits after its calls could not be read, or
	// its end could not be stored.
	bodyPause = time.Second
	// maxEarly is how many retries a process takes before they are due.
	maxEarly = 512
	// maxPassedOver is how many entries a process takes in that nobody wants now: the
	// next may be of a source that is wanted.
	maxPassedOver = 16
)

// A Queue is what this process has before it for one destination. It asks the
// servers for as many messages as there are goroutines that wait for one.
type Queue struct {
	set      *Set
	name     string
	attached uint64    // the message of CALLS that attached it
	since    time.Time // when that was
	ctx      context.Context
	cancel   context.CancelFunc // ends ctx: the queue is closed
	fresh    *puller            // of CALLS
	retries  *puller            // of RETRY

	mu       sync.Mutex                 // guards what follows
	reader   *reader                    // the one that is open, or nil
	wants    map[*journal.Want]struct{} // of the goroutines that wait in Next
	items    map[record.Ref]*item       // all that this process has to do
	ready    *turns.Queue[*item]        // those that nobody works at; put off and retries have a time
	messages map[uint64]*pendingMessage // messages of CALLS whose first attempt has not ended
	last     uint64                     // the newest message of CALLS that came
	behind   uint64                     // how many were behind it then
	ahead    overtaking
	// Messages of CALLS that came again after all in them had ended, and where each is
	// acknowledged.
	repeated map[uint64][]jetstream.Msg
	settling bool // settleRepeated runs
}

// A pendingMessage is a message of CALLS that came for its first attempt.
type pendingMessage struct {
	msg    jetstream.Msg // which is acknowledged; nil where it has overtaken others
	calls  int
	at     time.Time
	source string
	left   int // parts that have not ended

	decode  sync.Once // guards what follows
	payload []byte
	bodies  [][]byte
	err     error
}

// An item is an entry to be worked at.
type item struct {
	record.Retry                 // of a first attempt it has but ref and attempt, and due where it was put off
	message      *pendingMessage // for a first attempt
	msg          jetstream.Msg   // for a retry: which is acknowledged
	since        time.Time       // when it came, for its renewal
	leased       bool
	misses       int // how often its calls were not found
}

// source returns the source of an item that is a first attempt.
func (it *item) source() string {
	if it.message == nil {
		return ""
	}
	return it.message.source
}

func newQueue(set *Set, name string, attached uint64, since time.Time) *Queue {
	q := &Queue{
		set: set, name: name, attached: attached, since: since, wants: map[*journal.Want]struct{}{},
		ready: turns.New((*item).source, func(it *item) time.Time { return it.Due }),
		items: map[record.Ref]*item{}, messages: map[uint64]*pendingMessage{}, repeated: map[uint64][]jetstream.Msg{},
	}
	q.ctx, q.cancel = context.WithCancel(set.Ctx)
	q.fresh = newPuller(q, record.StreamCalls, func() int { fresh, _ := q.demand(); return fresh }, q.gotCalls)
	q.retries = newPuller(q, record.StreamRetry, func() int { _, retries := q.demand(); return retries }, q.gotRetry)
	return q
}

// start has what is wanted come.
func (q *Queue) start() {
	q.set.Work.Go(q.fresh.run)
	q.set.Work.Go(q.retries.run)
}

// ensure makes the consumers that are missing, and has that of CALLS let through
// the sources of the destination. On an embedded server they live in memory: where
// they begin is known from the account.
func (q *Queue) ensure(ctx context.Context) error {
	var sources []string
	if !q.set.account.With(q.name, func(b *ledger.Account) { sources = b.Sources() }) {
		return journal.ErrNotAttached
	}
	if err := q.ensureCalls(ctx, sources, covers); err != nil {
		return err
	}
	retry := q.consumer()
	retry.FilterSubjects, retry.DeliverPolicy = []string{q.set.Names.Subject("due", record.Token(q.name), "*")}, jetstream.DeliverAllPolicy
	return q.ensureConsumer(ctx, record.StreamRetry, retry, covers)
}

// ensureCalls makes the consumer of CALLS, or brings it to sources if its filters
// will not do.
func (q *Queue) ensureCalls(ctx context.Context, sources []string, do func(have, want []string) bool) error {
	c := q.consumer()
	c.FilterSubjects, c.DeliverPolicy = q.set.Names.CallSubjects(sources), jetstream.DeliverByStartSequencePolicy
	q.set.account.With(q.name, func(b *ledger.Account) { c.OptStartSeq = b.Floor + 1 })
	return q.ensureConsumer(ctx, record.StreamCalls, c, do)
}

// ConnectSources brings the consumer of a destination that is attached already to the
// sources that it is about to have, beside those that it has. It must do so before
// calls of a new source count as accepted: a consumer does not go back for what its
// filters passed over.
func (set *Set) ConnectSources(ctx context.Context, destination string, sources []string) error {
	if !set.account.With(destination, func(b *ledger.Account) {
		if have := b.Sources(); len(have) == 0 || len(sources) == 0 {
			sources = nil
		} else {
			sources = slices.Compact(slices.Sorted(slices.Values(slices.Concat(have, sources))))
		}
	}) {
		return nil
	}
	q := &Queue{set: set, name: destination}
	return set.Patiently(ctx, func(ctx context.Context) error { return q.ensureCalls(ctx, sources, slices.Equal) })
}

func (q *Queue) consumer() jetstream.ConsumerConfig {
	set := q.set
	c := jetstream.ConsumerConfig{
		Durable: set.Names.Consumer(q.name), Description: "destination " + q.name,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait, MaxDeliver: -1, MaxAckPending: maxUnended, MaxWaiting: 512,
	}
	if !set.Shared {
		c.AckWait, c.MemoryStorage, c.Replicas = ackWaitEmbedded, true, 1
	}
	return c
}

// ensureConsumer makes a consumer, or changes its filters if they will not do.
func (q *Queue) ensureConsumer(ctx context.Context, kind string, c jetstream.ConsumerConfig, do func(have, want []string) bool) error {
	set := q.set
	stream := set.Names.Stream(kind)
	var err error
	for range 3 { // another process may make or change it at the same time
		var have store.Consumer
		have, err = set.JS.Consumer(ctx, stream, c.Durable)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			_, err = set.JS.CreateConsumer(ctx, stream, c)
		case err == nil && !do(filters(have.CachedInfo().Config), c.FilterSubjects):
			changed := have.CachedInfo().Config
			changed.FilterSubject, changed.FilterSubjects = "", c.FilterSubjects
			_, err = set.JS.UpdateConsumer(ctx, stream, changed)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) && !errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			break
		}
	}
	return fmt.Errorf("the consumer on %s: %w", stream, err)
}

func filters(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

// covers reports whether filters let all through that is wanted. They may let more
// through: another process may know of more.
func covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.ContainsFunc(have, func(h string) bool { return record.Matches(h, w) })
	})
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

// gotCalls takes a message of CALLS. ctx ends when the connection is lost on which it came.
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
	q.last, q.behind = max(q.last, seq), meta.NumPending
	here := q.take(parsed, m.Data(), m)
	q.mu.Unlock()
	if !here {
		q.known(m, meta, seq)
	}
}

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
	p := &pendingMessage{msg: msg, calls: m.Calls, at: m.At, source: m.Name, left: len(open), payload: payload}
	q.messages[m.Seq] = p
	for _, ref := range open {
		q.add(&item{Retry: record.Retry{Ref: ref, Attempt: 1}, message: p, since: time.Now()})
	}
	return true
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
	q.repeated[seq] = append(q.repeated[seq], m)
	first := !q.settling
	q.settling = true
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
		messages := q.repeated
		q.repeated = map[uint64][]jetstream.Msg{}
		q.settling = len(messages) > 0
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

// wake lets those that wait in Next look: each may want something else. The lock is
// held.
func (q *Queue) wake() {
	if r := q.reader; r != nil && len(q.wants) > 0 {
		close(r.wake)
		r.wake = make(chan struct{})
		clear(q.wants)
	}
}

// demand returns how many messages each puller should ask for.
func (q *Queue) demand() (fresh, retries int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader == nil {
		return 0, 0
	}
	all, some := 0, 0 // that want first attempts
	for want := range q.wants {
		if len(want.Except) == 0 {
			all++
		} else if q.ready.Fresh() < maxPassedOver {
			some = 1
		}
		if !want.NoRetries {
			retries++
		}
	}
	if retries > 0 {
		retries = min(retries-q.ready.Due(time.Now()), maxEarly-q.ready.Timed())
	}
	return max(all-q.ready.Fresh(), some), retries
}

// pull has the pullers ask for what is wanted.
func (q *Queue) pull() {
	q.mu.Lock()
	overtake := q.mayOvertake(time.Now())
	q.mu.Unlock()
	if overtake {
		q.set.Work.Go(q.overtake)
	}
	store.Poke(q.fresh.wake)
	store.Poke(q.retries.wake)
}

// low returns the message of CALLS below which every first attempt has ended, or
// 0 where another process may have one. The lock is held.
func (q *Queue) low() uint64 {
	if q.set.Shared {
		return 0
	}
	low := q.last + 1
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
	delete(q.messages, it.Ref.Seq)
	return p.msg
}

// ack tells the server that a message has ended. If that is lost, the message
// comes again and is known.
func ack(m jetstream.Msg) {
	if m != nil {
		_ = m.Ack()
	}
}
