package users

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// load returns the record of a request that was taken, or ErrNotFound.
func (d *deletions) load(ctx context.Context, key string) (deletionRecord, error) {
	var r deletionRecord
	_, err := state.Load(ctx, d.state, deletionKey(key), &r)
	if err == nil && !r.Ready {
		err = state.ErrNotFound
	}
	return r, err
}

// update changes the record of a request, which is empty if there is none.
func (d *deletions) update(ctx context.Context, key string, change func(*deletionRecord) error) (deletionRecord, error) {
	r, err := state.Update(ctx, d.state, deletionKey(key), change)
	if err == nil {
		d.changed.tell()
	}
	return r, err
}

// chunk reads one of a request's chunks.
func (d *deletions) chunk(ctx context.Context, key string, r deletionRecord, n int) (deletionChunk, error) {
	var chunk deletionChunk
	_, err := state.Load(ctx, d.state, chunkKey(key, r.Secret, n), &chunk)
	return chunk, err
}

// updateChunk changes one of a request's chunks. It is ErrNotFound where there is none.
func (d *deletions) updateChunk(ctx context.Context, key string, r deletionRecord, n int, change func(*deletionChunk)) (deletionChunk, error) {
	return state.Update(ctx, d.state, chunkKey(key, r.Secret, n), func(k *deletionChunk) error {
		if len(k.Users) == 0 {
			return state.ErrNotFound
		}
		change(k)
		return nil
	})
}

func (d *deletions) keys(ctx context.Context) ([]string, error) {
	return state.Keys(ctx, d.state, deletionPrefix)
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
	now := time.Now()
	for _, key := range keys {
		completed, err := d.completedAt(ctx, key)
		switch {
		case errors.Is(err, state.ErrNotFound): // forgotten by another process
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
	if _, err := state.Load(ctx, d.state, deletionKey(key), &r); err != nil {
		return time.Time{}, err
	}
	if !r.Ready && time.Since(r.RequestedAt) > takeTime {
		return time.Time{}, errors.Join(d.forget(ctx, key), state.ErrNotFound)
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
