package spool

import (
	"sync"
	"time"
)

// lockedLog is a log whose methods lock its mutex.
type lockedLog struct{ *Log }

// openDir opens a log with a new mutex.
func openDir(dir string, opts Options) (lockedLog, Recovered, error) {
	opts.Mutex = new(sync.Mutex)
	l, found, err := Open(dir, opts)
	return lockedLog{l}, found, err
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
