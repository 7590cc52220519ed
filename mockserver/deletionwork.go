package mockserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
)

const (
	// outcomesPause is for how long outcomes are gathered before they are stored.
	outcomesPause = 100 * time.Millisecond
	// lostAfter is for how long a notification must be pending at no destination,
	// and its outcome unknown all the same, until the outcome is taken to be lost
	// with the process that knew it. It is then sent again: most likely it was
	// delivered, but nobody can say so.
	lostAfter = time.Minute
	// maxResent is how often that is done for one request.
	maxResent = 3
	// takeTime is how long the taking of a request can last. One that has not come
	// further by then was broken off, and is forgotten.
	takeTime = time.Hour
)

// deletions takes requests, makes their calls and follows these. It is a
// Recorder, so that it learns of the outcomes.
type deletions struct {
	nothingRecorded
	collector *Collector
	state     StateStore
	work      *workers
	changed   notifier // tells when something was stored here

	following sync.WaitGroup
	wake      chan struct{} // holds one token while there are outcomes to store; never closed
	done      chan struct{} // closed by stop

	mu       sync.Mutex // guards what follows
	outcomes map[outcomeID]Ended
	settled  map[string]time.Time // when requests were completed, by key
	suspects map[string]time.Time // since when outcomes of requests look lost, by key
}

// An outcomeID names a notification and a destination. There is one outcome for
// each that waits to be stored, the latest.
type outcomeID struct{ call, destination string }

func newDeletions(c *Collector) *deletions {
	d := &deletions{
		collector: c, state: c.config.State, wake: make(chan struct{}, 1), done: make(chan struct{}),
		outcomes: map[outcomeID]Ended{}, settled: map[string]time.Time{}, suspects: map[string]time.Time{},
	}
	d.work = newWorkers(c, d.step, d.waiting)
	return d
}

func (d *deletions) start() {
	d.following.Go(d.follow)
	d.work.start(func(context.Context) error { return nil })
}

// stop ends the work, and then, once no more outcomes come, stores those that
// have come.
func (d *deletions) stop() {
	d.work.stop()
	close(d.done)
	d.following.Wait()
}

// take stores a request, unless it was stored before.
func (d *deletions) take(ctx context.Context, record deletionRecord, users []string) (Deletion, error) {
	key := digest(record.ID)
	var known *deletionRecord
	var replaced string // the secret of one whose taking was broken off
	_, err := d.update(ctx, key, func(r *deletionRecord) error {
		known, replaced = nil, ""
		if r.Ready {
			taken := *r
			known = &taken
			return errNoWork
		}
		replaced = r.Secret
		*r = record
		return nil
	})
	if known != nil {
		return d.again(ctx, key, *known, record)
	}
	if err != nil {
		return Deletion{}, err
	}
	if replaced != "" {
		if err := d.state.Delete(ctx, chunksKey(key, replaced)); err != nil {
			return Deletion{}, fmt.Errorf("mockserver: %w", err)
		}
	}
	if err := d.putChunks(ctx, key, record, users); err != nil {
		return Deletion{}, err
	}
	record, err = d.update(ctx, key, func(r *deletionRecord) error {
		if r.Secret != record.Secret {
			return fmt.Errorf("mockserver: deletion request %q is being taken from elsewhere at this moment; ask again", record.ID)
		}
		r.Ready = true
		return nil
	})
	if err != nil {
		return Deletion{}, err
	}
	d.work.kick(key)
	return d.public(ctx, key, record)
}

// again answers a request that was taken before.
func (d *deletions) again(ctx context.Context, key string, taken, asked deletionRecord) (Deletion, error) {
	if taken.Fingerprint != asked.Fingerprint {
		return Deletion{}, fmt.Errorf("%w: deletion request %q was made before, for other users or another source", ErrExists, asked.ID)
	}
	return d.public(ctx, key, taken)
}

func (d *deletions) putChunks(ctx context.Context, key string, r deletionRecord, users []string) error {
	n := 0
	for some := range slices.Chunk(users, r.Chunk) {
		chunk := deletionChunk{Users: some, Ends: make([][]deletionEnd, len(r.Targets))}
		for t := range chunk.Ends {
			chunk.Ends[t] = make([]deletionEnd, len(some))
		}
		if err := putState(ctx, d.state, chunkKey(key, r.Secret, n), chunk); err != nil {
			return err
		}
		n++
	}
	return nil
}

