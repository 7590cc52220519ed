package store

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// lockTTL is how long the lock of a killed process excludes other processes.
const lockTTL = 30 * time.Second

// A Lock is a message of STATE that excludes other processes. It expires unless it is
// renewed.
type Lock struct {
	store   *Store
	subject string
	seq     uint64    // sequence number of the message
	At      time.Time // when the message was stored
}

// NewLock returns a lock without acquiring it. name is the suffix of its subject.
func NewLock(s *Store, name ...string) *Lock {
	return &Lock{store: s, subject: s.Names.Subject(append([]string{"s"}, name...)...)}
}

// Take acquires or extends the lock. It fails if another process has the lock.
func (l *Lock) Take(ctx context.Context) error {
	m := nats.NewMsg(l.subject)
	ExpectLast(m, l.seq)
	m.Header.Set("Nats-TTL", lockTTL.String())
	l.store.Identify(m)
	seq, err := l.store.Publish(ctx, m)
	if err == nil {
		l.seq, l.At = seq, time.Now()
	}
	return err
}

// Renew extends the lock if necessary. It fails if another process may have acquired it.
func (l *Lock) Renew(ctx context.Context) error {
	if !l.store.Shared || time.Since(l.At) < lockTTL/3 {
		return nil
	}
	if err := l.Take(ctx); err != nil {
		return fmt.Errorf("the lock that excludes other collectors could not be renewed: %w", err)
	}
	return nil
}

// Remove releases the lock.
func (l *Lock) Remove(ctx context.Context) {
	if l.seq != 0 {
		_ = l.store.JS.Delete(context.WithoutCancel(ctx), l.store.Names.Stream(record.StreamState), l.seq) // if this fails, the lock expires
	}
}
