package users

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A turn is the right of this process to work on a record, which it keeps as long as it
// notes from time to time how far it is.
type turn[R any, P claimable[R]] struct {
	*Service
	key    string    // of the record
	record R         // as it was stored last
	stored time.Time // when that was
}

// claimable is a pointer to a record that holds a claim.
type claimable[R any] interface {
	*R
	claimed() *claim
}

// begin takes the turn, unless another process has it or begin says that there is no work.
func (t *turn[R, P]) begin(ctx context.Context, begin func(*R) error) (err error) {
	t.stored = time.Now()
	t.record, err = state.Update(ctx, t.state, t.key, func(r *R) error {
		c := P(r).claimed()
		if c.Secret == "" {
			return errNoWork // forgotten
		}
		if err := begin(r); err != nil {
			return err
		}
		return c.take(t.config.Instance)
	})
	return err
}

// note changes the record, if it is still this process's turn.
func (t *turn[R, P]) note(ctx context.Context, change func(*R)) error {
	now := time.Now()
	record, err := state.Update(ctx, t.state, t.key, func(r *R) error {
		if err := P(r).claimed().renew(*P(&t.record).claimed()); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		t.record, t.stored = record, now
	}
	return err
}

// release lets another process go on at once where this one is interrupted.
func (t *turn[R, P]) release() {
	if !t.work.stopping() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.note(ctx, func(r *R) { P(r).claimed().end() }) // else the lease runs out
}
