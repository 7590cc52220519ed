package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// On a cluster, one process at a time delivers the entries of a destination in order: the owner of
// the destination. Any process may stall and continue later without noticing. Three rules prevent
// two owners:
//
//   - The owner renews a claim in STATE. Other processes take over when they have seen the same
//     claim for claimTTL by their own clocks. The owner stops claimMargin earlier.
//   - The owner stores outcomes under a separate subject. The server rejects an outcome if another
//     process has stored a message there since. A new owner first stores a message there. From
//     then on, outcomes of earlier owners do not count. Once the ledger has read that message,
//     the ledger shows the remaining entries.
//   - The owner reads CALLS with its own consumer, starting after the destination's floor. If a
//     message is missing, the owner replaces the consumer to keep the order.

const (
	// claimTTL is how long a claim is valid, and claimRenewal how often it is renewed.
	claimTTL     = 15 * time.Second
	claimRenewal = 4 * time.Second
	// claimMargin is the time between the end of the owner's work and the end of its claim. It covers
	// clocks that run at different speeds, and canceled requests that still arrive.
	claimMargin = 3 * time.Second
	// claimRetry is the delay before a failed read or write of a claim is retried.
	claimRetry = time.Second
)

var errClaimExpired = errors.New("journal: the claim on the destination could not be renewed")

