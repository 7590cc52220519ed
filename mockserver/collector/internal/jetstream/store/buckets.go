package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// BucketStream returns the configuration of a bucket's stream. It is the same configuration that
// the KeyValue API of NATS creates.
func BucketStream(names record.Names, kind, description string) jetstream.StreamConfig {
	bucket := names.Bucket(kind)
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Description: description, Subjects: []string{"$KV." + bucket + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	}
}

// Buckets gives access to the buckets of a journal.
type Buckets struct {
	*Store
	note      func(record.Accepted)                             // notes a stored value in datadir.Recent
	uncounted func(context.Context) (counted func(), err error) // called before values are deleted; counted is called afterwards
}

// NewBuckets returns the buckets of an open store.
func NewBuckets(s *Store, note func(record.Accepted), uncounted func(context.Context) (func(), error)) *Buckets {
	return &Buckets{s, note, uncounted}
}

// Settings returns a store for the settings made at run time. All processes that use the journal
// share the store. It can be used until the journal is closed.
func (b *Buckets) Settings(ctx context.Context) (state.Store, error) {
	return b.bucket(ctx, record.BucketSettings)
}

// State returns a store for deletion requests, audiences and computed traits. All processes that
// use the journal share the store. It can be used until the journal is closed.
func (b *Buckets) State(ctx context.Context) (state.Store, error) {
	return b.bucket(ctx, record.BucketState)
}

func (b *Buckets) bucket(ctx context.Context, kind string) (state.Store, error) {
	kv, err := b.JS.KeyValue(ctx, b.Names.Bucket(kind))
	if err != nil {
		return nil, fmt.Errorf("journal: the bucket of %s: %w", kind, err)
	}
	return &bucket{b, kv}, nil
}

// A bucket implements state.Store.
type bucket struct {
	*Buckets
	kv jetstream.KeyValue
}

// Watch implements state.Store.
func (b *bucket) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(b.Ctx, cancel)
	watcher, err := b.watch(ctx, key)
	if err != nil {
		unlink()
		cancel()
		return nil, fmt.Errorf("journal: %w", err)
	}
	changes := make(chan struct{}, 1)
	watching := b.Work.Go(func() {
		defer cancel()
		defer unlink()
		defer close(changes)
		for forward(ctx, watcher, changes) {
			// The client failed to recreate the watcher's consumer. Changes may have been
			// missed, so report one.
			for watcher, err = b.watch(ctx, key); err != nil; watcher, err = b.watch(ctx, key) {
				if pause.For(ctx, ClusterPause) != nil {
					return
				}
			}
			Poke(changes)
		}
	})
	if !watching {
		cancel()
		return nil, journal.ErrClosed
	}
	return changes, nil
}

func (b *bucket) watch(ctx context.Context, key string) (jetstream.KeyWatcher, error) {
	return b.kv.Watch(ctx, key, jetstream.UpdatesOnly(), jetstream.MetaOnly())
}

// forward signals changes until ctx ends. It returns true if the watcher was closed before.
func forward(ctx context.Context, watcher jetstream.KeyWatcher, changes chan<- struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			_ = watcher.Stop()
			return false
		case _, more := <-watcher.Updates():
			if !more {
				return ctx.Err() == nil
			}
			Poke(changes)
		}
	}
}

// Get implements state.Store.
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

// Put implements state.Store.
func (b *bucket) Put(ctx context.Context, key string, value []byte) error {
	m := nats.NewMsg("$KV." + b.kv.Bucket() + "." + key)
	m.Data = value
	revision, err := b.Publish(ctx, m)
	if err != nil {
		return err
	}
	return b.confirm(revision)
}

// Update implements state.Store.
func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, stop, err := b.While(ctx, RequestTimeout)
	if err != nil {
		return 0, err
	}
	defer stop()
	var next uint64
	if revision == 0 {
		next, err = b.kv.Create(ctx, key, value)
	} else {
		next, err = b.kv.Update(ctx, key, value, revision)
	}
	b.Changes.Add(1)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, fmt.Errorf("journal: %w", context.Cause(ctx))
	case errors.Is(err, jetstream.ErrKeyExists) || IsWrongSequence(err):
		return 0, fmt.Errorf("%w: %s", state.ErrConflict, key)
	case err != nil:
		return 0, fmt.Errorf("journal: %w", err)
	}
	return next, b.confirm(next)
}

// Delete implements state.Store. It purges the messages, because deleting a key would leave a
// marker.
func (b *bucket) Delete(ctx context.Context, key string) error {
	counted, err := b.uncounted(ctx)
	if err != nil {
		return err
	}
	defer counted()
	defer b.Changes.Add(1)
	for _, subject := range []string{key, key + ".>"} {
		if err := b.JS.Purge(ctx, "KV_"+b.kv.Bucket(), "$KV."+b.kv.Bucket()+"."+subject, 0); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// Keys implements state.Store. It reads the subjects of the stream, because KeyValue.ListKeys may omit
// keys whose values change in the meantime, and returns an incomplete list if its consumer fails.
func (b *bucket) Keys(ctx context.Context, prefix string) ([]string, error) {
	begin := "$KV." + b.kv.Bucket() + "."
	subjects, err := b.JS.Subjects(ctx, "KV_"+b.kv.Bucket(), begin+prefix+".>")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var keys []string
	for subject := range subjects {
		keys = append(keys, strings.TrimPrefix(subject, begin))
	}
	return keys, nil
}

// confirm returns nil if a stored value is on the disk, and records its revision.
func (b *bucket) confirm(revision uint64) error {
	if err := b.CheckSynced(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	b.note(record.Accepted{Seq: revision, Source: "KV_" + b.kv.Bucket()})
	return nil
}
