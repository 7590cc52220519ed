package jetstream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Patience is how long a test waits for what must happen.
const Patience = time.Minute

// Within returns a context for one wait of a test, which says when it took too long.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), Patience, fmt.Errorf("%s waited for %v in vain", t.Name(), Patience))
	context.AfterFunc(ctx, cancel)
	return ctx
}

func within(t testing.TB) context.Context { return Within(t) }

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

// LoseClaims is what time does to the claims of processes that have ended, while others
// store something.
func (j *Journal) LoseClaims(ctx context.Context) error {
	if err := j.state.Purge(ctx, jetstream.WithPurgeSubject(j.Names.Subject("s", "has", "*"))); err != nil {
		return err
	}
	return j.StoreCheckpoint(ctx)
}

// StoreCheckpoint does at a time what is done now and then.
func (j *Journal) StoreCheckpoint(ctx context.Context) error {
	return j.storeCheckpoint(ctx, 0, j.account.Encode())
}

// FinishAhead is Finish as it was before the clock stepped back.
func FinishAhead(ctx context.Context, l journal.Lease, r journal.Result, step time.Duration) error {
	lease := l.(*lease)
	j := lease.queue.journal.settler.(*Journal)
	r.RetryAt = r.RetryAt.Add(step)
	o, _ := lease.outcome(r)
	o.Decided = o.Decided.Add(step)
	if state := <-j.results.write(o); state.err != nil {
		return state.err
	}
	if _, err := j.Publish(ctx, j.NC, j.retryMessage(o.Destination, nextAttempt(o), o.Decided)); err != nil {
		return err
	}
	lease.queue.journal.ack(lease.queue.drop(lease.item))
	return nil
}

// HastenRetries does what is done every minute, and when the clock steps back.
func (j *Journal) HastenRetries(ctx context.Context) error { return j.hastenRetries(ctx) }

// FinishUnsettled is Finish in a process that is killed before it does what follows.
func FinishUnsettled(l journal.Lease, r journal.Result) error {
	lease := l.(*lease)
	o, _ := lease.outcome(r)
	return (<-lease.queue.journal.results.write(o)).err
}

// LoseRequests is what it is to a journal when the server that has its requests for
// messages is gone.
func (j *Journal) LoseRequests() {
	for _, q := range j.queues.all() {
		for _, p := range []*puller{q.fresh, q.retries} {
			p.mu.Lock()
			p.heard = p.heard.Add(-time.Hour)
			p.mu.Unlock()
		}
	}
}

// Scrub reads all that is stored once.
func (j *Journal) Scrub(ctx context.Context) error { return j.scrub(ctx) }
