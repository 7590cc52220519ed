package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// syncAhead is how many batches' calls may be pending at the destination before
	// a sync makes more. Its other calls wait no longer than these take, and a sync
	// of any length needs no more room in the journal.
	syncAhead = 40
	// syncPoll is how often a sync that waits looks whether it may go on.
	syncPoll = 100 * time.Millisecond
	// A sync's record is told after syncProgress batches, or syncProgressTime, how
	// far it is. What was sent since is sent again after a crash, with the same
	// messageIds.
	syncProgress     = 4
	syncProgressTime = time.Second
)

// waiting returns the computations that have syncs in their queue.
func (s *syncs) waiting(ctx context.Context) ([]string, error) {
	all, err := s.ids(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, id := range all {
		r, err := s.load(ctx, id)
		switch {
		case errors.Is(err, state.ErrNotFound): // forgotten meanwhile
		case err != nil:
			return ids, err
		case len(r.Queue) > 0:
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// step works on the first sync in a computation's queue.
func (s *syncs) step(ctx context.Context, id string) error {
	w, err := s.claim(ctx, id)
	if err != nil {
		return err
	}
	defer w.release()
	if w.sync.Deletion != "" {
		err = w.strike(ctx)
	} else {
		err = w.tellAll(ctx)
	}
	if err == nil {
		err = w.finish(ctx)
	}
	if err != nil {
		return err
	}
	s.remember(w.sync.ID, 0)
	old := time.Now().Add(-uploadAge)
	if err := s.sweep(ctx, id, func(u upload) bool { return u.At.Before(old) }); !errors.Is(err, state.ErrNotFound) {
		return err
	}
	return errNoWork // forgotten
}

// A syncWork is the work on one sync.
type syncWork struct {
	*syncs
	record  computationRecord // when it was claimed; what a sync does not change
	sync    queuedSync
	doubt   int64 // how many of its calls may be stored already, by a process that was killed
	emitter *emitter
	trait   []byte     // {"key":
	result  storedList // what will be the current list

	sent int64     // calls in the journal
	told time.Time // when the record was last told of it
	room int64     // calls that may be made before the ledger is asked again
}

// claim takes the lease of a computation and begins with its first sync.
func (s *syncs) claim(ctx context.Context, id string) (*syncWork, error) {
	w := &syncWork{syncs: s}
	resumed := false
	now := time.Now()
	record, err := s.update(ctx, id, func(r *computationRecord) error {
		if r.ID == "" || len(r.Queue) == 0 {
			return errNoWork
		}
		q := &r.Queue[0]
		resumed = q.State == SyncRunning
		q.State = SyncRunning
		if q.StartedAt.IsZero() {
			q.StartedAt = now.UTC()
		}
		return r.Lease.take(s.service.config.Instance, now)
	})
	if err != nil {
		return nil, err
	}
	w.record, w.sync, w.told = record, record.Queue[0], now
	w.result = w.sync.List
	w.sync.Sent = max(w.sync.Sent, s.remembered(w.sync.ID))
	w.sent = w.sync.Sent
	if resumed {
		w.doubt = w.sent + (syncProgress+2)*w.batchCalls()
	}
	w.trait = append(fields.AppendString([]byte{'{'}, record.Key), ':')
	w.emitter, err = newEmitter("identify", record.Source, w.sync.Timestamp, []string{record.Destination}, record.context(w.sync.Number))
	return w, err
}

// release lets another process go on where this one is interrupted.
func (w *syncWork) release() {
	if w.work.ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.tellRecord(ctx, func(r *computationRecord) { r.Lease.drop(w.service.config.Instance) }) // else it runs out
}

// tellRecord changes the record, if the sync is still this process's to work on.
func (w *syncWork) tellRecord(ctx context.Context, change func(*computationRecord)) error {
	now := time.Now()
	_, err := w.update(ctx, w.record.ID, func(r *computationRecord) error {
		if len(r.Queue) == 0 || r.Queue[0].ID != w.sync.ID || r.Secret != w.record.Secret {
			return errNoWork // forgotten
		}
		if r.Lease.Instance != w.service.config.Instance {
			return errElsewhere
		}
		if err := r.Lease.take(w.service.config.Instance, now); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		w.told = now
	}
	return err
}

// tellAll makes the calls of all that differs.
func (w *syncWork) tellAll(ctx context.Context) error {
	if !w.sync.Counted {
		if err := w.count(ctx); err != nil {
			return err
		}
	}
	return w.send(ctx)
}

// diff yields what the sync has to tell.
func (w *syncWork) diff(ctx context.Context) func(func(roster.Change, error) bool) {
	older := w.read(ctx, w.record.ID, w.record.Current)
	newer := w.read(ctx, w.record.ID, w.sync.List)
	return roster.Diff(older, newer, w.sync.Full)
}

func (w *syncWork) count(ctx context.Context) error {
	w.sync.Entered, w.sync.Left = 0, 0
	for change, err := range w.diff(ctx) {
		if err != nil {
			return fmt.Errorf("mockserver: sync %s: %w", w.sync.ID, err)
		}
		w.sync.count(change)
	}
	w.sync.Counted = true
	return w.tellRecord(ctx, func(r *computationRecord) {
		q := &r.Queue[0]
		q.Entered, q.Left, q.Counted = w.sync.Entered, w.sync.Left, true
	})
}

// send makes the calls that were not made before.
func (w *syncWork) send(ctx context.Context) error {
	skip := w.sync.Sent
	for change, err := range w.diff(ctx) {
		if err != nil {
			return fmt.Errorf("mockserver: sync %s: %w", w.sync.ID, err)
		}
		if skip > 0 {
			skip--
			continue
		}
		w.emitter.add(w.messageID(change.User), change.User, w.traits(change))
		if w.emitter.full(int(w.batchCalls())) {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

// batchCalls is how many calls a batch has, at most.
func (w *syncWork) batchCalls() int64 { return int64(w.service.config.BatchCalls) }

// flush brings the calls that were gathered to the journal, once there is room.
func (w *syncWork) flush(ctx context.Context) error {
	n := int64(len(w.emitter.calls))
	if n == 0 {
		return nil
	}
	for again := false; ; again = true {
		if err := w.hold(ctx); err != nil {
			return err
		}
		err := w.service.emit(ctx, w.emitter.batch(time.Now()), again || w.sent < w.doubt)
		if err == nil {
			break
		}
		if err := w.wait(ctx, "the calls cannot be stored: "+err.Error(), emitPause); err != nil {
			return err
		}
	}
	w.emitter.clear()
	w.sent += n
	w.room -= n
	w.remember(w.sync.ID, w.sent)
	return w.progress(ctx)
}

// messageID is the same each time that this sync tells of this user.
func (w *syncWork) messageID(user string) string {
	return fmt.Sprintf("%s-%s-%s", w.record.Kind, w.sync.ID, digest.Of(w.record.Secret, w.sync.ID, user))
}

func (w *syncWork) traits(c roster.Change) []byte {
	value := c.Value
	switch {
	case w.record.Kind == KindTrait && c.Removed:
		value = []byte("null")
	case c.Removed:
		value = []byte("false")
	case w.record.Kind == KindAudience:
		value = []byte("true")
	}
	return append(append(slices.Clone(w.trait), value...), '}')
}

// progress tells the record, from time to time, and at once that the sync waits
// no more.
func (w *syncWork) progress(ctx context.Context) error {
	if w.sync.Waiting == "" && w.sent-w.sync.Sent < syncProgress*w.batchCalls() && time.Since(w.told) < syncProgressTime {
		return nil
	}
	return w.tellProgress(ctx, "")
}

func (w *syncWork) tellProgress(ctx context.Context, waiting string) error {
	err := w.tellRecord(ctx, func(r *computationRecord) {
		r.Queue[0].Sent, r.Queue[0].Waiting = w.sent, waiting
	})
	if err == nil {
		w.sync.Sent, w.sync.Waiting = w.sent, waiting
	}
	return err
}

// hold waits until the destination may get more calls.
func (w *syncWork) hold(ctx context.Context) error {
	for {
		obstacle, err := w.obstacle(ctx)
		if err != nil || obstacle == "" {
			return err
		}
		if err := w.wait(ctx, obstacle, syncPoll); err != nil {
			return err
		}
	}
}

// wait lets some time pass, and the record know why.
func (w *syncWork) wait(ctx context.Context, why string, d time.Duration) error {
	if why != w.sync.Waiting || time.Since(w.told) >= leaseRenewal {
		if err := w.tellProgress(ctx, why); err != nil {
			return err
		}
	}
	return pause.For(ctx, d)
}

// obstacle says what the sync has to wait for. Where that is nothing, there is
// room for more calls.
func (w *syncWork) obstacle(ctx context.Context) (string, error) {
	if _, err := oneDestination(w.service.config.Settings(), w.record.Source, w.record.Destination); err != nil {
		return strings.TrimPrefix(err.Error(), "mockserver: "), nil
	}
	if w.room > 0 {
		return "", nil
	}
	ledgers, err := w.service.config.Journal.Ledger(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(ledgers, func(l tracking.Ledger) bool { return l.Destination == w.record.Destination })
	if i >= 0 {
		w.room = -ledgers[i].Pending
	}
	ahead := (syncAhead - 1) * w.batchCalls() // and one more batch
	if w.room += ahead; w.room <= 0 {
		return fmt.Sprintf("destination %q has more than %s pending", w.record.Destination, text.Plural(ahead, "call", "calls")), nil
	}
	return "", nil
}

// finish makes the sync's list the current one.
func (w *syncWork) finish(ctx context.Context) error {
	now := time.Now().UTC()
	return w.tellRecord(ctx, func(r *computationRecord) {
		done := w.sync.Sync
		done.State, done.FinishedAt, done.Sent, done.Waiting = SyncDone, now, w.sent, ""
		r.Done = append(r.Done, done)
		r.Done = r.Done[max(0, len(r.Done)-keptSyncs):]
		r.Current = w.result
		r.Queue = r.Queue[1:]
		r.Uploads = slices.DeleteFunc(r.Uploads, func(u upload) bool { return u.ID == w.result.Upload })
		r.Lease.drop(w.service.config.Instance)
	})
}

// remember keeps how much of a sync this process has sent, should the record not
// be told of it; 0 forgets the sync.
func (s *syncs) remember(id string, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[id] = sent
	if sent == 0 {
		delete(s.sent, id)
	}
}

func (s *syncs) remembered(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

// strike makes of the current list one without the users of the sync's list.
func (w *syncWork) strike(ctx context.Context) error {
	current, gone := w.read(ctx, w.record.ID, w.record.Current), w.read(ctx, w.record.ID, w.sync.List)
	list, err := w.upload(ctx, w.record, roster.Without(current, gone))
	w.result = list
	w.sync.Users, w.sync.Left = list.Users, w.record.Current.Users-list.Users
	return err
}
