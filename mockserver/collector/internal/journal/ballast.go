package journal

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

// A ballast is a file that holds room on the disk. When the disk is full it gives that
// up: then calls are refused, and how those that are pending end can still be stored.
// The size of the file stays, so that the next process knows how much to hold.
type ballast struct {
	path string

	mu   sync.Mutex // guards held
	held bool
}

func newBallast(dir string) *ballast { return &ballast{path: filepath.Join(dir, ballastFile)} }

// take holds the room, if as much stays free.
func (b *ballast) take() error {
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
func (b *ballast) size(f *os.File) (int64, error) {
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

// drop gives the room up, and returns whether it was held.
func (b *ballast) drop() bool {
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

// writeZeros allocates by writing.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// giveWay gives up the ballast and has calls refused: the disk is full.
func (j *Journal) giveWay() {
	if j.ballast.drop() {
		j.log.Warn("the disk is full: calls are refused until it has room; those that are pending are delivered", "directory", j.options.Dir)
		j.usage.setDiskFull(true)
	}
}

// roomNeeded is how much must be free for the store to come up again: files are written
// anew one by one, and the server needs some for itself.
func (j *Journal) roomNeeded() int64 {
	needed := int64(ballastLeast)
	streams, _ := j.streamDirs()
	for _, stream := range streams {
		blocks, _ := j.unproved(stream)
		for _, block := range blocks {
			if info, err := os.Stat(blockFile(stream, block)); err == nil {
				needed = max(needed, ballastLeast+info.Size())
			}
		}
	}
	return needed
}

// tellLack says how much room the disk lacks though the ballast was given up: others have
// taken that.
func (j *Journal) tellLack(cause error) {
	free, err := freeBytes(j.ballast.path)
	if err != nil {
		free = 0
	}
	j.log.Error("the disk is full, and what was held on it for that is used up: nothing is delivered until it has room",
		"directory", j.options.Dir, "needed", j.roomNeeded(), "free", free, "error", cause)
}

// holdBallast takes the ballast again once the disk has room, and has calls taken.
// Until then, calls that all destinations are done with are removed.
func (j *Journal) holdBallast() {
	if !j.usage.isDiskFull() {
		return
	}
	if err := j.ballast.take(); err != nil {
		j.log.Debug("the disk is still full", "error", err)
		poke(j.trimSoon)
		return
	}
	j.usage.setDiskFull(false)
	j.log.Info("the disk has room again; calls are taken", "directory", j.options.Dir)
}

// errDiskFull refuses calls while the ballast is given up.
var errDiskFull = fmt.Errorf("journal: calls are refused until the disk has room: %w", syscall.ENOSPC)

// isDiskFull knows the errors of a disk, a quota or a limit that is used up.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
