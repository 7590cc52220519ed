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

// On a cluster one process at a time hands out the entries of a destination in order: the
// one that holds it. Three things see to that, since any process may stand still for a
// while and go on as if nothing had been:
//
//   - The holder stores a claim in STATE again and again. It ends its work holdMargin
//     before others may take over, which find the same claim for holdFor, each by its own
//     clock.
//   - What it stores of outcomes has a subject of its own, and is refused where somebody
//     else has stored there since. The next holder does so before it begins: from then on
//     nothing of an earlier one counts, and once the account has read that far it says
//     what is left to be done.
//   - It reads CALLS by a consumer of its own, from where the account begins. One message
//     that is missing, and it has another: nothing may come behind what comes after it.

const (
	// holdFor is how long a claim stands, and holdEvery how often it is renewed.
	holdFor   = 15 * time.Second
	holdEvery = 4 * time.Second
	// holdMargin is how long before that the holder ends: clocks may go at different
	// speeds, and a request that is broken off may still be on its way.
	holdMargin = 3 * time.Second
	// holdPause is how soon is tried again what has failed: to look at a claim, or to store
	// one.
	holdPause = time.Second
)

var errNotRenewed = errors.New("journal: the cluster did not take that this collector delivers to the destination in order")

// Hold implements journal.Reader.
func (r *reader) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	q := r.queue
	if !q.set.Shared {
		return context.Background(), func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	h := &hold{queue: q, name: strconv.FormatUint(store.RandomNumber(), 16), renewing: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(q.set.Ctx)
	if err := h.take(ctx); err != nil {
		h.cancel(err)
		return nil, nil, err
	}
	if !q.set.Work.Go(h.keep) {
		return nil, nil, journal.ErrClosed
	}
	if err := h.begin(ctx); err != nil {
		h.release()
		return nil, nil, fmt.Errorf("journal: the order of the calls for %q: %w", q.name, err)
	}
	q.set.Log.Info("the calls of a destination are delivered in order by this collector", "destination", q.name)
	return heldContext{h.ctx, h}, h.release, nil
}

// A heldContext is that of a hold, which it ends where its time is over and no timer has
// said so yet.
type heldContext struct {
	context.Context
	hold *hold
}

// Err implements context.Context.
func (c heldContext) Err() error {
	if until := c.hold.until.Load(); until != nil && isOver(time.Now(), *until) {
		c.hold.cancel(errNotRenewed)
	}
	return c.Context.Err()
}

// isOver reports whether a time has come by either clock: that which cannot be set stands
// still while a machine is suspended.
func isOver(now, until time.Time) bool {
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

func (h *hold) subject() string {
	return h.queue.set.Names.Subject("s", "order", record.Token(h.queue.name))
}

// take waits until nobody holds the destination, and claims it.
func (h *hold) take(ctx context.Context) error {
	changed, stop := h.queue.set.claims.wait(h.queue.set, h.subject())
	defer stop()
	var seen uint64
	var since time.Time
	m, err := h.claimed(ctx)
	for {
		if err == nil {
			if m.Sequence != seen {
				seen, since = m.Sequence, time.Now()
			}
			if by := string(m.Data); by == "" || by == h.queue.claimant || time.Since(since) >= holdFor {
				h.claim = m.Sequence
				if err = h.store(ctx, h.queue.claimant); err == nil {
					h.earlier = m.Time
					return nil
				}
			}
		}
		if err != nil && ctx.Err() == nil && !store.IsWrongSequence(err) {
			h.queue.set.Log.Debug("whether another collector delivers in order is not known; it is looked again", "destination", h.queue.name, "error", err)
		}
		wait := time.Until(since.Add(holdFor))
		if err != nil {
			wait = holdPause
		}
		timer := time.NewTimer(wait)
		select {
		case m = <-changed:
			err = nil
		case <-timer.C:
			m, err = h.claimed(ctx)
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

// claimed returns the claim as it is stored; one that is nobody's where there is none.
func (h *hold) claimed(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, store.AskPatience)
	defer cancel()
	set := h.queue.set
	m, err := set.JS.Last(ctx, set.Names.Stream(record.StreamState), h.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{Time: time.Now()}, nil
	}
	return m, err
}

// store replaces the claim, if it is still the one that it was, and has the hold last
// from before that.
func (h *hold) store(ctx context.Context, by string) error {
	began := time.Now()
	m := nats.NewMsg(h.subject())
	m.Data = []byte(by)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(h.claim, 10))
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
	h.claim = claim
	until := began.Add(holdFor - holdMargin)
	h.until.Store(&until)
	if left := time.Until(until); h.ending == nil {
		h.ending = time.AfterFunc(left, func() { h.cancel(errNotRenewed) })
	} else {
		h.ending.Reset(left)
	}
	return nil
}

// keep renews the claim until the hold ends.
func (h *hold) keep() {
	defer close(h.renewing)
	for wait := holdEvery; pause.For(h.ctx, wait) == nil; {
		began := time.Now()
		err := h.replace(h.ctx, h.queue.claimant)
		if errors.Is(err, errTakenOver) {
			h.cancel(errTakenOver)
			break
		}
		if wait = holdEvery - time.Since(began); err != nil {
			wait = holdPause
		}
	}
	h.ending.Stop()
	if set := h.queue.set; set.Ctx.Err() == nil && !errors.Is(context.Cause(h.ctx), journal.ErrClosed) {
		set.Log.Warn("this collector may no longer deliver in order; it breaks off what is under way", "destination", h.queue.name, "error", context.Cause(h.ctx))
	}
}

// replace is store, also where a try that was not answered has stored the claim. The error is
// errTakenOver if another process has.
func (h *hold) replace(ctx context.Context, by string) error {
	err := h.store(ctx, by)
	if !store.IsWrongSequence(err) {
		return err
	}
	m, err := h.claimed(ctx)
	if err != nil {
		return err
	}
	if string(m.Data) != h.queue.claimant {
		return errTakenOver
	}
	h.claim = m.Sequence
	return h.store(ctx, by)
}

// begin stores the mark from which on nothing counts that an earlier holder stores, waits
// until the account has read it, and has the queue begin where the account says.
func (h *hold) begin(ctx context.Context) error {
	q := h.queue
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	subject := q.set.Names.Subject("o", record.Token(q.name))
	h.results = newResults(q.set.Store, q.set.account, &q.set.written, subject)
	h.results.held, h.results.lose = h.ctx, h.cancel
	if err := h.results.fence(ctx); err != nil {
		return err
	}
	if err := q.set.account.ReachedBoth(ctx, 0, h.results.last); err != nil {
		return err
	}
	if !q.set.Work.Go(h.results.run) {
		return journal.ErrClosed
	}
	q.turnTo(h)
	q.set.Work.Go(h.settle)
	return nil
}

// settle does what follows from what an earlier holder has stored, which may have died
// before it did. Where calls are in no order their messages come again; those that the
// consumer of a hold hands out come for the first time, or not at all.
func (h *hold) settle() {
	set := h.queue.set
	for {
		err := set.settler.SettleSince(set.Ctx, h.queue.name, h.earlier)
		if err == nil || set.Ctx.Err() != nil {
			return
		}
		set.Log.Warn("what follows from the outcomes of another collector could not be done; it is tried again", "destination", h.queue.name, "error", err)
		if pause.For(set.Ctx, time.Second) != nil {
			return
		}
	}
}

// release ends the hold. Nobody works any longer at what was leased in it.
func (h *hold) release() {
	h.cancel(journal.ErrClosed)
	<-h.renewing
	if h.results != nil {
		h.results.stop(errTakenOver)
	}
	q := h.queue
	q.turnTo(nil)
	ctx, cancel := context.WithTimeout(q.set.Ctx, store.AskPatience)
	defer cancel()
	if err := h.replace(ctx, ""); err != nil && !errors.Is(err, errTakenOver) && ctx.Err() == nil {
		q.set.Log.Debug("others are not told that they may deliver in order; they find out", "destination", q.name, "error", err)
	}
	h.ending.Stop()
}

// turnTo has the queue begin anew: with what a hold hands out, or, without one, with what
// all processes share.
func (q *Queue) turnTo(h *hold) {
	q.mu.Lock()
	q.hold = h
	give := q.giveBack(func(*item) bool { return true })
	clear(q.items)
	clear(q.parked)
	clear(q.messages)
	q.ready = newReady()
	q.set.account.With(q.name, func(b *ledger.Account) { q.last, q.came = b.Floor, b.Floor })
	q.newPhase()
	q.wake()
	q.mu.Unlock()
	for _, m := range give {
		_ = m.Nak()
	}
}