// load returns the record of a request that was taken, or ErrNoState.
func (d *deletions) load(ctx context.Context, key string) (deletionRecord, error) {
	var r deletionRecord
	_, err := loadState(ctx, d.state, deletionKey(key), &r)
	if err == nil && !r.Ready {
		err = ErrNoState
	}
	return r, err
}

// update changes the record of a request, which is empty if there is none.
func (d *deletions) update(ctx context.Context, key string, change func(*deletionRecord) error) (deletionRecord, error) {
	r, err := updateState(ctx, d.state, deletionKey(key), change)
	if err == nil {
		d.changed.tell()
	}
	return r, err
}

// chunk reads one of a request's chunks.
func (d *deletions) chunk(ctx context.Context, key string, r deletionRecord, n int) (deletionChunk, error) {
	var chunk deletionChunk
	_, err := loadState(ctx, d.state, chunkKey(key, r.Secret, n), &chunk)
	return chunk, err
}

func (d *deletions) keys(ctx context.Context) ([]string, error) {
	keys, err := d.state.Keys(ctx, deletionPrefix)
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], deletionPrefix+".")
	}
	return keys, nil
}

// count returns the targets of a request with their numbers, and how many
// notifications have not come to their end.
func (d *deletions) count(ctx context.Context, key string, r deletionRecord) (targets []DeletionTarget, pending int, err error) {
	targets = slices.Clone(r.Targets)
	if !r.Completed.IsZero() {
		return targets, 0, nil
	}
	for n := range r.chunks() {
		chunk, err := d.chunk(ctx, key, r, n)
		if err != nil {
			return nil, 0, err
		}
		chunk.count(targets)
	}
	for _, t := range targets {
		pending += t.Pending
	}
	return targets, pending, nil
}

func (d *deletions) public(ctx context.Context, key string, r deletionRecord) (Deletion, error) {
	targets, _, err := d.count(ctx, key, r)
	if targets == nil {
		targets = []DeletionTarget{}
	}
	return Deletion{
		ID: r.ID, RequestedAt: r.RequestedAt, CompletedAt: r.Completed, Users: r.Users, Source: r.Source, Targets: targets,
	}, err
}

// waiting returns the requests that are not completed, and forgets those that
// have been for long.
func (d *deletions) waiting(ctx context.Context) ([]string, error) {
	keys, err := d.keys(ctx)
	if err != nil {
		return nil, err
	}
	var open []string
	now := d.collector.clock.Now()
	for _, key := range keys {
		completed, err := d.completedAt(ctx, key)
		switch {
		case errors.Is(err, ErrNoState): // forgotten by another process
		case err != nil:
			return open, err
		case completed.IsZero():
			open = append(open, key)
		case now.Sub(completed) > DeletionKept:
			if err := d.forget(ctx, key); err != nil {
				return open, err
			}
		}
	}
	return open, nil
}

// completedAt returns when a request was completed; zero if it was not.
func (d *deletions) completedAt(ctx context.Context, key string) (time.Time, error) {
	d.mu.Lock()
	at := d.settled[key]
	d.mu.Unlock()
	if !at.IsZero() {
		return at, nil
	}
	var r deletionRecord
	if _, err := loadState(ctx, d.state, deletionKey(key), &r); err != nil {
		return time.Time{}, err
	}
	if !r.Ready && d.collector.clock.Now().Sub(r.RequestedAt) > takeTime {
		return time.Time{}, errors.Join(d.forget(ctx, key), ErrNoState)
	}
	d.settle(key, r)
	return r.Completed, nil
}

// settle remembers that a request is completed, if it is.
func (d *deletions) settle(key string, r deletionRecord) {
	if r.Completed.IsZero() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled[key] = r.Completed
	delete(d.suspects, key)
}

func (d *deletions) forget(ctx context.Context, key string) error {
	d.mu.Lock()
	delete(d.settled, key)
	d.mu.Unlock()
	if err := d.state.Delete(ctx, "deletionchunk."+key); err != nil {
		return err
	}
	return d.state.Delete(ctx, deletionKey(key))
}

// step makes the calls of a request, and looks for outcomes that were lost.
func (d *deletions) step(ctx context.Context, key string) error {
	w, err := d.claim(ctx, key)
	if err != nil {
		return err
	}
	for i, source := range w.record.sourcesNotified() {
		if err := w.send(ctx, i, source); err != nil {
			return err
		}
	}
	if err := w.erase(ctx); err != nil {
		return err
	}
	if err := d.store(ctx); err != nil {
		return err
	}
	pending, err := d.complete(ctx, key)
	if err != nil || pending == 0 {
		return err
	}
	if err := w.findLost(ctx); err != nil {
		return err
	}
	return errNoWork // until outcomes come, or it is time to look again
}

