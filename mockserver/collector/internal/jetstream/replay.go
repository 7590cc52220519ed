package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Replay makes calls pending again for a destination. Each replay is stored as a message of CALLS
// that contains the previous state of its calls. All later steps can be repeated. A replay of
// failed calls fails if one of them is no longer listed. Filtered calls need not be listed.
func (j *Journal) Replay(ctx context.Context, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) error {
	if err := j.open(); err != nil {
		return err
	}
	if !j.ledger.With(destination, func(*ledger.Account) {}) {
		return fmt.Errorf("%w: %q", journal.ErrNotAttached, destination)
	}
	if len(calls) == 0 {
		return nil
	}
	if err := j.awaitSettled(ctx); err != nil {
		return err
	}
	lock, unlock, err := j.lockReplay(ctx, destination)
	if err != nil {
		return err
	}
	defer unlock()
	// Without a snapshot, this replay could become the only record that its calls had failed.
	if err := j.snapshot(ctx, true); err != nil {
		return fmt.Errorf("journal: replaying for %q: %w", destination, err)
	}
	defer j.snapshotNow(ctx)
	done := 0
	for try := 1; len(calls) > 0; try++ {
		n, err := j.replayListed(ctx, lock, destination, calls, traces, from)
		calls, traces, done = calls[n:], traces.Between(n, len(calls)), done+n
		if errors.Is(err, errSuperseded) && try < maxTries {
			err = pause.For(ctx, 100*time.Millisecond)
		}
		if err != nil && done > 0 {
			return &journal.PartialReplayError{Replayed: done, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errSuperseded reports that another replay was stored after prepareReplay. Only one replay runs
// at a time, so the stored replay is an earlier request that arrived late.
var errSuperseded = errors.New("another replay was stored in the meantime")

// replayListed finds the listed calls and replays them. It returns the number of stored calls. These
// calls are pending again even if a later step failed.
func (j *Journal) replayListed(ctx context.Context, lock *store.Lock, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) (done int, err error) {
	look, err := j.prepareReplay(ctx, destination, calls, from)
	if err != nil {
		return 0, err
	}
	for done < len(calls) {
		n := replaySize(calls[done:])
		err := lock.Renew(ctx)
		if err == nil {
			var stored storedReplay
			if stored, err = j.storeReplay(ctx, look, calls[done:done+n], traces.Between(done, done+n)); err == nil {
				done += n
				err = j.settleReplay(ctx, stored)
			}
		}
		if err != nil {
			return done, fmt.Errorf("journal: replaying for %q, with %d calls remaining: %w", destination, len(calls)-done, err)
		}
	}
	return done, nil
}

// A replayState is the state before a replay. It is valid until another replay for the destination
// is stored, because that replay could contain the same calls.
type replayState struct {
	destination string
	from        tracking.State
	last        uint64                           // sequence number of the last stored replay, or 0
	listed      map[event.Key][]record.FailedRef // listed calls with the state from; each reference has one place
}

// prepareReplay marks all stored replays and finds the listed calls.
func (j *Journal) prepareReplay(ctx context.Context, destination string, calls []tracking.Call, from tracking.State) (*replayState, error) {
	l := &replayState{destination: destination, from: from}
	m, err := j.JS.Last(ctx, j.Names.Stream(record.StreamCalls), j.replaySubject(destination))
	switch {
	case err == nil:
		l.last = m.Sequence
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, err
	}
	if err := j.markReplays(ctx, destination); err != nil {
		return nil, err
	}
	if from == tracking.StateFailed || from == tracking.StateFiltered {
		if l.listed, err = j.findFailed(ctx, destination, calls, from); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// replaySize returns the number of calls for the next message. The calls must have the same
// source, and fit in one part.
func replaySize(calls []tracking.Call) int {
	n, size := 0, 0
	for n < len(calls) && n < record.PartCalls && calls[n].Source == calls[0].Source {
		if size += len(calls[n].Body); n > 0 && size > groupBytes {
			break
		}
		n++
	}
	return n
}

// A storedReplay is a message of CALLS with replayed calls.
type storedReplay struct {
	record.Accepted
	at     time.Time
	failed []record.FailedRef // references to the FAILED messages that contain the calls
}

// storeReplay stores one message of calls. It fails if another replay was stored after
// prepareReplay.
func (j *Journal) storeReplay(ctx context.Context, l *replayState, calls []tracking.Call, traces event.Traces) (storedReplay, error) {
	now := time.Now()
	c := record.Control{Name: l.destination, Source: calls[0].Source, From: uint8(l.from)}
	oldest := now
	for i := range calls {
		if at := calls[i].ReceivedAt; !at.IsZero() && at.Before(oldest) {
			oldest = at
		}
		key := event.KeyOf(calls[i].Source, calls[i].ID)
		if places := l.listed[key]; len(places) > 0 {
			c.Failed = addPlace(c.Failed, places[0])
			l.listed[key] = places[1:]
		}
	}
	c.Oldest = oldest.UnixMilli()
	m := callsMessage(j.replaySubject(l.destination), calls, traces)
	m.Header.Set(record.HeaderControl, c.Header())
	store.ExpectLast(m, l.last)
	record.SetTime(m.Header, now)
	j.Identify(m)
	seq, err := j.Publish(ctx, m)
	if store.IsWrongSequence(err) {
		err = fmt.Errorf("%w: %w", errSuperseded, err)
	}
	if err != nil {
		return storedReplay{}, err
	}
	l.last = seq
	j.recordStored(seq)
	j.incoming.usage.add(len(m.Data))
	return storedReplay{record.Accepted{Seq: seq, Calls: len(calls), Destination: l.destination, From: l.from}, now, c.Failed}, nil
}

// settleReplay marks the replayed calls, adds the replay to the recent file, and schedules the calls.
// If the replay's message is corrupted before that, its calls are still listed as failed. The calls are
// scheduled even if the mark fails: they are pending, and the next replay marks them.
func (j *Journal) settleReplay(ctx context.Context, r storedReplay) error {
	if err := j.ledger.Reached(ctx, r.Seq, 0); err != nil {
		return err
	}
	marked := j.markReplayed(ctx, r.Destination, r.failed)
	if marked == nil {
		j.setMarked(r.Destination, r.Seq)
		j.note(r.Accepted)
	}
	scheduled := j.schedule(ctx, r.Destination, &record.Retry{Ref: record.Ref{Seq: r.Seq}, Attempt: 1, Decided: r.at, Due: r.at})
	return errors.Join(marked, scheduled)
}

// markReplays marks all stored replays for a destination. The caller must hold their lock.
func (j *Journal) markReplays(ctx context.Context, destination string) error {
	return j.eachUnmarked(ctx, destination, func(m *record.Calls) error {
		if err := j.markReplayed(ctx, destination, m.Failed); err != nil {
			return err
		}
		j.setMarked(destination, m.Seq)
		return nil
	})
}

// markAllReplays marks the replays that a previous process left unmarked.
func (j *Journal) markAllReplays(ctx context.Context) error {
	for _, destination := range j.ledger.Destinations() {
		_, unlock, err := j.lockReplay(ctx, destination)
		if err != nil {
			return err
		}
		err = j.markReplays(ctx, destination)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// addPlace adds the place of a call to the references.
func addPlace(refs []record.FailedRef, p record.FailedRef) []record.FailedRef {
	for i := range refs {
		if refs[i].Number == p.Number && refs[i].Attempt == p.Attempt {
			refs[i].Places = append(refs[i].Places, p.Places...)
			return refs
		}
	}
	return append(refs, p)
}

// findFailed finds calls in the list of failed calls. If the parameter as is StateFiltered, it searches the filtered
// calls instead. The caller must mark all replays first. The search starts where the previous one ended, because
// a large replay consists of many small ones.
func (j *Journal) findFailed(ctx context.Context, destination string, calls []tracking.Call, as tracking.State) (map[event.Key][]record.FailedRef, error) {
	wanted := map[event.Key]int{}
	for i := range calls {
		wanted[event.KeyOf(calls[i].Source, calls[i].ID)]++
	}
	found, left := map[event.Key][]record.FailedRef{}, len(calls)
	find := func(m *record.FailedMessage) error {
		var mark *jetstream.RawStreamMsg // nil until it is read
		place := -1
		for id := range record.EachID(m.IDs) {
			place++
			key := event.KeyOf(m.Why.Source, id)
			if _, filtered := m.Why.Reason(place); wanted[key] == 0 || filtered != (as == tracking.StateFiltered) {
				continue
			}
			if mark == nil {
				var err error
				if mark, err = j.loadMark(ctx, destination, m.Ref); err != nil {
					return err
				}
			}
			if !record.Mark(mark.Data).Has(place) {
				found[key] = append(found[key], record.FailedRef{Number: m.Ref.Number, Attempt: m.Ref.Attempt, Places: []int{place}})
				wanted[key]--
				left--
				j.replays.found[destination] = m.Seq
			}
		}
		if left == 0 {
			return store.ErrEnough
		}
		return nil
	}
	first := max(1, j.replays.found[destination])
	err := j.eachFailed(ctx, destination, record.Span{First: first, Last: math.MaxUint64}, true, find)
	if err == nil && left > 0 && first > 1 {
		err = j.eachFailed(ctx, destination, record.Span{First: 1, Last: first - 1}, true, find)
	}
	if err != nil {
		return nil, err
	}
	for i := range calls {
		if id := calls[i].ID; as == tracking.StateFailed && wanted[event.KeyOf(calls[i].Source, id)] > 0 {
			return nil, fmt.Errorf("journal: call %q is not in the list of failed calls of %q: it was replayed or has expired", id, destination)
		}
	}
	return found, nil
}

// lockPause is the interval between attempts to take the lock of another process. A killed process
// keeps it for half a minute.
const lockPause = 500 * time.Millisecond

// lockReplay serializes the replays for a destination, because concurrent replays could contain the same
// failed calls. The caller must call unlock.
func (j *Journal) lockReplay(ctx context.Context, destination string) (lock *store.Lock, unlock func(), err error) {
	lock = store.NewLock(j.Store, "lock", record.Token(destination))
	if err := j.replays.running.LockContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("journal: waiting for another replay: %w", err)
	}
	unlock = func() {
		lock.Remove(ctx)
		j.replays.running.Unlock()
	}
	if !j.Shared {
		return lock, unlock, nil
	}
	for err = lock.Take(ctx); store.IsWrongSequence(err); err = lock.Take(ctx) {
		if err := pause.For(ctx, lockPause); err != nil {
			unlock()
			return nil, nil, fmt.Errorf("journal: waiting for another process that replays for %q: %w", destination, err)
		}
	}
	if err != nil {
		unlock()
	}
	return lock, unlock, err
}
