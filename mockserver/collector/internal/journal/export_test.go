package journal

import (
	"context"
	"time"
)

// ForgetCheckpoints has the next start read all that is stored.
func (j *Journal) ForgetCheckpoints(ctx context.Context) error { return j.forgetCheckpoints(ctx) }

// LockReplay takes the lock of replays as one takes it that began so long ago.
func (j *Journal) LockReplay(ctx context.Context, destination string, since time.Duration) (renew func(context.Context) error, unlock func(context.Context), err error) {
	l, err := j.lockReplay(ctx, destination)
	if err != nil {
		return nil, nil, err
	}
	l.at = l.at.Add(-since)
	return l.renew, l.unlock, nil
}
