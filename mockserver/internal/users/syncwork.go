package users

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// syncAhead is the maximum number of batches of calls that may be pending at the
	// destination. It bounds the delay of other calls and the size of the journal.
	syncAhead = 40
	// syncPoll is the polling interval of a sync that waits for pending calls. storePause is the
	// delay after the journal failed to store a batch.
	syncPoll   = 100 * time.Millisecond
	storePause = time.Second
)

// computationsWaiting returns the keys of the computations with queued syncs.
func (u *Service) computationsWaiting(ctx context.Context) ([]string, error) {
	var keys []string
	err := state.Each(ctx, u.state, computationPrefix, func(id string, r computationRecord) error {
		if len(r.Queue) > 0 {
			keys = append(keys, computationKey(id))
		}
		return nil
	})
	return keys, err
}

// workOnSync works on the first sync in a computation's queue.
func (u *Service) workOnSync(ctx context.Context, id string) error {
	w, err := u.claimSync(ctx, id)
	if err != nil {
		return err
	}
	defer w.release()
	list := w.list()
	if w.sync().Deletion != "" {
		list, err = w.erase(ctx)
	} else {
		err = w.sendChanges(ctx)
	}
	switch {
	case errors.Is(err, roster.ErrCorrupt):
		return w.repair(ctx, err) // the next step retries
	case err != nil:
		return err
	}
	return w.finish(ctx, list)
}

// A syncWork is the work on the first sync in the queue of a computation.
type syncWork struct {
	lease[computationRecord, *computationRecord]
	maybeStored int64 // calls with lower numbers may be stored although the record does not count them
	emitter     *emitter
	trait       []byte // beginning of the traits: {"key":
	room        int64  // number of calls to create before the next check of the ledger
}

