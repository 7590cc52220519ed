package users

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A sync goes through these stages. What was done in each is stored before the
// next begins, so that a process can die anywhere and the next one goes on.
//
//	sort   the list is read and sorted; a long one in a temporary file
//	upload the sorted list is written to the State, in segments that belong to
//	       nothing yet
//	queue  one update of the computation's record makes it the next list. From
//	       here on it is never lost, and the request is answered
//	count  when its turn has come, it is compared with the list before it
//	send   calls are made of the differences and stored in the journal; now and
//	       then the record is told how many are
//	done   one update of the record makes it the current list, and the one before
//	       it is deleted
//
// The differences of two lists, and the messageIds of their calls, are the same
// each time: a send that is begun again makes the same calls.

// Limits of computations.
const (
	maxQueuedSyncs = 16 // of one computation
	keptSyncs      = 20 // that are done
	// uploadAge is after how long an upload that was not completed is taken to be
	// given up, if the process that made it does not come back to say so.
	uploadAge = 24 * time.Hour
	// sortsAtOnce is how many lists are read at once, each with
	// roster.DefaultMemory.
	sortsAtOnce = 4
)

// A syncRequest is a list before it is read.
type syncRequest struct {
	kind                      ComputationKind
	name, source, destination string
	list                      roster.Seq
	dryRun, full, allowEmpty  bool
}

// take reads a list and queues it, or counts what it would change.
func (s *syncs) take(ctx context.Context, r syncRequest) (Sync, error) {
	if s.service.isStopping() {
		return Sync{}, state.ErrClosed
	}
	target, err := s.resolve(r)
	if err != nil {
		return Sync{}, err
	}
	select {
	case s.sorts <- struct{}{}:
		defer func() { <-s.sorts }()
	case <-ctx.Done():
		return Sync{}, ctx.Err()
	}
	sorted, err := roster.Sort(r.list, s.service.config.TempDir, 0)
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: the list of %s %q: %w", r.kind, r.name, err)
	}
	defer sorted.Close()
	if empty, err := isEmpty(withValues(sorted)); err != nil {
		return Sync{}, err
	} else if empty && !r.allowEmpty {
		return Sync{}, fmt.Errorf("%w: it would take every user out of %s %q; set allowEmpty if that is meant", ErrEmptyList, r.kind, r.name)
	}
	if r.dryRun {
		return s.dryRun(ctx, target, sorted, r.full)
	}
	list, err := s.upload(ctx, target, withValues(sorted))
	if err != nil {
		s.giveUp(target.ID, list)
		return Sync{}, err
	}
	queued, err := s.enqueue(ctx, target.ID, list, Sync{Full: r.full})
	if err != nil {
		return Sync{}, fmt.Errorf("%s %q: %w", r.kind, r.name, err)
	}
	return queued, nil
}

// resolve finds the computation of a request, and checks that its calls have
// somewhere to go.
func (s *syncs) resolve(r syncRequest) (computationRecord, error) {
	settings := s.service.config.Settings()
	key := SnakeCase(r.name)
	problem := ""
	switch {
	case len(r.name) > MaxComputationName:
		problem = fmt.Sprintf("has %d bytes", len(r.name))
	case key == "":
		problem = fmt.Sprintf("is %q, which has no letter and no digit", r.name)
	case !utf8.ValidString(r.name):
		problem = fmt.Sprintf("is %q, which is not UTF-8", r.name)
	}
	if problem != "" {
		return computationRecord{}, &webhook.FieldError{Field: "name", Problem: problem,
			Hint: fmt.Sprintf("name the %s in 1 to %d bytes, such as Big Spenders", r.kind, MaxComputationName)}
	}
	source, err := s.service.oneSource(settings, r.source)
	if err != nil {
		return computationRecord{}, err
	}
	d, err := oneDestination(settings, source, r.destination)
	if err != nil {
		return computationRecord{}, err
	}
	return computationRecord{
		ID: digest.Of(source, d.Name, key), Kind: r.kind, Name: r.name, Key: key, Source: source, Destination: d.Name,
	}, nil
}

func isEmpty(entries roster.Seq) (bool, error) {
	for _, err := range entries {
		return false, err
	}
	return true, nil
}