// Acquire implements journal.Reader.
func (r *reader) Acquire(ctx context.Context) (owned context.Context, release func(), err error) {
	q := r.queue
	if !q.set.Shared {
		return context.Background(), func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	o := &ownership{queue: q, name: strconv.FormatUint(store.RandomNumber(), 16), renewDone: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancelCause(q.set.Ctx)
	if err := o.acquire(ctx); err != nil {
		o.cancel(err)
		return nil, nil, err
	}
	if !q.set.Work.Go(o.renew) {
		return nil, nil, journal.ErrClosed
	}
	if err := o.begin(ctx); err != nil {
		o.release()
		return nil, nil, fmt.Errorf("journal: the order of the calls for %q: %w", q.name, err)
	}
	q.set.Log.Info("the calls of a destination are delivered in order by this collector", "destination", q.name)
	return ownedContext{o.ctx, o}, o.release, nil
}

// An ownedContext is done when the ownership ends. If the time is over before the timer has fired,
// Err ends the ownership.
type ownedContext struct {
	context.Context
	ownership *ownership
}

// Err implements context.Context.
func (c ownedContext) Err() error {
	if until := c.ownership.expires.Load(); until != nil && isOver(time.Now(), *until) {
		c.ownership.cancel(errClaimExpired)
	}
	return c.Context.Err()
}

// isOver reports whether a time has passed by the wall clock or the monotonic clock. The
// monotonic clock stops while the machine is suspended.
func isOver(now, until time.Time) bool {
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

func (o *ownership) subject() string {
	return o.queue.set.Names.Subject("s", "order", record.Token(o.queue.name))
}

// acquire waits until the destination is free, and claims it.
func (o *ownership) acquire(ctx context.Context) error {
	var changed <-chan *jetstream.RawStreamMsg // nil until the first attempt has failed
	var seen uint64
	var since time.Time
	m, err := o.loadClaim(ctx)
	for {
		if err == nil {
			if m.Sequence != seen {
				seen, since = m.Sequence, time.Now()
			}
			if by := string(m.Data); by == "" || by == o.queue.claimant || time.Since(since) >= claimTTL {
				o.claimSeq = m.Sequence
				if err = o.storeClaim(ctx, o.queue.claimant); err == nil {
					o.previous = m.Time
					return nil
				}
			}
		}
		if err != nil && ctx.Err() == nil && !store.IsWrongSequence(err) {
			o.queue.set.Log.Debug("reading or storing the claim on a destination failed; retrying", "destination", o.queue.name, "error", err)
		}
		if changed == nil {
			changed = o.watchClaim(ctx, seen+1)
		}
		wait := time.Until(since.Add(claimTTL))
		if err != nil {
			wait = claimRetry
		}
		timer := time.NewTimer(wait)
		select {
		case m = <-changed:
			err = nil
		case <-timer.C:
			m, err = o.loadClaim(ctx)
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil && o.queue.ctx.Err() != nil {
			return journal.ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// watchClaim returns a channel for claims, starting with message next. The channel contains at most
// one claim: a newer claim replaces it. The watch ends with ctx.
func (o *ownership) watchClaim(ctx context.Context, next uint64) <-chan *jetstream.RawStreamMsg {
	changed := make(chan *jetstream.RawStreamMsg, 1)
	t := o.queue.set.Tail(record.StreamState, next, func(m *jetstream.RawStreamMsg) error {
		select {
		case <-changed:
		default:
		}
		changed <- m
		return nil
	})
	t.Subjects = []string{o.subject()}
	o.queue.set.Work.Go(func() { _ = t.Follow(ctx) })
	return changed
}

// loadClaim returns the stored claim. Before the first claim, it returns an empty claim.
func (o *ownership) loadClaim(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	set := o.queue.set
	m, err := set.JS.Last(ctx, set.Names.Stream(record.StreamState), o.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{Time: time.Now()}, nil
	}
	return m, err
}

// storeClaim replaces the claim if it has not changed, and extends the ownership from the
// time before the request.
func (o *ownership) storeClaim(ctx context.Context, by string) error {
	began := time.Now()
	m := nats.NewMsg(o.subject())
	m.Data = []byte(by)
	store.ExpectLast(m, o.claimSeq)
	set := o.queue.set
	ctx, stop, err := set.WritableContext(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	claim, err := set.Try(ctx, set.JS, m)
	if err != nil {
		return err
	}
	o.claimSeq = claim
	until := began.Add(claimTTL - claimMargin)
	o.expires.Store(&until)
	if left := time.Until(until); o.expiry == nil {
		o.expiry = time.AfterFunc(left, func() { o.cancel(errClaimExpired) })
	} else {
		o.expiry.Reset(left)
	}
	return nil
}

// renew renews the claim until the ownership ends.
func (o *ownership) renew() {
	defer close(o.renewDone)
	for wait := untilRenewal(); pause.For(o.ctx, wait) == nil; {
		err := o.replaceClaim(o.ctx, o.queue.claimant)
		if errors.Is(err, errTakenOver) {
			o.cancel(errTakenOver)
			break
		}
		if wait = untilRenewal(); err != nil {
			wait = claimRetry
		}
	}
	o.expiry.Stop()
	if set := o.queue.set; set.Ctx.Err() == nil && !errors.Is(context.Cause(o.ctx), journal.ErrClosed) {
		set.Log.Warn("this collector may no longer deliver in order; its calls in flight are canceled", "destination", o.queue.name, "error", context.Cause(o.ctx))
	}
}

// untilRenewal returns the time until the next multiple of claimRenewal. All claims are then renewed at
// the same time, which saves wake-ups and disk writes of the servers.
func untilRenewal() time.Duration {
	now := time.Now()
	return claimRenewal - now.Sub(now.Truncate(claimRenewal))
}

// replaceClaim is like storeClaim, but also succeeds if an earlier attempt without a response has
// stored the claim. It returns errTakenOver if another process has claimed the destination.
func (o *ownership) replaceClaim(ctx context.Context, by string) error {
	err := o.storeClaim(ctx, by)
	if !store.IsWrongSequence(err) {
		return err
	}
	m, err := o.loadClaim(ctx)
	if err != nil {
		return err
	}
	if string(m.Data) != o.queue.claimant {
		return errTakenOver
	}
	o.claimSeq = m.Sequence
	return o.storeClaim(ctx, by)
}

// begin fences off previous owners, waits until the ledger has read the fence, and switches
// the queue to this ownership.
func (o *ownership) begin(ctx context.Context) error {
	q := o.queue
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	subject := q.set.Names.Subject("o", record.Token(q.name))
	o.results = newResults(q.set.Store, q.set.ledger, &q.set.written, subject)
	o.results.owned, o.results.loseOwnership = o.ctx, o.cancel
	if err := o.results.fence(ctx); err != nil {
		return err
	}
	if err := q.set.ledger.Reached(ctx, 0, o.results.last); err != nil {
		return err
	}
	if !q.set.Work.Go(o.results.run) {
		return journal.ErrClosed
	}
	q.switchTo(o)
	q.set.Work.Go(o.settlePredecessors)
	return nil
}

// settlePredecessors settles outcomes of previous owners, which may have exited before they did so.
// Without an order, redelivered messages cause this. The owner's new consumer does not redeliver
// messages.
func (o *ownership) settlePredecessors() {
	set := o.queue.set
	o.queue.repeat(set.Ctx, "settling the outcomes of another collector", func() error {
		return set.settler.SettleSince(set.Ctx, o.queue.name, o.previous)
	})
}

// release ends the ownership. Its leases must have ended.
func (o *ownership) release() {
	o.cancel(journal.ErrClosed)
	<-o.renewDone
	if o.results != nil {
		o.results.stop(errTakenOver)
	}
	q := o.queue
	q.switchTo(nil)
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.QueryTimeout)
	defer cancel()
	if err := o.replaceClaim(ctx, ""); err != nil && !errors.Is(err, errTakenOver) && ctx.Err() == nil {
		q.set.Log.Debug("releasing the claim on a destination failed; it will expire", "destination", q.name, "error", err)
	}
	o.expiry.Stop()
}

// switchTo restarts the queue with the messages of an ownership or, if o is nil, with the
// messages that all processes share.
func (q *Queue) switchTo(o *ownership) {
	q.mu.Lock()
	q.ownership = o
	naks := q.removeIdle(func(*item) bool { return true })
	clear(q.items)
	clear(q.parked)
	clear(q.messages)
	q.ready = newReady()
	q.set.ledger.With(q.name, func(a *ledger.Account) { q.received, q.newest = a.Floor, a.Floor })
	q.newPhase()
	q.wake()
	q.mu.Unlock()
	for _, m := range naks {
		_ = m.Nak()
	}
}
