package spool

import (
	"sync"
	"testing"
	"time"
)

// lockedLog is a log whose methods lock its mutex.
type lockedLog struct{ *Log }

// openDir opens a log with a new mutex.
func openDir(dir string, opts Options) (lockedLog, Recovered, error) {
	opts.Mutex = new(checkedMutex)
	l, found, err := Open(dir, opts)
	return lockedLog{l}, found, err
}

// checkedMutex is a mutex that calls check, if it is set, before it is unlocked.
type checkedMutex struct {
	sync.Mutex
	check func()
}

func (m *checkedMutex) Unlock() {
	if m.check != nil {
		m.check()
	}
	m.Mutex.Unlock()
}

// checkUsage makes the test fail if the log ever counts more than maxBytes.
func (l lockedLog) checkUsage(t *testing.T, maxBytes int64) {
	mu := l.mu.(*checkedMutex)
	mu.Lock()
	defer mu.Unlock()
	mu.check = func() {
		if used := l.room.used; used > maxBytes {
			t.Errorf("the log counts %d bytes of %d", used, maxBytes)
			mu.check = nil
		}
	}
}

func (l lockedLog) Append(r *Record, now time.Time) error {
	r.Prepare()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Log.Append(r, now)
}

func (l lockedLog) Done(first Position, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Log.Done(first, n)
}

func (l lockedLog) ReadFrom(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Log.ReadFrom(r)
}

func (l lockedLog) Room(r *Record) Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Log.Room(r)
}

func (l lockedLog) Usage() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Log.Usage()
}

func (l lockedLog) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Log.Stop()
}

func (l lockedLog) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Log.Busy()
}

// holdFile simulates a slow write to the active segment. release ends it.
func (l lockedLog) holdFile() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing {
		l.idle.Wait()
	}
	l.lockFile()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unlockFile()
	}
}
