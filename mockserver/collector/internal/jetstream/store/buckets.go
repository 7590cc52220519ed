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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// BucketStream returns the configuration of a bucket's stream. It is the same configuration that
// the KeyValue API of NATS creates.
func BucketStream(names record.Names, kind, description string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: names.Bucket(kind), Description: description, Subjects: []string{names.Key(kind, ">")},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	}
}

// A bucket implements state.Store. All processes that use the journal share its values. It can be
// used until the journal is closed.
type bucket struct {
	*Store
	kind, stream string
	note         func(record.Accepted)                             // notes a stored value in datadir.Recent
	uncounted    func(context.Context) (counted func(), err error) // called before values are deleted; counted is called afterwards
}

// NewBucket returns a bucket of an open store.
func NewBucket(s *Store, kind string, note func(record.Accepted), uncounted func(context.Context) (func(), error)) state.Store {
	return &bucket{s, kind, s.Names.Bucket(kind), note, uncounted}
}

// Watch implements state.Store.
func (b *bucket) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	info, err := b.JS.Info(ctx, b.stream)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	changes := make(chan struct{}, 1)
	t := b.Tail("", info.State.LastSeq+1, func(*jetstream.RawStreamMsg) error {
		Poke(changes)
		return nil
	})
	t.Stream, t.Subjects, t.HeadersOnly = b.stream, []string{b.Names.Key(b.kind, key)}, true
	watching := b.Work.Go(func() {
		defer close(changes)
		_ = t.Follow(ctx) // ends with ctx or the journal
	})
	if !watching {
		return nil, journal.ErrClosed
	}
	return changes, nil
}

// Get implements state.Store.
func (b *bucket) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	m, err := b.JS.Last(ctx, b.stream, b.Names.Key(b.kind, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, fmt.Errorf("%w: %s", state.ErrNotFound, key)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("journal: %w", err)
	}
	return m.Data, m.Sequence, nil
}

// Put implements state.Store.
func (b *bucket) Put(ctx context.Context, key string, value []byte) error {
	m := nats.NewMsg(b.Names.Key(b.kind, key))
	m.Data = value
	_, err := b.store(ctx, m)
	return err
}

// Update implements state.Store.
func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	m := nats.NewMsg(b.Names.Key(b.kind, key))
	m.Data = value
	ExpectLast(m, revision)
	next, err := b.store(ctx, m)
	if IsWrongSequence(err) {
		return 0, fmt.Errorf("%w: %s", state.ErrConflict, key)
	}
	return next, err
}

// store stores a value, notes its revision and returns the revision. The message has an ID, so a late
// copy cannot replace a newer value.
func (b *bucket) store(ctx context.Context, m *nats.Msg) (uint64, error) {
	b.Identify(m)
	revision, err := b.Publish(ctx, m)
	if err == nil {
		b.note(record.Accepted{Seq: revision, Source: b.stream})
	}
	return revision, err
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
	for _, keys := range []string{key, key + ".>"} {
		if err := b.JS.Purge(ctx, b.stream, b.Names.Key(b.kind, keys), 0); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// Keys implements state.Store. It reads the subjects of the stream, because a consumer may omit keys
// whose values change in the meantime.
func (b *bucket) Keys(ctx context.Context, prefix string) ([]string, error) {
	subjects, err := b.JS.Subjects(ctx, b.stream, b.Names.Key(b.kind, prefix+".>"))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var keys []string
	for subject := range subjects {
		keys = append(keys, strings.TrimPrefix(subject, b.Names.Key(b.kind, "")))
	}
	return keys, nil
}
