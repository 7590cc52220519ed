package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// CALLS is read in its order, and one source may have a hundred thousand messages in it
// that take long, or fail. So while there is more behind what has come, it is looked now
// and then whether other sources wait: some of their messages overtake. They come
// again when all before them has come, and are known then.

const (
	// overtakeEvery is how often it is looked for sources that wait, and
	// overtakeEveryShared how often on a cluster, where it costs more.
	overtakeEvery       = 250 * time.Millisecond
	overtakeEveryShared = time.Second
	// overtakeMessages and overtakeBytes bound what overtakes of one source, and
	// overtakeSources for how many it is looked at a time.
	overtakeMessages = 256
	overtakeBytes    = 1 << 20
	overtakeSources  = 16
	// maxEarly is how many retries a process takes before they are due.
	maxEarly = 512
	// maxPassedOver is how many entries a process takes in that nobody wants now: the
	// next may be of a source that is wanted.
	maxPassedOver = 16
)

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
	retries = min(retries-q.ready.Due(time.Now()), maxEarly-q.ready.Timed())
	if first, ok := q.ready.First(); q.inOrder && all > 0 && (!ok || first > q.limit()) {
		return all, retries // what has overtaken others waits for them
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

// mayOvertake reports whether it is to be looked now for sources that wait, and notes
// that it is. The lock is held.
func (q *Queue) mayOvertake(now time.Time) bool {
	every := overtakeEvery
	if q.set.Shared {
		every = overtakeEveryShared
	}
	passedOver := q.ready.Fresh() > 0 && len(q.wants) > 0
	if q.inOrder || q.ctx.Err() != nil || q.reader == nil || q.ahead.looking || q.ahead.behind == 0 && !passedOver || now.Sub(q.ahead.looked) < every {
		return false
	}
	q.ahead.looking, q.ahead.looked = true, now
	return true
}

// overtake takes messages of the sources that have none here.
func (q *Queue) overtake() {
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.RequestPatience)
	defer cancel()
	if err := q.overtakeAll(ctx); err != nil && q.set.Ctx.Err() == nil {
		q.set.Log.Debug("whether other sources wait is not known; it is looked again", "destination", q.name, "error", err)
	}
	q.mu.Lock()
	q.ahead.looking = false
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
	sources, err := q.sourcesBehind(ctx)
	if err != nil {
		return err
	}
	for _, source := range q.absent(sources) {
		if err := q.overtakeOne(ctx, source, after); err != nil {
			return err
		}
	}
	return nil
}

// delivered returns the last message of CALLS that the consumer has handed out.
func (q *Queue) delivered(ctx context.Context) (uint64, error) {
	if !q.set.Shared {
		return 0, nil // to this process, which knows it
	}
	consumer, err := q.set.JS.Consumer(ctx, q.set.Names.Stream(record.StreamCalls), q.set.Names.Consumer(q.name))
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}

// sourcesBehind returns the sources of the destination, in their order.
func (q *Queue) sourcesBehind(ctx context.Context) (sources []string, err error) {
	q.set.account.With(q.name, func(b *ledger.Account) { sources = b.Sources() })
	if len(sources) > 0 {
		return sources, nil
	}
	subjects, err := q.set.JS.Subjects(ctx, q.set.Names.Stream(record.StreamCalls), q.set.Names.Subject(record.KindCalls, "*"))
	if err != nil {
		return nil, err
	}
	for subject := range subjects {
		_, tok := q.set.Names.Kind(subject)
		source, err := record.Untoken(tok)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	slices.Sort(sources)
	return sources, nil
}

// absent returns those of the sources for which it is to be looked now: some of those
// that this process has nothing of.
func (q *Queue) absent(sources []string) []string {
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

// overtakeOne takes the next messages of a source that come after one.
func (q *Queue) overtakeOne(ctx context.Context, source string, after uint64) error {
	subject := q.set.Names.Subject(record.KindCalls, record.Token(source))
	for messages, bytes := 0, 0; messages < overtakeMessages && bytes < overtakeBytes; messages++ {
		q.mu.Lock()
		after = max(after, q.last, q.ahead.passed[source])
		q.mu.Unlock()
		raw, err := q.set.JS.Next(ctx, q.set.Names.Stream(record.StreamCalls), subject, after+1)
		if store.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := q.overtook(raw, source); err != nil {
			return err
		}
		bytes += len(raw.Data)
	}
	return nil
}

// overtook takes a message that has overtaken others.
func (q *Queue) overtook(raw *jetstream.RawStreamMsg, source string) error {
	m, err := q.set.Names.ParseCalls(raw.Sequence, raw.Subject, raw.Header)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	defer context.AfterFunc(q.set.Link.Load().Lost, cancel)()
	if err := q.accounted(ctx, m.Seq); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ahead.passed == nil {
		q.ahead.passed = map[string]uint64{}
	}
	if q.ahead.passed[source] = raw.Sequence; q.ctx.Err() == nil {
		q.take(m, raw.Data, nil)
	}
	return nil
}

// isFirst reports whether this process is the first of those that have a destination:
// what several let overtake would be delivered by each of them.
func (set *Set) isFirst(ctx context.Context, destination string) (bool, error) {
	if !set.Shared {
		return true, nil
	}
	first := set.Writer
	t := set.Tail(record.StreamState, 1, func(m jetstream.Msg, _ uint64) error {
		var writer uint64
		var claimed []string
		if _, err := fmt.Sscanf(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:], "%x", &writer); err != nil {
			return err
		}
		if err := json.Unmarshal(m.Data(), &claimed); err != nil {
			return err
		}
		if slices.Contains(claimed, destination) {
			first = min(first, writer)
		}
		return nil
	})
	t.Subjects = []string{set.Names.Subject("s", "has", "*")}
	err := t.Scan(ctx)
	return first == set.Writer, err
}