// claimSync acquires the lease of a computation and starts its first sync.
func (u *Service) claimSync(ctx context.Context, id string) (*syncWork, error) {
	w := &syncWork{}
	w.Service, w.key = u, computationKey(id)
	resumed := false
	err := w.begin(ctx, func(r *computationRecord) error {
		if len(r.Queue) == 0 {
			return errNoWork
		}
		s := r.next()
		resumed = s.State == SyncRunning
		if !resumed {
			s.State, s.StartedAt = SyncRunning, time.Now().UTC()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if resumed {
		w.maybeStored = w.sync().Sent + 2*int64(u.config.BatchCalls)
	}
	if w.sync().LostUsers > 0 { // the sync was repaired, which reset Sent
		w.maybeStored = math.MaxInt64
	}
	w.trait = append(fields.AppendString([]byte{'{'}, w.record.Key), ':')
	w.emitter, err = newEmitter("identify", w.record.Source, w.sync().Timestamp, []string{w.record.Destination}, w.record.context(w.sync().Number))
	return w, err
}

func (w *syncWork) sync() *Sync      { return w.record.next() }
func (w *syncWork) list() storedList { return w.record.Queue[0] }

// finish makes a list the current list.
func (w *syncWork) finish(ctx context.Context, list storedList) error {
	before, given := w.record.Current, w.list()
	if err := w.note(ctx, func(r *computationRecord) { r.finish(list) }); err != nil {
		return err
	}
	w.deleteLists(w.record.ID, before)
	if given != list {
		w.deleteLists(w.record.ID, given)
	}
	return nil
}

// erase stores a copy of the current list without the users of the sync's list.
func (w *syncWork) erase(ctx context.Context) (storedList, error) {
	current, gone := w.readStored(ctx, w.record.ID, w.record.Current), w.readStored(ctx, w.record.ID, w.list())
	return w.upload(ctx, w.record.ID, roster.Without(current, gone))
}

// diff yields the changes between the current list and the list of the sync.
func (w *syncWork) diff(ctx context.Context) iter.Seq2[roster.Change, error] {
	older := w.readStored(ctx, w.record.ID, w.record.Current)
	newer := w.readStored(ctx, w.record.ID, w.list())
	return roster.Diff(older, newer, w.sync().Full)
}

// count stores the number of calls to create. It reads the complete lists, so it finds lost
// segments before any call is created.
func (w *syncWork) count(ctx context.Context) error {
	entered, left, err := roster.CountChanges(w.diff(ctx))
	if err != nil {
		return fmt.Errorf("mockserver: sync %s: %w", w.sync().ID, err)
	}
	return w.note(ctx, func(r *computationRecord) {
		r.next().Entered, r.next().Left = entered, left
	})
}

// sendChanges creates the remaining calls.
func (w *syncWork) sendChanges(ctx context.Context) error {
	if err := w.count(ctx); err != nil {
		return err
	}
	made := w.sync().Sent
	for change, err := range w.diff(ctx) {
		if err != nil {
			return fmt.Errorf("mockserver: sync %s: %w", w.sync().ID, err)
		}
		if made > 0 {
			made--
			continue
		}
		w.emitter.add(w.messageID(change.User), change.User, w.traits(change))
		if w.emitter.full(w.config.BatchCalls) {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

// messageID returns the messageId of the call for a user. It is deterministic.
func (w *syncWork) messageID(user string) string { return w.record.messageID(w.sync().ID, user) }

func (w *syncWork) traits(c roster.Change) []byte {
	return append(append(slices.Clone(w.trait), w.record.Kind.value(c.Value, !c.Removed)...), '}')
}

// value returns the JSON value of the trait for a user. listed reports whether the user is in the
// list.
func (k ComputationKind) value(value []byte, listed bool) []byte {
	switch {
	case k == KindAudience:
		return strconv.AppendBool(nil, listed)
	case !listed:
		return []byte("null")
	}
	return value
}

// flush waits until the destination may get more calls, and stores the collected calls in the
// journal.
func (w *syncWork) flush(ctx context.Context) error {
	n := int64(len(w.emitter.calls))
	if n == 0 {
		return nil
	}
	for perhapsStored := w.sync().Sent < w.maybeStored; ; {
		wait := syncPoll
		obstacle, err := w.obstacle(ctx)
		if err != nil {
			return err
		}
		if obstacle == "" {
			err := w.emit(ctx, w.emitter, perhapsStored)
			if err == nil {
				break
			}
			obstacle, wait, perhapsStored = "the calls cannot be stored: "+err.Error(), storePause, true
		}
		if err := w.wait(ctx, obstacle, wait); err != nil {
			return err
		}
	}
	w.room -= n
	w.emitter.reset()
	return w.note(ctx, func(r *computationRecord) {
		r.next().Sent, r.next().Waiting = r.next().Sent+n, ""
	})
}

// wait waits for a duration. It stores the reason in the record.
func (w *syncWork) wait(ctx context.Context, why string, d time.Duration) error {
	if why != w.sync().Waiting || time.Since(w.stored) >= leaseRenewal {
		if err := w.note(ctx, func(r *computationRecord) { r.next().Waiting = why }); err != nil {
			return err
		}
	}
	return pause.For(ctx, d)
}

// obstacle returns the reason why the sync has to wait, or "".
func (w *syncWork) obstacle(ctx context.Context) (string, error) {
	if _, err := oneDestination(w.config.Settings(), w.record.Source, w.record.Destination); err != nil {
		return strings.TrimPrefix(err.Error(), "mockserver: "), nil
	}
	if w.room > 0 {
		return "", nil
	}
	ledgers, err := w.config.Journal.Ledger(ctx)
	if err != nil {
		return "", err
	}
	w.room = (syncAhead - 1) * int64(w.config.BatchCalls) // reserves room for one more batch
	mayPend := w.room
	if l := journal.LedgerOf(ledgers, w.record.Destination); l != nil {
		w.room -= l.Pending
	}
	if w.room <= 0 {
		return fmt.Sprintf("destination %q has more than %s pending", w.record.Destination, text.Plural(mayPend, "call", "calls")), nil
	}
	return "", nil
}

// eraseUsers removes the users of a deletion request from all lists of the sources, after the
// queued syncs. It may be called again for the same request. An error of one computation does not
// stop the others.
func (u *Service) eraseUsers(ctx context.Context, sources []string, request string, users roster.Seq) error {
	var failed []error
	err := state.Each(ctx, u.state, computationPrefix, func(_ string, r computationRecord) error {
		if slices.Contains(sources, r.Source) && !r.hasErased(request) {
			if err := u.eraseFrom(ctx, r, request, users); err != nil {
				failed = append(failed, fmt.Errorf("%s %q: %w", r.Kind, r.Name, err))
			}
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

// eraseFrom queues a sync that removes users from the lists of a computation, if necessary.
func (u *Service) eraseFrom(ctx context.Context, r computationRecord, request string, users roster.Seq) error {
	// The lists are sorted by the stored IDs.
	sorted, err := roster.Sort(u.stored(r.Source, users), u.config.TempDir)
	if err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	defer sorted.Close()
	users = sorted.All()
	if holds, err := u.holdsAny(ctx, r, users); err != nil || !holds {
		return err
	}
	list, err := u.upload(ctx, r.ID, users)
	if err != nil {
		return err
	}
	_, err = u.enqueue(ctx, r, list, Sync{Deletion: request})
	if errors.Is(err, state.ErrNotFound) {
		return nil // the computation was deleted in the meantime
	}
	return err
}

// holdsAny reports whether any of the users is in the current list or in a queued list. If a
// segment is lost, it returns true.
func (u *Service) holdsAny(ctx context.Context, r computationRecord, users roster.Seq) (bool, error) {
	for _, list := range r.announced() {
		rest, err := roster.Count(roster.Without(u.salvageStored(ctx, r.ID, list, roster.Empty), users))
		if err != nil {
			return false, fmt.Errorf("mockserver: %w", err)
		}
		if rest < list.Users {
			return true, nil
		}
	}
	return false, nil
}
