package users

import (
	"context"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// WaitSync waits until all calls of a sync are in the journal.
func (u *Service) WaitSync(ctx context.Context, id string) (s Sync, err error) {
	err = u.await(ctx, computationKey(computationOfSync(id)), func() (done bool, err error) {
		s, err = u.Sync(context.WithoutCancel(ctx), id)
		return s.State == SyncDone, err
	})
	return s, err
}

// WaitDeletion waits until every notification of a request has ended.
func (u *Service) WaitDeletion(ctx context.Context, id string) (d Deletion, err error) {
	err = u.await(ctx, deletionKey(text.Digest(id)), func() (done bool, err error) {
		d, err = u.Deletion(context.WithoutCancel(ctx), id)
		return d.LostRecord || !d.CompletedAt.IsZero(), err
	})
	return d, err
}

// await calls done once and after each change of the value at key, until done returns true or an
// error.
func (u *Service) await(ctx context.Context, key string, done func() (bool, error)) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := u.state.Watch(watching, key)
	if err != nil {
		return err
	}
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if _, more := <-changes; !more {
			return ctx.Err()
		}
	}
}
