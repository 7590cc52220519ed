package pause

import (
	"context"
	"sync"
)

// A Lock is a lock that may be held during I/O. Unlike with sync.Mutex, testing/synctest can advance
// the time while a goroutine waits for it. The zero value is unlocked.
type Lock struct {
	once  sync.Once
	taken chan struct{} // contains a token while the lock is held
}

func (l *Lock) channel() chan struct{} {
	l.once.Do(func() { l.taken = make(chan struct{}, 1) })
	return l.taken
}

// Lock waits for the lock and acquires it.
func (l *Lock) Lock() { l.channel() <- struct{}{} }

// LockContext is like Lock. If ctx is canceled first, it returns the cause.
func (l *Lock) LockContext(ctx context.Context) error {
	select {
	case l.channel() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryLock acquires the lock if it is free, and reports whether it did.
func (l *Lock) TryLock() bool {
	select {
	case l.channel() <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock releases the lock.
func (l *Lock) Unlock() { <-l.channel() }
