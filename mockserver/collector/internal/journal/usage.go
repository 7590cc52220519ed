package journal

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// A usage follows how many bytes CALLS has. The server is asked now and then;
// between, what this process stores is added.
type usage struct {
	bytes atomic.Int64
	short chan struct{} // holds one token when space gets short; never closed
}

func (u *usage) add(n int) { u.bytes.Add(int64(n)) }

// room tells whether calls may be stored.
func (u *usage) room(limit int64) error {
	if used := u.bytes.Load(); used >= limit {
		return fmt.Errorf("%w: it holds %d of %d bytes", mockserver.ErrJournalFull, used, limit)
	}
	return nil
}

// trimIfShort has old calls removed where space gets short.
func (j *Journal) trimIfShort() {
	if float64(j.usage.bytes.Load()) > trimAbove*float64(j.options.MaxBytes) {
		select {
		case j.usage.short <- struct{}{}:
		default: // it is known
		}
	}
}

// measure asks the server.
func (j *Journal) measure(ctx context.Context) error {
	info, err := j.calls.Info(ctx)
	if err != nil {
		return err
	}
	j.usage.bytes.Store(int64(info.State.Bytes))
	return nil
}
