package jetstream

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A usage tracks the size of CALLS in bytes. The size is measured periodically. Between two
// measurements, the bytes stored by this process are added.
type usage struct {
	diskFull atomic.Bool // whether the ballast is released

	mu       sync.Mutex // guards the fields below
	stored   int64
	inFlight int64 // number of bytes being stored
}

// begin reserves n bytes, or returns ErrFull or errDiskFull. The caller must call end.
func (u *usage) begin(n, limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.diskFull.Load() {
		return errDiskFull
	}
	if used := u.stored + u.inFlight; used >= limit {
		return fmt.Errorf("%w: it holds %d of %d bytes", journal.ErrFull, used, limit)
	}
	u.inFlight += n
	return nil
}

// end releases n reserved bytes, and adds them to the size if they were stored.
func (u *usage) end(n int64, stored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.inFlight -= n; stored {
		u.stored += n
	}
}

// errDiskFull rejects calls while the ballast is released.
var errDiskFull = fmt.Errorf("journal: new calls are refused until the disk has space: %w", syscall.ENOSPC)

func (u *usage) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored += int64(n)
}

func (u *usage) set(stored int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored = stored
}

func (u *usage) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored + u.inFlight
}
