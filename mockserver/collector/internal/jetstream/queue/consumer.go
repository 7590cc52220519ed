package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

const (
	// AckWait is how long a server waits for a sign of life before it hands a
	// message to another process. Within one process nobody else is there.
	AckWait         = 10 * time.Second
	ackWaitEmbedded = 24 * time.Hour
	// maxUnended is how many messages of a destination may be at work, in all
	// processes.
	maxUnended = 4096
	// holdIdle is how long the consumer of a hold is kept that nobody asks.
	holdIdle = time.Minute
)

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
	if c.Durable = q.consumerName(record.StreamCalls); q.held() != nil {
		// It does not go back for what comes of a source that the destination gets from then on.
		sources, c.InactiveThreshold = nil, holdIdle
	}
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
	q := &Queue{set: set, attachment: attachment{name: destination}}
	return set.Patiently(ctx, func(ctx context.Context) error { return q.ensureCalls(ctx, sources, slices.Equal) })
}

// consumerName names the consumer that this process asks. A hold has one of its own for
// first attempts: what a process that holds the destination no longer asks for does not
// lack here.
func (q *Queue) consumerName(kind string) string {
	name := q.set.Names.Consumer(q.name)
	if h := q.held(); h != nil && kind == record.StreamCalls {
		name += "-" + h.name
	}
	return name
}

// held returns the hold of this process, or nil.
func (q *Queue) held() *hold {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hold
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