// A deletionWork is the work on one request.
type deletionWork struct {
	*deletions
	key    string
	record deletionRecord
	doubt  int // how many of its calls may be stored already, by a process that was killed
}

func (d *deletions) claim(ctx context.Context, key string) (*deletionWork, error) {
	w := &deletionWork{deletions: d, key: key}
	resumed := false
	record, err := d.update(ctx, key, func(r *deletionRecord) error {
		if !r.Ready || !r.Completed.IsZero() {
			return errNoWork
		}
		resumed = r.Started
		r.Started = true
		return r.Lease.take(d.collector.config.Instance, d.collector.clock.Now())
	})
	w.record = record
	if resumed {
		w.doubt = record.Sent + 2*d.collector.config.emitCalls
	}
	return w, err
}

// tell changes the record, if the request is still this process's to work on.
func (w *deletionWork) tell(ctx context.Context, change func(*deletionRecord)) error {
	record, err := w.update(ctx, w.key, func(r *deletionRecord) error {
		if r.Secret != w.record.Secret {
			return errNoWork
		}
		if r.Lease.Instance != w.collector.config.Instance {
			return errElsewhere
		}
		change(r)
		return r.Lease.take(w.collector.config.Instance, w.collector.clock.Now())
	})
	if err == nil {
		w.record = record
	}
	return err
}

// users yields the users of the request with their numbers, from one on.
func (w *deletionWork) users(ctx context.Context, from int) func(func(deletionUser, error) bool) {
	return func(yield func(deletionUser, error) bool) {
		for n := from / w.record.Chunk; n < w.record.chunks(); n++ {
			chunk, err := w.chunk(ctx, w.key, w.record, n)
			if err != nil {
				yield(deletionUser{}, err)
				return
			}
			for i, id := range chunk.Users {
				u := deletionUser{id: id, number: n*w.record.Chunk + i, chunk: chunk, place: i}
				if u.number >= from && !yield(u, nil) {
					return
				}
			}
		}
	}
}

// A deletionUser is one of the users of a request.
type deletionUser struct {
	id     string
	number int // in the request
	chunk  deletionChunk
	place  int // in the chunk
}

