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

// On a cluster one process at a time delivers the entries of a destination in order: its
// owner. Any process may stall and continue later without noticing. Three rules prevent two
// owners:
//
//   - The owner renews a claim in STATE. Others take over when they have seen the same
//     claim for claimTTL by their own clocks. The owner stops claimMargin earlier.
//   - The owner stores outcomes under a separate subject, and is refused if another process
//     has stored there since. A new owner stores a message there first. Outcomes of earlier
//     owners no longer count then, and once the account has read that message, it shows the
//     remaining entries.
//   - The owner reads CALLS with its own consumer, starting at the account's position. If a
//     message is missing, it replaces the consumer to keep the order.

const (
	// claimTTL is how long a claim is valid, and claimRenewal how often it is renewed.
	claimTTL     = 15 * time.Second
	claimRenewal = 4 * time.Second
	// claimMargin is how long before that the owner stops. It covers clocks that run at
	// different speeds and canceled requests that still arrive.
	claimMargin = 3 * time.Second
	// claimRetry is the delay before a failed read or write of a claim is retried.
	claimRetry = time.Second
)

var errClaimExpired = errors.New("journal: the claim on the destination could not be renewed")

// Hold implements journal.Reader.
func (r *reader) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	q := r.queue
	if !q.set.Shared {
		return context.Background(), func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	h := &ownership{queue: q, name: strconv.FormatUint(store.RandomNumber(), 16), renewing: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(q.set.Ctx)
	if err := h.acquire(ctx); err != nil {
		h.cancel(err)
		return nil, nil, err
	}
	if !q.set.Work.Go(h.renew) {
		return nil, nil, journal.ErrClosed
	}
	if err := h.begin(ctx); err != nil {
		h.release()
		return nil, nil, fmt.Errorf("journal: the order of the calls for %q: %w", q.name, err)
	}
	q.set.Log.Info("the calls of a destination are delivered in order by this collector", "destination", q.name)
	return ownedContext{h.ctx, h}, h.release, nil
}

// An ownedContext ends with the ownership. It also ends it if its time is over before the
// timer has fired.
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

func (h *ownership) subject() string {
	return h.queue.set.Names.Subject("s", "order", record.Token(h.queue.name))
}

// acquire waits until the destination has no owner, and claims it.
func (h *ownership) acquire(ctx context.Context) error {
	changed, stop := h.queue.set.claims.wait(h.queue.set, h.subject())
	defer stop()
	var seen uint64
	var since time.Time
	m, err := h.loadClaim(ctx)
	for {
		if err == nil {
			if m.Sequence != seen {
				seen, since = m.Sequence, time.Now()
			}
			if by := string(m.Data); by == "" || by == h.queue.claimant || time.Since(since) >= claimTTL {
				h.claimSeq = m.Sequence
				if err = h.storeClaim(ctx, h.queue.claimant); err == nil {
					h.previous = m.Time
					return nil
				}
			}
		}
		if err != nil && ctx.Err() == nil && !store.IsWrongSequence(err) {
			h.queue.set.Log.Debug("reading or storing the claim on a destination failed; retrying", "destination", h.queue.name, "error", err)
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
			m, err = h.loadClaim(ctx)
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil && h.queue.ctx.Err() != nil {
			return journal.ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// loadClaim returns the stored claim, or an empty one if there is none.
func (h *ownership) loadClaim(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, store.AskPatience)
	defer cancel()
	set := h.queue.set
	m, err := set.JS.Last(ctx, set.Names.Stream(record.StreamState), h.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{Time: time.Now()}, nil
	}
	return m, err
}

// storeClaim replaces the claim if it has not changed, and extends the ownership from the
// time before the request.
func (h *ownership) storeClaim(ctx context.Context, by string) error {
	began := time.Now()
	m := nats.NewMsg(h.subject())
	m.Data = []byte(by)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(h.claimSeq, 10))
	set := h.queue.set
	ctx, stop, err := set.While(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	claim, err := set.Try(ctx, set.JS, m)
	if err != nil {
		return err
	}
	h.claimSeq = claim
	until := began.Add(claimTTL - claimMargin)
	h.expires.Store(&until)
	if left := time.Until(until); h.expiry == nil {
		h.expiry = time.AfterFunc(left, func() { h.cancel(errClaimExpired) })
	} else {
		h.expiry.Reset(left)
	}
	return nil
}

// renew renews the claim until the ownership ends.
func (h *ownership) renew() {
	defer close(h.renewing)
	for wait := claimRenewal; pause.For(h.ctx, wait) == nil; {
		began := time.Now()
		err := h.replaceClaim(h.ctx, h.queue.claimant)
		if errors.Is(err, errTakenOver) {
			h.cancel(errTakenOver)
			break
		}
		if wait = claimRenewal - time.Since(began); err != nil {
			wait = claimRetry
		}
	}
	h.expiry.Stop()
	if set := h.queue.set; set.Ctx.Err() == nil && !errors.Is(context.Cause(h.ctx), journal.ErrClosed) {
		set.Log.Warn("this collector may no longer deliver in order; its calls in flight are canceled", "destination", h.queue.name, "error", context.Cause(h.ctx))
	}
}

// replaceClaim is like storeClaim, but also succeeds after an unanswered try has stored the
// claim. It returns errTakenOver if another process has claimed the destination.
func (h *ownership) replaceClaim(ctx context.Context, by string) error {
	err := h.storeClaim(ctx, by)
	if !store.IsWrongSequence(err) {
		return err
	}
	m, err := h.loadClaim(ctx)
	if err != nil {
		return err
	}
	if string(m.Data) != h.queue.claimant {
		return errTakenOver
	}
	h.claimSeq = m.Sequence
	return h.storeClaim(ctx, by)
}

// begin fences off previous owners, waits until the account has read the fence, and switches
// the queue to this ownership.
func (h *ownership) begin(ctx context.Context) error {
	q := h.queue
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	subject := q.set.Names.Subject("o", record.Token(q.name))
	h.results = newResults(q.set.Store, q.set.account, &q.set.written, subject)
	h.results.owned, h.results.loseOwnership = h.ctx, h.cancel
	if err := h.results.fence(ctx); err != nil {
		return err
	}
	if err := q.set.account.ReachedBoth(ctx, 0, h.results.last); err != nil {
		return err
	}
	if !q.set.Work.Go(h.results.run) {
		return journal.ErrClosed
	}
	q.switchTo(h)
	q.set.Work.Go(h.settlePredecessors)
	return nil
}

// settlePredecessors settles the outcomes of previous owners, which may have died before
// they did. Without an order, redelivered messages trigger that. The owner's new consumer
// delivers each message for the first time or not at all.
func (h *ownership) settlePredecessors() {
	set := h.queue.set
	for {
		err := set.settler.SettleSince(set.Ctx, h.queue.name, h.previous)
		if err == nil || set.Ctx.Err() != nil {
			return
		}
		set.Log.Warn("settling the outcomes of another collector failed; retrying", "destination", h.queue.name, "error", err)
		if pause.For(set.Ctx, time.Second) != nil {
			return
		}
	}
}

// release ends the ownership. Its leases must have ended.
func (h *ownership) release() {
	h.cancel(journal.ErrClosed)
	<-h.renewing
	if h.results != nil {
		h.results.stop(errTakenOver)
	}
	q := h.queue
	q.switchTo(nil)
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.AskPatience)
	defer cancel()
	if err := h.replaceClaim(ctx, ""); err != nil && !errors.Is(err, errTakenOver) && ctx.Err() == nil {
		q.set.Log.Debug("others are not read that they may deliver in order; they find out", "destination", q.name, "error", err)
	}
	h.expiry.Stop()
}

// switchTo restarts the queue with the messages of an ownership or, if h is nil, with the
// messages that all processes share.
func (q *Queue) switchTo(h *ownership) {
	q.mu.Lock()
	q.ownership = h
	naks := q.removeIdle(func(*item) bool { return true })
	clear(q.items)
	clear(q.parked)
	clear(q.messages)
	q.ready = newReady()
	q.set.account.With(q.name, func(b *ledger.Account) { q.received, q.newest = b.Floor, b.Floor })
	q.newPhase()
	q.wake()
	q.mu.Unlock()
	for _, m := range naks {
		_ = m.Nak()
	}
}
