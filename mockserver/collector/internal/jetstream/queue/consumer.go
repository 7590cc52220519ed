package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

const (
	// AckWait is how long a cluster waits for an acknowledgement or a renewal before it
	// redelivers a message. An embedded server delivers to one process only.
	AckWait         = 10 * time.Second
	ackWaitEmbedded = 24 * time.Hour
	// maxUnended limits the unacknowledged messages of a destination in all processes.
	maxUnended = 4096
	// consumerIdle is the time after which the server removes an unused consumer of an owner.
	consumerIdle = time.Minute
)

// ensure creates missing consumers, and adds the destination's sources to the filter of the
// CALLS consumer. On an embedded server consumers are in memory; the ledger contains the
// position to start from.
func (q *Queue) ensure(ctx context.Context) error {
	var sources []string
	if !q.set.ledger.With(q.name, func(a *ledger.Account) { sources = a.Sources() }) {
		return journal.ErrNotAttached
	}
	if err := q.ensureCalls(ctx, sources, covers); err != nil {
		return err
	}
	retry := q.consumer()
	retry.FilterSubjects, retry.DeliverPolicy = []string{q.set.Names.Subject("due", record.Token(q.name), "*")}, jetstream.DeliverAllPolicy
	return q.ensureConsumer(ctx, record.StreamRetry, retry, covers)
}

// ensureCalls creates the CALLS consumer. If the consumer exists and suffice reports that its
// filter is not sufficient, ensureCalls sets the filter to sources.
func (q *Queue) ensureCalls(ctx context.Context, sources []string, suffice func(have, want []string) bool) error {
	c := q.consumer()
	if c.Durable = q.consumerName(record.StreamCalls); q.currentOwnership() != nil {
		// Read all sources. A filter would skip earlier messages of a source that is added later.
		sources, c.InactiveThreshold = nil, consumerIdle
	}
	c.FilterSubjects, c.DeliverPolicy = q.set.Names.CallSubjects(sources), jetstream.DeliverByStartSequencePolicy
	q.set.ledger.With(q.name, func(a *ledger.Account) { c.OptStartSeq = a.Floor + 1 })
	return q.ensureConsumer(ctx, record.StreamCalls, c, suffice)
}

// ConnectSources adds sources to the filter of an attached destination's CALLS consumer.
// Call it before calls of a new source are accepted: a consumer does not go back to messages
// that its filter has skipped.
func (set *Set) ConnectSources(ctx context.Context, destination string, sources []string) error {
	if !set.ledger.With(destination, func(a *ledger.Account) {
		if have := a.Sources(); len(have) == 0 || len(sources) == 0 {
			sources = nil
		} else {
			sources = slices.Compact(slices.Sorted(slices.Values(slices.Concat(have, sources))))
		}
	}) {
		return nil
	}
	q := &Queue{set: set, attachment: attachment{name: destination}}
	return set.Retry(ctx, func(ctx context.Context) error { return q.ensureCalls(ctx, sources, slices.Equal) })
}

// consumerName returns the name of this process's consumer. An owner has a CALLS consumer of its
// own, so it does not miss messages that a previous owner has requested.
func (q *Queue) consumerName(kind string) string {
	name := q.set.Names.Consumer(q.name)
	if o := q.currentOwnership(); o != nil && kind == record.StreamCalls {
		name += "-" + o.name
	}
	return name
}

// currentOwnership returns the ownership of this process, or nil.
func (q *Queue) currentOwnership() *ownership {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ownership
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

// ensureConsumer creates a consumer. If the consumer exists and suffice reports that its filter
// is not sufficient, ensureConsumer changes the filter.
func (q *Queue) ensureConsumer(ctx context.Context, kind string, c jetstream.ConsumerConfig, suffice func(have, want []string) bool) error {
	set := q.set
	stream := set.Names.Stream(kind)
	var err error
	for range 3 { // another process may create or change the consumer at the same time
		var have store.Consumer
		have, err = set.JS.Consumer(ctx, stream, c.Durable)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			_, err = set.JS.CreateConsumer(ctx, stream, c)
		case err == nil && !suffice(filters(have.CachedInfo().Config), c.FilterSubjects):
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

// covers reports whether the filters have include all wanted filters. They may include more,
// because another process may have added sources.
func covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.ContainsFunc(have, func(h string) bool { return server.SubjectMatchesFilter(w, h) })
	})
}