// send makes the calls for one of the sources that were not made before.
func (w *deletionWork) send(ctx context.Context, number int, source string) error {
	first := w.record.Sent - number*w.record.Users
	if first >= w.record.Users {
		return nil
	}
	e, err := newEmitter("delete", source, w.record.RequestedAt, w.record.destinations(source), nil)
	if err != nil {
		return err
	}
	for u, err := range w.users(ctx, first) {
		if err != nil {
			return err
		}
		e.add(w.record.messageID(w.key, source, u.number), u.id, nil)
		if e.full(w.collector.config.emitCalls) || u.number == w.record.Users-1 {
			sent := number*w.record.Users + u.number + 1
			if err := w.emit(ctx, e, w.record.Sent < w.doubt); err != nil {
				return err
			}
			if err := w.tell(ctx, func(r *deletionRecord) { r.Sent, r.SentAt = sent, w.collector.clock.Now().UTC() }); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit brings a batch to the journal, and keeps the lease meanwhile.
func (w *deletionWork) emit(ctx context.Context, e *emitter, perhapsStored bool) error {
	for {
		err := w.collector.emit(ctx, e.batch(w.collector.clock.Now()), perhapsStored)
		if err == nil {
			e.clear()
			return nil
		}
		w.collector.log.Warn("a deletion request waits for its calls to be stored", "id", w.record.ID, "error", err)
		if err := sleep(ctx, emitPause); err != nil {
			return err
		}
		if err := w.tell(ctx, func(*deletionRecord) {}); err != nil {
			return err
		}
	}
}

// erase takes the users out of the lists of audiences and computed traits.
func (w *deletionWork) erase(ctx context.Context) error {
	if w.record.Erased {
		return nil
	}
	users := func(yield func(roster.Entry, error) bool) {
		for u, err := range w.users(ctx, 0) {
			if !yield(roster.Entry{User: u.id}, err) {
				return
			}
		}
	}
	if err := w.collector.syncs.erase(ctx, w.record.Sources, w.record.ID, users); err != nil {
		return err
	}
	return w.tell(ctx, func(r *deletionRecord) { r.Erased = true })
}

// complete notes that all notifications have come to their end, if they have, or
// returns how many have not.
func (d *deletions) complete(ctx context.Context, key string) (pending int, err error) {
	r, err := d.load(ctx, key)
	if err != nil || !r.Completed.IsZero() {
		return 0, err
	}
	targets, pending, err := d.count(ctx, key, r)
	if err != nil || pending > 0 || !r.Erased {
		return max(pending, 1), err
	}
	r, err = d.update(ctx, key, func(r *deletionRecord) error {
		if r.Completed.IsZero() {
			r.Completed, r.Targets = d.collector.clock.Now().UTC(), targets
		}
		return nil
	})
	if err == nil {
		d.settle(key, r)
	}
	return 0, err
}

// findLost looks for notifications that are pending nowhere, though nobody knows
// how they ended, and sends them again.
func (w *deletionWork) findLost(ctx context.Context) error {
	ledgers, err := w.collector.journal.Ledger(ctx)
	if err != nil {
		return err
	}
	targets, _, err := w.count(ctx, w.key, w.record)
	if err != nil {
		return err
	}
	lost := false
	for t, target := range targets {
		l := slices.IndexFunc(ledgers, func(l Ledger) bool { return l.Destination == target.Destination })
		switch {
		case target.Pending == 0:
		case l < 0:
			removed := Outcome{State: StateFailed, Reason: "the destination was removed"}
			err = w.conclude(ctx, t, func(int) (deletionEnd, bool) {
				return deletionEnd{Outcome: removed, At: w.collector.clock.Now().UTC()}, true
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

// suspectedFor tells whether outcomes have looked lost for so long; if not, it
// notes that they do.
func (w *deletionWork) suspectedFor(d time.Duration) bool {
	since := w.suspect(true)
	return w.collector.clock.Now().Sub(since) >= d
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
		w.suspects[w.key] = w.collector.clock.Now()
	}
	return w.suspects[w.key]
}

// recover finds out of the notifications of a target which have failed, and has
// the others, whose outcome nobody knows, delivered again.
func (w *deletionWork) recover(ctx context.Context, target int) error {
	t := w.record.Targets[target]
	failed := map[string]FailedCall{}
	err := w.collector.journal.Failed(ctx, t.Destination, func(f FailedCall) bool {
		if f.Call.Source == t.Source && strings.HasPrefix(f.Call.ID, deletionIDPrefix+w.key) {
			failed[f.Call.ID] = f
		}
		return true
	})
	if err != nil {
		return err
	}
	again := w.record.Resent < maxResent*len(w.record.Targets)
	unknown := deletionEnd{Outcome: Outcome{State: StateFailed, Reason: fmt.Sprintf("it was sent again %d times, and its outcome was lost each time", maxResent)}}
	err = w.conclude(ctx, target, func(user int) (deletionEnd, bool) {
		if f, known := failed[w.record.messageID(w.key, t.Source, user)]; known {
			return deletionEnd{Outcome{State: StateFailed, Reason: f.Reason}, f.Attempts, f.FailedAt}, true
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
	now := w.collector.clock.Now()
	for u, err := range w.users(ctx, 0) {
		if err != nil {
			return err
		}
		if u.chunk.Ends[target][u.place].State == StatePending {
			e.add(w.record.messageID(w.key, t.Source, u.number), u.id, nil)
		}
	}
	calls := e.batch(now).Calls
	w.collector.log.Warn("outcomes of a deletion request were lost; its notifications are sent again",
		"id", w.record.ID, "destination", t.Destination, "calls", len(calls))
	for some := range slices.Chunk(calls, w.collector.config.emitCalls) {
		if err := w.collector.journal.Replay(ctx, t.Destination, some, StateDelivered); err != nil {
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
		_, err := updateState(ctx, w.state, chunkKey(w.key, w.record.Secret, n), func(k *deletionChunk) error {
			for i := range k.Ends[target] {
				if k.Ends[target][i].State != StatePending {
					continue
				}
				if e, known := end(n*w.record.Chunk + i); known {
					k.Ends[target][i] = e
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	_, err := w.complete(ctx, w.key)
	return err
}

// Ended implements Recorder.
func (d *deletions) Ended(e Ended) {
	if !strings.HasPrefix(e.CallID, deletionIDPrefix) {
		return
	}
	d.mu.Lock()
	d.outcomes[outcomeID{e.CallID, e.Destination}] = e
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// follow stores outcomes, until stop.
func (d *deletions) follow() {
	for {
		select {
		case <-d.wake:
			if sleep(d.work.ctx, outcomesPause) != nil {
				continue // stop comes
			}
			if err := d.store(d.work.ctx); err != nil && d.work.ctx.Err() == nil {
				d.collector.log.Error("outcomes of deletion requests could not be stored yet", "error", err)
				_ = sleep(d.work.ctx, workFirst) // stop comes, if it fails
			}
		case <-d.done:
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := d.store(ctx); err != nil {
				d.collector.log.Error("outcomes of deletion requests could not be stored; their notifications will be sent again", "error", err)
			}
			return
		}
	}
}

// store brings the outcomes that have come to their requests. Those that it
// cannot store come again.
func (d *deletions) store(ctx context.Context) error {
	d.mu.Lock()
	outcomes := d.outcomes
	d.outcomes = map[outcomeID]Ended{}
	d.mu.Unlock()
	byKey := map[string][]Ended{}
	for _, e := range outcomes {
		if key, _, found := strings.Cut(strings.TrimPrefix(e.CallID, deletionIDPrefix), "-"); found && isDigest(key) {
			byKey[key] = append(byKey[key], e)
		}
	}
	var errs []error
	for key, ended := range byKey {
		if err := d.storeOf(ctx, key, ended); err != nil {
			errs = append(errs, err)
			d.giveBack(ended)
		}
	}
	return errors.Join(errs...)
}

// giveBack keeps outcomes that could not be stored, but for those that others
// have overtaken.
func (d *deletions) giveBack(ended []Ended) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range ended {
		id := outcomeID{e.CallID, e.Destination}
		if _, newer := d.outcomes[id]; !newer {
			d.outcomes[id] = e
		}
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// storeOf stores outcomes of one request.
func (d *deletions) storeOf(ctx context.Context, key string, ended []Ended) error {
	r, err := d.load(ctx, key)
	if errors.Is(err, ErrNoState) {
		return nil // not one of ours, or forgotten
	}
	if err != nil {
		return err
	}
	byChunk := map[int][]Ended{}
	for _, e := range ended {
		if user, _, ok := r.find(key, e); ok {
			byChunk[user/r.Chunk] = append(byChunk[user/r.Chunk], e)
		}
	}
	perhaps := false // all may have ended
	for _, n := range slices.Sorted(maps.Keys(byChunk)) {
		chunk, err := updateState(ctx, d.state, chunkKey(key, r.Secret, n), func(k *deletionChunk) error {
			for _, e := range byChunk[n] {
				user, target, _ := r.find(key, e)
				k.Ends[target][user-n*r.Chunk] = newDeletionEnd(e)
			}
			return nil
		})
		if err != nil {
			return err
		}
		perhaps = perhaps || chunk.ended()
	}
	if perhaps {
		_, err = d.complete(ctx, key)
	}
	d.changed.tell()
	return err
}

// find returns the user and the target that an outcome is of, by number.
func (r deletionRecord) find(key string, e Ended) (user, target int, ok bool) {
	place, ours := strings.CutPrefix(e.CallID, deletionIDPrefix+key+"-"+r.Secret+"-")
	_, number, _ := strings.Cut(place, "-")
	user, err := strconv.Atoi(number)
	if !ours || err != nil || user < 0 || user >= r.Users {
		return 0, 0, false
	}
	target = slices.IndexFunc(r.Targets, func(t DeletionTarget) bool { return t.Source == e.Source && t.Destination == e.Destination })
	return user, target, target >= 0
}

func newDeletionEnd(e Ended) deletionEnd {
	o := Outcome{State: e.State, Reason: e.Reason}
	if len(o.Reason) > keptReason {
		o.Reason = strings.ToValidUTF8(o.Reason[:keptReason], "") + "…"
	}
	return deletionEnd{o, e.Attempt, e.At.UTC().Truncate(time.Millisecond)}
}

// ended tells whether every notification of a chunk has come to its end.
func (k deletionChunk) ended() bool {
	for _, ends := range k.Ends {
		if slices.ContainsFunc(ends, func(e deletionEnd) bool { return e.State == StatePending }) {
			return false
		}
	}
	return true
}

// nothingRecorded is a Recorder of nothing, for those who are to be told of a
// part only.
type nothingRecorded struct{}

func (nothingRecorded) Accepted(Batch)     {}
func (nothingRecorded) Repeated(Batch)     {}
func (nothingRecorded) Rejected(Rejection) {}
func (nothingRecorded) Refused(Refusal)    {}
func (nothingRecorded) Attempted(Attempt)  {}
func (nothingRecorded) Ended(Ended)        {}
