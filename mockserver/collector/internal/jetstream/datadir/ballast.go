package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	ballastFile = "journal.ballast"
	// maxBallast limits the reserved disk space. On a small disk, at most half of the free space
	// is reserved, but at least minBallast.
	maxBallast = 32 << 20
	minBallast = 1 << 20
)

// A Ballast is a file that reserves disk space. The space is released when the disk is full. New
// calls are then rejected, but outcomes of pending calls can still be stored. The file keeps its
// size, so that the next process knows how much space to reserve.
type Ballast struct {
	path string

	mu       pause.Lock // guards reserved
	reserved bool
}

// NewBallast returns the ballast of a directory. It does not reserve space.
func NewBallast(dir string) *Ballast { return &Ballast{path: filepath.Join(dir, ballastFile)} }

// Reserve allocates the space, if at least the same amount of space remains free.
func (b *Ballast) Reserve() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reserved {
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
		b.reserved = true
		return nil
	}
	_ = release(f, size)
	return fmt.Errorf("journal: reserving disk space: %w", err)
}

// size returns the number of bytes to reserve. It is the same number as last time, or depends on the
// free space if nothing was reserved before.
func (b *Ballast) size(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size, used := info.Size(), allocated(info)
	free, _, err := DiskSpace(filepath.Dir(b.path))
	if err != nil {
		return size, err
	}
	if size == 0 {
		for size = maxBallast; size > minBallast && 2*size > free; size /= 2 {
		}
	}
	if used < size && 2*size > free+used {
		return size, syscall.ENOSPC
	}
	return size, nil
}

// Release frees the space. It reports whether the space was reserved.
func (b *Ballast) Release() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reserved {
		return false
	}
	b.reserved = false
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

// release deallocates the contents of a file without changing the size of the file.
func release(f *os.File, size int64) error {
	return errors.Join(f.Truncate(0), f.Truncate(size))
}

// IsDiskFull reports whether an error means that a disk, a quota or a limit is exhausted.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
