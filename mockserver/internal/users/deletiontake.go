package users

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// EndOutcomes stores the outcomes that have come, once no more do.
func (d *deletions) endOutcomes() {
	close(d.done)
	d.following.Wait()
}

// take stores a request, unless it was stored before.
func (d *deletions) take(ctx context.Context, record deletionRecord, users []string) (Deletion, error) {
	key := digest.Of(record.ID)
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
		return Deletion{}, fmt.Errorf("%w: deletion request %q was made before, for other users or another source", state.ErrExists, asked.ID)
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
		if err := state.Put(ctx, d.state, chunkKey(key, r.Secret, n), chunk); err != nil {
			return err
		}
		n++
	}
	return nil
}
