package users

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// findLost looks for notifications that are pending nowhere, though nobody knows
// how they ended, and sends them again.
func (w *deletionWork) findLost(ctx context.Context) error {
	ledgers, err := w.service.config.Journal.Ledger(ctx)
	if err != nil {
		return err
	}
	targets, _, err := w.count(ctx, w.key, w.record)
	if err != nil {
		return err
	}
	lost := false
	for t, target := range targets {
		l := slices.IndexFunc(ledgers, func(l tracking.Ledger) bool { return l.Destination == target.Destination })
		switch {
		case target.Pending == 0:
		case l < 0:
			removed := tracking.Outcome{State: tracking.StateFailed, Reason: "the destination was removed"}
			err = w.conclude(ctx, t, func(int) (deletionEnd, bool) {
				return deletionEnd{Outcome: removed, At: time.Now().UTC()}, true
			})
		case ledgers[l].OldestPending.IsZero() || ledgers[l].OldestPending.After(w.record.SentAt):
			lost = true
			if w.suspectedFor(lostAfter) {
				err = w.recover(ctx, t)
			}
		}
		if err != nil {
			return err
		}
	}
	if !lost {
		w.suspect(false)
	}
	return nil
}

// suspectedFor reports whether outcomes have looked lost for so long; if not, it
// notes that they do.
func (w *deletionWork) suspectedFor(d time.Duration) bool {
	since := w.suspect(true)
	return time.Since(since) >= d
}

// suspect notes since when outcomes look lost, or that they do not.
func (w *deletionWork) suspect(lost bool) (since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !lost {
		delete(w.suspects, w.key)
		return time.Time{}
	}
	if w.suspects[w.key].IsZero() {
		w.suspects[w.key] = time.Now()
	}
	return w.suspects[w.key]
}

// recover finds out of the notifications of a target which have failed, and has
// the others, whose outcome nobody knows, delivered again.
func (w *deletionWork) recover(ctx context.Context, target int) error {
	t := w.record.Targets[target]
	failed := map[string]journal.FailedCall{}
	err := w.service.config.Journal.Failed(ctx, t.Destination, func(f journal.FailedCall) bool {
		if f.Call.Source == t.Source && strings.HasPrefix(f.Call.ID, deletionIDPrefix+w.key) {
			failed[f.Call.ID] = f
		}
		return true
	})
	if err != nil {
		return err
	}
	again := w.record.Resent < maxResent*len(w.record.Targets)
	unknown := deletionEnd{Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: fmt.Sprintf("it was sent again %d times, and its outcome was lost each time", maxResent)}}
	err = w.conclude(ctx, target, func(user int) (deletionEnd, bool) {
		if f, known := failed[w.record.messageID(w.key, t.Source, user)]; known {
			return deletionEnd{tracking.Outcome{State: tracking.StateFailed, Reason: f.Reason}, f.Attempts, f.FailedAt}, true
		}
		return unknown, !again
	})
	if err != nil || !again {
		return err
	}
	return w.resend(ctx, target)
}

// resend has the notifications of a target delivered again whose outcome is not
// known.
func (w *deletionWork) resend(ctx context.Context, target int) error {
	t := w.record.Targets[target]
	e, err := newEmitter("delete", t.Source, w.record.RequestedAt, w.record.destinations(t.Source), nil)
	if err != nil {
		return err
	}
	now := time.Now()
	for u, err := range w.users(ctx, 0) {
		if err != nil {
			return err
		}
		if u.chunk.Ends[target][u.place].State == tracking.StatePending {
			e.add(w.record.messageID(w.key, t.Source, u.number), u.id, nil)
		}
	}
	calls := e.batch(now).Calls
	w.service.config.Logger.Warn("outcomes of a deletion request were lost; its notifications are sent again",
		"id", w.record.ID, "destination", t.Destination, "calls", len(calls))
	for some := range slices.Chunk(calls, w.service.config.BatchCalls) {
		if err := w.service.config.Journal.Replay(ctx, t.Destination, some, tracking.StateDelivered); err != nil {
			return err
		}
	}
	w.suspect(false)
	return w.tell(ctx, func(r *deletionRecord) { r.Resent, r.SentAt = r.Resent+1, now.UTC() })
}

// conclude notes how notifications of a target have ended that are pending, as
// far as end knows.
func (w *deletionWork) conclude(ctx context.Context, target int, end func(user int) (deletionEnd, bool)) error {
	for n := range w.record.chunks() {
		_, err := w.updateChunk(ctx, w.key, w.record, n, func(k *deletionChunk) {
			for i := range k.Ends[target] {
				if k.Ends[target][i].State != tracking.StatePending {
					continue
				}
				if e, known := end(n*w.record.Chunk + i); known {
					k.Ends[target][i] = e
				}
			}
		})
		if err != nil {
			return err
		}
	}
	_, err := w.complete(ctx, w.key)
	return err
}
