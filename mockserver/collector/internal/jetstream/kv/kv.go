package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// settingsKey is where the settings are, as one value: they are changed together.
const settingsKey = "settings"

// BucketStream is the stream of a bucket, as KeyValue of package jetstream would
// make it.
func BucketStream(names record.Names, kind, description string) jetstream.StreamConfig {
	bucket := names.Bucket(kind)
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Description: description, Subjects: []string{"$KV." + bucket + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	}
}

// Buckets are where settings and state are kept.
type Buckets struct {
	*store.Store
	note      func(record.Accepted)                             // notes a second time what was stored
	uncounted func(context.Context) (counted func(), err error) // is called before values are deleted, and counted after
}

func New(s *store.Store, note func(record.Accepted), uncounted func(context.Context) (func(), error)) *Buckets {
	return &Buckets{s, note, uncounted}
}

// Settings returns a store for the settings that are made at run time, shared by
// all who share the journal. It is usable until the journal is closed.
func (b *Buckets) Settings(ctx context.Context) (mockserver.SettingsStore, error) {
	kv, err := b.JS.KeyValue(ctx, b.Names.Bucket(record.BucketSettings))
	if err != nil {
		return nil, fmt.Errorf("journal: the bucket of settings: %w", err)
	}
	return &settingsStore{b, kv}, nil
}

type settingsStore struct {
	*Buckets
	kv jetstream.KeyValue
}

func (s *settingsStore) Load(ctx context.Context) (mockserver.StoredSettings, error) {
	var settings mockserver.StoredSettings
	entry, err := s.kv.Get(ctx, settingsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return settings, nil
	}
	if err != nil {
		return settings, fmt.Errorf("journal: %w", err)
	}
	if err := json.Unmarshal(entry.Value(), &settings); err != nil {
		return settings, fmt.Errorf("journal: the stored settings cannot be read: %w", err)
	}
	settings.Revision = entry.Revision()
	return settings, nil
}

func (s *settingsStore) Save(ctx context.Context, settings mockserver.StoredSettings) (uint64, error) {
	value, err := json.Marshal(settings)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	revision, err := s.update(ctx, s.kv, settingsKey, value, settings.Revision)
	if isConflict(err) {
		return 0, mockserver.ErrSettingsChanged
	}
	return revision, err
}

func (s *settingsStore) Watch(ctx context.Context) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.Ctx, cancel)
	watcher, err := s.watch(ctx)
	if err != nil {
		unlink()
		cancel()
		return nil, fmt.Errorf("journal: %w", err)
	}
	changes := make(chan struct{}, 1)
	watching := s.Work.Go(func() {
		defer cancel()
		defer unlink()
		defer close(changes)
		for tell(ctx, watcher, changes) {
			// The server could not make it again after some trouble. What changed
			// meanwhile is not told of.
			for watcher, err = s.watch(ctx); err != nil; watcher, err = s.watch(ctx) {
				if store.Sleep(ctx, store.ClusterPause) != nil {
					return
				}
			}
			store.Poke(changes)
		}
	})
	if !watching {
		cancel()
		return nil, mockserver.ErrJournalClosed
	}
	return changes, nil
}

func (s *settingsStore) watch(ctx context.Context) (jetstream.KeyWatcher, error) {
	return s.kv.Watch(ctx, settingsKey, jetstream.UpdatesOnly(), jetstream.MetaOnly())
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
			store.Poke(changes)
		}
	}
}

// State returns a store for deletion requests, audiences and computed traits,
// shared by all who share the journal. It is usable until the journal is closed.
func (b *Buckets) State(ctx context.Context) (mockserver.StateStore, error) {
	kv, err := b.JS.KeyValue(ctx, b.Names.Bucket(record.BucketState))
	if err != nil {
		return nil, fmt.Errorf("journal: the bucket of state: %w", err)
	}
	return &stateStore{b, kv}, nil
}

type stateStore struct {
	*Buckets
	kv jetstream.KeyValue
}

func (s *stateStore) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	entry, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, fmt.Errorf("%w: %s", mockserver.ErrNoState, key)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("journal: %w", err)
	}
	return entry.Value(), entry.Revision(), nil
}

func (s *stateStore) Put(ctx context.Context, key string, value []byte) error {
	m := nats.NewMsg("$KV." + s.kv.Bucket() + "." + key)
	m.Data = value
	revision, err := s.Publish(ctx, s.NC, m)
	if err != nil {
		return err
	}
	return s.keep(s.kv, revision)
}

func (s *stateStore) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := s.update(ctx, s.kv, key, value, revision)
	if isConflict(err) {
		return 0, fmt.Errorf("%w: %s", mockserver.ErrStateConflict, key)
	}
	return next, err
}

// Delete purges the stream rather than the keys, which would leave a mark of each.
func (s *stateStore) Delete(ctx context.Context, key string) error {
	bucket := s.Names.Bucket(record.BucketState)
	stream, err := s.JS.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	counted, err := s.uncounted(ctx)
	if err != nil {
		return err
	}
	defer counted()
	for _, subject := range []string{key, key + ".>"} {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+bucket+"."+subject)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

func (s *stateStore) Keys(ctx context.Context, prefix string) ([]string, error) {
	lister, err := s.kv.ListKeysFiltered(ctx, prefix+".>")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var keys []string
	for key := range lister.Keys() {
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}

// update replaces a value if its revision is still that one; none at all for 0.
func (b *Buckets) update(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, revision uint64) (next uint64, err error) {
	ctx, stop, err := b.While(ctx, store.RequestPatience)
	if err != nil {
		return 0, err
	}
	defer stop()
	if revision == 0 {
		next, err = kv.Create(ctx, key, value)
	} else {
		next, err = kv.Update(ctx, key, value, revision)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	return next, b.keep(kv, next)
}

// keep returns nil if a value that was stored is on the disk, and notes it a second time.
func (b *Buckets) keep(kv jetstream.KeyValue, revision uint64) error {
	if err := b.ProveSynced(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	b.note(record.Accepted{Seq: revision, Source: "KV_" + kv.Bucket()})
	return nil
}

// isConflict reports whether a value had another revision.
func isConflict(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
