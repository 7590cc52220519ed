package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	ballastFile = "journal.ballast"
	// ballastMost is how much of the disk is kept for when it is full. On a small disk
	// it is less: at most half of what is free, and ballastLeast at least.
	ballastMost  = 32 << 20
	ballastLeast = 1 << 20
)

// A Ballast is a file that holds room on the disk. When the disk is full it gives that
// up: then calls are refused, and how those that are pending end can still be stored.
// The size of the file stays, so that the next process knows how much to hold.
type Ballast struct {
	path string

	mu   sync.Mutex // guards held
	held bool
}

// NewBallast returns the ballast of a directory, which is not held yet.
func NewBallast(dir string) *Ballast { return &Ballast{path: filepath.Join(dir, ballastFile)} }

// Take holds the room, if as much stays free.
func (b *Ballast) Take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held {
		return nil
	}
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = f.Close() }()
	size, err := b.size(f)
	if err == nil {
		err = allocate(f, size)
	}
	if err == nil {
		b.held = true
		return nil
	}
	_ = release(f, size)
	return fmt.Errorf("journal: holding room on the disk: %w", err)
}

// size returns how much is to be held: as much as the last time, or what the disk has
// room for.
func (b *Ballast) size(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size, held := info.Size(), allocated(info)
	free, err := freeBytes(b.path)
	if err != nil {
		return size, err
	}
	if size == 0 {
		for size = ballastMost; size > ballastLeast && 2*size > free; size /= 2 {
		}
	}
	if held < size && 2*size > free+held {
		return size, syscall.ENOSPC
	}
	return size, nil
}

// Drop gives the room up, and returns whether it was held.
func (b *Ballast) Drop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		return false
	}
	b.held = false
	f, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		_ = release(f, info.Size())
	}
	return true
}

// release leaves nothing of a file but its size.
func release(f *os.File, size int64) error {
	return errors.Join(f.Truncate(0), f.Truncate(size))
}

// Free is how much room the disk has, or 0 where that is not known.
func (b *Ballast) Free() int64 {
	free, err := freeBytes(b.path)
	if err != nil {
		return 0
	}
	return free
}

// IsDiskFull knows the errors of a disk, a quota or a limit that is used up.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