// withValues yields a sorted list without the users whose value is null.
func withValues(sorted *roster.Sorted) roster.Seq {
	return func(yield func(roster.Entry, error) bool) {
		for e, err := range sorted.All() {
			if err == nil && string(e.Value) == "null" {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// counter adds the entries that it yields to count.
func counter(entries roster.Seq, count *int64) roster.Seq {
	return func(yield func(roster.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				*count++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// dryRun counts what a list would change, had all that are queued been sent.
func (s *syncs) dryRun(ctx context.Context, target computationRecord, sorted *roster.Sorted, full bool) (Sync, error) {
	dry := Sync{DryRun: true, Full: full, RequestedAt: time.Now()}
	before, err := s.load(ctx, target.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return Sync{}, err
	}
	if err := target.matches(before); err != nil {
		return Sync{}, err
	}
	list := before.Current
	for _, q := range before.Queue {
		if q.Deletion == "" {
			list = q.List
		}
	}
	counted := counter(withValues(sorted), &dry.Users)
	for change, err := range roster.Diff(s.read(ctx, target.ID, list), counted, full) {
		if err != nil {
			return Sync{}, fmt.Errorf("mockserver: %w", err)
		}
		dry.count(change)
	}
	return dry, nil
}

func (s *Sync) count(c roster.Change) {
	if c.Removed {
		s.Left++
	} else {
		s.Entered++
	}
}

// upload writes a list to the State. It tells the record before, so that what it
// writes is deleted should it not get far.
func (s *syncs) upload(ctx context.Context, target computationRecord, entries roster.Seq) (storedList, error) {
	list := storedList{Upload: strings.ToLower(rand.Text()[:16])}
	_, err := s.update(ctx, target.ID, func(r *computationRecord) error {
		if err := target.matches(*r); err != nil {
			return err
		}
		if r.ID == "" {
			*r = target
			r.Secret = rand.Text()
		}
		r.Name = target.Name // names that give the same key: the newest is shown
		r.Uploads = append(r.Uploads, upload{list.Upload, s.service.config.Instance, time.Now()})
		return nil
	})
	if err != nil {
		return list, err
	}
	list.Users, list.Segments, err = roster.Write(entries, func(n int, segment []byte) error {
		return s.state.Put(ctx, segmentKey(target.ID, list.Upload, n), segment)
	})
	if err != nil {
		return list, fmt.Errorf("mockserver: the list of %s %q cannot be stored: %w", target.Kind, target.Name, err)
	}
	return list, nil
}

// giveUp deletes an upload that came to nothing, as well as it can: what stays is
// deleted when the next sync is done.
func (s *syncs) giveUp(id string, list storedList) {
	ctx, cancel := context.WithTimeout(s.work.ctx, 5*time.Second)
	defer cancel()
	err := s.state.Delete(ctx, segmentsKey(id, list.Upload))
	if err == nil {
		_, err = s.update(ctx, id, func(r *computationRecord) error {
			if r.ID == "" {
				return state.ErrNotFound
			}
			r.Uploads = slices.DeleteFunc(r.Uploads, func(u upload) bool { return u.ID == list.Upload })
			return nil
		})
	}
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		s.service.config.Logger.Warn("a list that was not taken could not be deleted yet", "computation", id, "error", err)
	}
}

// enqueue makes an upload the next list of its computation.
func (s *syncs) enqueue(ctx context.Context, id string, list storedList, sync Sync) (Sync, error) {
	var queued Sync
	_, err := s.update(ctx, id, func(r *computationRecord) error {
		i := slices.IndexFunc(r.Uploads, func(u upload) bool { return u.ID == list.Upload })
		switch {
		case i < 0:
			return errForgotten
		case len(r.Queue) >= maxQueuedSyncs && sync.Deletion == "":
			return fmt.Errorf("%w: %d do", ErrTooManySyncs, len(r.Queue))
		}
		r.Uploads = slices.Delete(r.Uploads, i, i+1)
		queued = r.next(sync, time.Now().UTC())
		queued.Users = list.Users
		r.Last = queued
		r.Queue = append(r.Queue, queuedSync{Sync: queued, List: list})
		return nil
	})
	if errors.Is(err, ErrTooManySyncs) || errors.Is(err, errForgotten) {
		s.giveUp(id, list) // after any other error it may be queued
	}
	if err != nil {
		return Sync{}, err
	}
	s.work.kick(id)
	return queued, nil
}

// read yields a stored list.
func (s *syncs) read(ctx context.Context, id string, list storedList) roster.Seq {
	return roster.Read(list.Segments, func(n int) ([]byte, error) {
		segment, _, err := s.state.Get(ctx, segmentKey(id, list.Upload, n))
		return segment, err
	})
}
