package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Buckets of keys and values beside the calls.
const (
	bucketSettings = "settings"
	bucketState    = "state"
)

func (n names) bucket(kind string) string { return n.prefix + "-" + kind }

// bucketStream is the stream of a bucket, as KeyValue of package jetstream would
// make it.
func (j *Journal) bucketStream(kind, description string) jetstream.StreamConfig {
	bucket := j.names.bucket(kind)
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Description: description, Subjects: []string{"$KV." + bucket + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	}
}

// Settings returns a store for the settings that are made at run time, shared by
// all who share the journal. It is usable until the journal is closed.
func (j *Journal) Settings(ctx context.Context) (state.Store, error) {
	return j.bucket(ctx, bucketSettings)
}

// State returns a store for deletion requests, audiences and computed traits, as
// Settings does.
func (j *Journal) State(ctx context.Context) (state.Store, error) {
	return j.bucket(ctx, bucketState)
}

func (j *Journal) bucket(ctx context.Context, kind string) (state.Store, error) {
	kv, err := j.js.KeyValue(ctx, j.names.bucket(kind))
	if err != nil {
		return nil, fmt.Errorf("journal: the bucket of %s: %w", kind, err)
	}
	return &bucket{j, kv}, nil
}

// A bucket implements mockserver.StateStore.
type bucket struct {
	journal *Journal
	kv      jetstream.KeyValue
}

func (b *bucket) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, fmt.Errorf("%w: %s", state.ErrNotFound, key)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("journal: %w", err)
	}
	return entry.Value(), entry.Revision(), nil
}

func (b *bucket) Put(ctx context.Context, key string, value []byte) error {
	m := nats.NewMsg("$KV." + b.kv.Bucket() + "." + key)
	m.Data = value
	_, err := b.journal.publish(ctx, b.journal.nc, m)
	return err
}

func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := update(ctx, b.kv, key, value, revision)
	if isConflict(err) {
		return 0, fmt.Errorf("%w: %s", state.ErrConflict, key)
	}
	return next, err
}

// Delete purges the stream rather than the keys, which would leave a mark of each.
func (b *bucket) Delete(ctx context.Context, key string) error {
	stream, err := b.journal.js.Stream(ctx, "KV_"+b.kv.Bucket())
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	counted, err := b.journal.uncounted(ctx)
	if err != nil {
		return err
	}
	defer counted()
	for _, subject := range []string{key, key + ".>"} {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+b.kv.Bucket()+"."+subject)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

func (b *bucket) Keys(ctx context.Context, prefix string) ([]string, error) {
	lister, err := b.kv.ListKeysFiltered(ctx, prefix+".>")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var keys []string
	for key := range lister.Keys() {
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}

func (b *bucket) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	watcher, err := b.watch(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	changes := make(chan struct{}, 1)
	go func() {
		defer close(changes)
		for tell(ctx, watcher, changes) {
			// The server could not make it again after some trouble. What changed
			// meanwhile is not told of.
			for watcher, err = b.watch(ctx, key); err != nil; watcher, err = b.watch(ctx, key) {
				if sleep(ctx, clusterPause) != nil {
					return
				}
			}
			poke(changes)
		}
	}()
	return changes, nil
}

func (b *bucket) watch(ctx context.Context, key string) (jetstream.KeyWatcher, error) {
	return b.kv.Watch(ctx, key, jetstream.UpdatesOnly(), jetstream.MetaOnly())
}

// tell passes on that there are changes until ctx ends. It returns true if the
// watcher has ended before.
func tell(ctx context.Context, watcher jetstream.KeyWatcher, changes chan<- struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			_ = watcher.Stop()
			return false
		case _, more := <-watcher.Updates():
			if !more {
				return ctx.Err() == nil
			}
			poke(changes)
		}
	}
}

func poke(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default: // it has one to read
	}
}

// update replaces a value if its revision is still that one; none at all for 0.
func update(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, revision uint64) (uint64, error) {
	var next uint64
	var err error
	if revision == 0 {
		next, err = kv.Create(ctx, key, value)
	} else {
		next, err = kv.Update(ctx, key, value, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	return next, nil
}

// isConflict tells whether a value had another revision.
func isConflict(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// Health implements mockserver.HealthChecker.
func (j *Journal) Health(ctx context.Context) (journal.Health, error) {
	return journal.Health{Bytes: j.usage.bytes(), LimitBytes: j.options.MaxBytes, Servers: j.servers.all(), Scrub: j.scrubber.health()}, j.Ready(ctx)
}
