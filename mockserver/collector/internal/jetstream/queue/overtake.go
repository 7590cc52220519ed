package queue

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// CALLS is read in order, and one source may have a backlog of a hundred thousand slow or failing
// messages. During a backlog, the queue therefore regularly reads some messages of other sources
// ahead of their turn. The consumer delivers these messages a second time later. By then they are
// already in the queue, or have ended.

const (
	// overtakeEvery is the interval between checks for other sources, and
	// overtakeEveryShared the interval on a cluster, where a check costs more.
	overtakeEvery       = 250 * time.Millisecond
	overtakeEveryShared = time.Second
	// overtakeMessages and overtakeBytes limit reading ahead for one source, and
	// overtakeSources limits the sources of one check.
	overtakeMessages = 256
	overtakeBytes    = 1 << 20
	overtakeSources  = 16
	// maxEarly limits the retries that a process receives before they are due.
	maxEarly = 512
	// maxPassedOver limits the entries that a process receives while no reader wants them. More
	// entries are requested because the next entry may be of a source that a reader wants.
	maxPassedOver = 16
)

// demand returns the number of messages that each puller should request. The numbers may be
// negative.
func (q *Queue) demand() (fresh, retries int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader == nil {
		return 0, 0
	}
	all, some := 0, 0 // readers that want first attempts
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
	retries = min(retries-q.ready.Due(time.Now()), maxEarly-q.ready.Timed())
	if first, ok := q.ready.First(); q.inOrder && all > 0 && (!ok || first > q.limit()) {
		return all, retries // messages that were read ahead of their turn wait for these
	}
	return max(all-q.ready.Fresh(), some), retries
}

// pull makes the pullers request messages, and starts a check for other sources if one is
// due.
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

// mayOvertake reports whether a check for other sources is due. If so, it records the start of
// the check. The caller holds the lock.
func (q *Queue) mayOvertake(now time.Time) bool {
	every := overtakeEvery
	if q.set.Shared {
		every = overtakeEveryShared
	}
	passedOver := q.ready.Fresh() > 0 && len(q.wants) > 0
	if q.inOrder || q.reader == nil || q.ahead.checking || q.ahead.behind == 0 && !passedOver || now.Sub(q.ahead.checked) < every {
		return false
	}
	q.ahead.checking, q.ahead.checked = true, now
	return true
}

// overtake reads messages of the sources without messages in the queue.
func (q *Queue) overtake() {
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.RequestTimeout)
	defer cancel()
	if err := q.overtakeAll(ctx); err != nil && q.set.Ctx.Err() == nil {
		q.set.Log.Debug("checking for calls of other sources failed; retrying", "destination", q.name, "error", err)
	}
	q.mu.Lock()
	q.ahead.checking = false
	q.mu.Unlock()
	q.pull()
}

func (q *Queue) overtakeAll(ctx context.Context) error {
	if first, err := q.set.isFirst(ctx, q.name); err != nil || !first {
		return err
	}
	after, err := q.delivered(ctx)
	if err != nil {
		return err
	}
	sources, err := q.sources(ctx)
	if err != nil {
		return err
	}
	for _, source := range q.nextSources(sources) {
		if err := q.overtakeSource(ctx, source, after); err != nil {
			return err
		}
	}
	return nil
}

// delivered returns the last message of CALLS that the consumer has delivered to any
// process.
func (q *Queue) delivered(ctx context.Context) (uint64, error) {
	if !q.set.Shared {
		return 0, nil // overtakeSource starts after q.received
	}
	consumer, err := q.set.JS.Consumer(ctx, q.set.Names.Stream(record.StreamCalls), q.set.Names.Consumer(q.name))
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}

// sources returns the sources of the destination in order.
func (q *Queue) sources(ctx context.Context) (sources []string, err error) {
	q.set.ledger.With(q.name, func(a *ledger.Account) { sources = a.Sources() })
	if len(sources) > 0 {
		return sources, nil
	}
	subjects, err := q.set.JS.Subjects(ctx, q.set.Names.Stream(record.StreamCalls), q.set.Names.Subject(record.KindCalls, "*"))
	if err != nil {
		return nil, err
	}
	for subject := range subjects {
		_, tok := q.set.Names.Split(subject)
		source, err := record.Untoken(tok)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	slices.Sort(sources)
	return sources, nil
}

// nextSources returns the next sources to check: up to overtakeSources sources without
// messages in the queue.
func (q *Queue) nextSources(sources []string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	here := map[string]bool{}
	for _, p := range q.messages {
		here[p.source] = true
	}
	sources = slices.DeleteFunc(slices.Clone(sources), func(s string) bool { return here[s] })
	at, found := slices.BinarySearch(sources, q.ahead.source)
	if found {
		at++
	}
	sources = slices.Concat(sources[at:], sources[:at])
	sources = sources[:min(len(sources), overtakeSources)]
	if len(sources) > 0 {
		q.ahead.source = sources[len(sources)-1]
	}
	return sources
}

// overtakeSource adds the next messages of a source that come after a message.
func (q *Queue) overtakeSource(ctx context.Context, source string, after uint64) error {
	subject := q.set.Names.Subject(record.KindCalls, record.Token(source))
	for messages, bytes := 0, 0; messages < overtakeMessages && bytes < overtakeBytes; messages++ {
		q.mu.Lock()
		after = max(after, q.received, q.ahead.passed[source])
		q.mu.Unlock()
		raw, err := q.set.JS.Next(ctx, q.set.Names.Stream(record.StreamCalls), subject, after+1)
		if store.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := q.addOvertaking(raw, source); err != nil {
			return err
		}
		bytes += len(raw.Data)
	}
	return nil
}

// addOvertaking adds a message that was read ahead of its turn.
func (q *Queue) addOvertaking(raw *jetstream.RawStreamMsg, source string) error {
	m, err := q.set.Names.ParseCalls(raw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	defer context.AfterFunc(q.set.Link.Load().Lost, cancel)()
	if err := q.awaitLedger(ctx, m.Seq); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ahead.passed == nil {
		q.ahead.passed = map[string]uint64{}
	}
	if q.ahead.passed[source] = raw.Sequence; q.ctx.Err() == nil {
		q.addMessage(m, raw.Data, nil)
	}
	return nil
}

// isFirst reports whether this process has the lowest number among the processes that share a
// destination. Only that process reads ahead. Otherwise calls would be delivered twice.
func (set *Set) isFirst(ctx context.Context, destination string) (bool, error) {
	if !set.Shared {
		return true, nil
	}
	first := set.Writer
	err := set.EachPresence(ctx, func(writer uint64, listed []string) {
		if slices.Contains(listed, destination) {
			first = min(first, writer)
		}
	})
	return first == set.Writer, err
}
