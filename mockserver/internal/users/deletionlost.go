package users

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// lostAfter is how long notifications must be neither pending nor observed before their
	// outcomes count as lost. This happens if the process that observed them was killed. The
	// notifications are then sent again, although most were probably delivered.
	lostAfter = time.Minute
	// maxResent limits resends to this many per target, counted over all targets of a request.
	maxResent = 3
)

// findLost finds notifications that are neither pending nor have an outcome, and sends them
// again.
func (w *deletionWork) findLost(ctx context.Context, targets []DeletionTarget) error {
	lost, err := w.lostTargets(ctx, targets)
	if err != nil {
		return err
	}
	since, now := w.record.LostSince, time.Now().UTC()
	switch {
	case len(lost) == 0 && since.IsZero():
		return nil
	case len(lost) == 0:
		return w.note(ctx, func(r *deletionRecord) { r.LostSince = time.Time{} })
	case since.IsZero():
		return w.note(ctx, func(r *deletionRecord) { r.LostSince = now })
	case now.Sub(since) < lostAfter:
		return nil
	}
	for _, target := range lost {
		if err := w.recover(ctx, target); err != nil {
			return err
		}
	}
	return w.note(ctx, func(r *deletionRecord) {
		r.Resent, r.SentAt, r.LostSince = r.Resent+len(lost), now, time.Time{}
	})
}

// lostTargets returns the targets with lost outcomes. It records notifications to removed
// destinations as failed.
func (w *deletionWork) lostTargets(ctx context.Context, targets []DeletionTarget) (lost []int, err error) {
	ledgers, err := w.config.Journal.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	for t, target := range targets {
		l := journal.LedgerOf(ledgers, target.Destination)
		switch {
		case target.Pending == 0:
		case l == nil:
			removed := tracking.Outcome{State: tracking.StateFailed, Reason: "the destination was removed"}
			_, err = w.conclude(ctx, t, func(int) (deletionEnd, bool) {
				return deletionEnd{Outcome: removed, At: time.Now().UTC()}, true
			})
			if err != nil {
				return nil, err
			}
		case l.OldestPending.IsZero() || l.OldestPending.After(w.record.SentAt):
			lost = append(lost, t)
		}
	}
	return lost, nil
}

// recover stores the outcomes of a target's failed and filtered notifications, and sends
// notifications with an unknown outcome again.
func (w *deletionWork) recover(ctx context.Context, target int) error {
	t := w.record.Targets[target]
	failed := map[string]journal.FailedCall{}
	err := w.config.Journal.Failed(ctx, t.Destination, func(f journal.FailedCall) bool {
		if f.Call.Source == t.Source && strings.HasPrefix(f.Call.ID, w.record.messageIDs(w.id)) {
			failed[f.Call.ID] = f
		}
		return true
	})
	if err != nil {
		return err
	}
	again := w.record.Resent < maxResent*len(w.record.Targets)
	unknown := deletionEnd{
		Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: "its outcome was lost repeatedly; it will not be sent again"},
		At:      time.Now().UTC(),
	}
	e, err := w.emitter(t.Source)
	if err != nil {
		return err
	}
	e.add("", "", nil)
	if d := w.config.Settings().Destination(t.Destination); d != nil {
		// The destination filters all notifications of a target, or none.
		if deliver, reason := routing.Route(d, &e.batch(time.Now()).Calls[0]); !deliver {
			again, unknown.Outcome = false, tracking.Outcome{State: tracking.StateFiltered, Reason: reason}
		}
	}
	open, err := w.conclude(ctx, target, func(user int) (deletionEnd, bool) {
		if f, known := failed[w.record.messageID(w.id, t.Source, user)]; known {
			return deletionEnd{tracking.Outcome{State: tracking.StateFailed, Reason: f.Reason}, f.Attempts, f.FailedAt}, true
		}
		return unknown, !again
	})
	if err != nil || len(open) == 0 {
		return err
	}
	return w.resend(ctx, t, open)
}

// resend sends notifications of a target again.
func (w *deletionWork) resend(ctx context.Context, t DeletionTarget, users []deletionUser) error {
	e, err := w.emitter(t.Source)
	if err != nil {
		return err
	}
	for _, user := range users {
		e.add(w.record.messageID(w.id, t.Source, user.number), w.config.StoredID(t.Source)(user.id), nil)
	}
	calls := e.batch(time.Now()).Calls
	w.config.Logger.Warn("the outcomes of a deletion request were lost; sending its notifications again",
		"id", w.record.ID, "destination", t.Destination, "calls", len(calls))
	for some := range slices.Chunk(calls, w.config.BatchCalls) {
		if err := w.config.Journal.Replay(ctx, t.Destination, some, nil, tracking.StateDelivered); err != nil {
			return err
		}
	}
	return nil
}

// conclude calls end for each pending notification of a target, and stores the results that end
// knows. It returns the users with notifications that are still pending.
func (w *deletionWork) conclude(ctx context.Context, target int, end func(user int) (deletionEnd, bool)) (open []deletionUser, err error) {
	for n := range w.record.chunks() {
		first := n * w.record.Chunk
		chunk, err := w.updateChunk(ctx, w.id, w.record, n, func(k *deletionChunk) {
			for i := range k.Ends[target] {
				if k.Ends[target][i].State != tracking.StatePending {
					continue
				}
				if e, known := end(first + i); known {
					k.Ends[target][i] = e
				}
			}
		})
		if errors.Is(err, state.ErrNotFound) {
			continue // the chunk is lost
		}
		if err != nil {
			return nil, err
		}
		for i, user := range chunk.Users {
			if chunk.Ends[target][i].State == tracking.StatePending {
				open = append(open, deletionUser{user, first + i})
			}
		}
	}
	_, _, err = w.complete(ctx, w.id)
	return open, err
}
