package journal

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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

// Orphans are what ForgetOrphans has seen.
type Orphans = orphans

// ForgetOrphans does at a time what is done every minute.
func (j *Journal) ForgetOrphans(ctx context.Context, seen *Orphans, now time.Time) error {
	return j.forgetOrphans(ctx, seen, now)
}

// LoseClaims is what time does to the claims of processes that have ended.
func (j *Journal) LoseClaims(ctx context.Context) error {
	return j.state.Purge(ctx, jetstream.WithPurgeSubject(j.names.subject("s", "has", "*")))
}
