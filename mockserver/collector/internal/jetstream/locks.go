package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// lockTTL is how long a process that died may keep others from what it has locked.
const lockTTL = 30 * time.Second

// A lock is a message of STATE that others see, and that goes by itself if it is not
// renewed.
type lock struct {
	store   *store.Store
	stream  jetstream.Stream
	subject string
	seq     uint64    // the message
	at      time.Time // when it was stored
}

// newLock returns a lock that is not taken. Its name is the end of a subject.
func newLock(s *store.Store, stream jetstream.Stream, name ...string) *lock {
	return &lock{store: s, stream: stream, subject: s.Names.Subject(append([]string{"s"}, name...)...)}
}

// take stores the lock's message in place of the one before.
func (l *lock) take(ctx context.Context) error {
	m := nats.NewMsg(l.subject)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(l.seq, 10))
	m.Header.Set("Nats-TTL", lockTTL.String())
	l.store.Identify(m)
	seq, err := l.store.Publish(ctx, l.store.NC, m)
	if err == nil {
		l.seq, l.at = seq, time.Now()
	}
	return err
}

// renew keeps the lock. It is an error if another process may have it.
func (l *lock) renew(ctx context.Context) error {
	if !l.store.Shared || time.Since(l.at) < lockTTL/3 {
		return nil
	}
	if err := l.take(ctx); err != nil {
		return fmt.Errorf("the lock of the replay was lost: %w", err)
	}
	return nil
}

// remove lets others have the lock.
func (l *lock) remove(ctx context.Context) {
	if l.seq != 0 {
		_ = l.stream.DeleteMsg(context.WithoutCancel(ctx), l.seq) // else it goes by itself
	}
}
