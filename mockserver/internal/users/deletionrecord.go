package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A deletionRecord is the stored record of a request, under deletionKey. The users and their
// results are stored in chunks.
type deletionRecord struct {
	Deletion // its counts are set when all notifications have ended
	claim
	Fingerprint string    `json:"fingerprint"`    // hash of the source and the users
	Sources     []string  `json:"sources"`        // all sources, even without targets
	Upload      string    `json:"upload"`         // name of the upload with the chunks
	Chunk       int       `json:"chunk"`          // number of users per chunk; the last may have fewer
	Sent        int       `json:"sent,omitempty"` // number of calls stored in the journal; the calls are ordered by source, then user
	SentAt      time.Time `json:"sentAt,omitzero"`
	Erased      bool      `json:"erased,omitempty"`
	LostSince   time.Time `json:"lostSince,omitzero"` // time when lost outcomes were first found
	Resent      int       `json:"resent,omitempty"`   // number of targets with notifications that were sent again
}

// Whole implements state.Record.
func (r deletionRecord) Whole() bool {
	return r.ID != "" && r.Secret != "" && r.Users > 0 && r.Chunk > 0
}

// A deletionChunk contains a part of the users of a request.
type deletionChunk struct {
	Users []string `json:"users"`
	// Ends[t][i] is the result for target t and user i.
	Ends [][]deletionEnd `json:"ends"`
}

// Whole implements state.Record.
func (k deletionChunk) Whole() bool {
	return len(k.Users) > 0 && !slices.ContainsFunc(k.Ends, func(ends []deletionEnd) bool { return len(ends) != len(k.Users) })
}

const (
	// chunkOutcomes and chunkUsers limit the outcomes and users of a chunk. With these limits, a
	// chunk fits into MaxValue even if all its strings must be escaped.
	chunkOutcomes = 500
	chunkUsers    = 80
)

func deletionKey(key string) string { return deletionPrefix + "." + key }

func (r deletionRecord) chunks() int { return (r.Users + r.Chunk - 1) / r.Chunk }

// sourcesNotified returns the sources of the targets, in order.
func (r deletionRecord) sourcesNotified() []string {
	var sources []string
	for _, t := range r.Targets {
		if !slices.Contains(sources, t.Source) {
			sources = append(sources, t.Source)
		}
	}
	return sources
}

// destinations returns the destinations of a source in this request.
func (r deletionRecord) destinations(source string) []string {
	var names []string
	for _, t := range r.Targets {
		if t.Source == source {
			names = append(names, t.Destination)
		}
	}
	return names
}

// messageIDs returns the common prefix of the messageIds of a request.
func (r deletionRecord) messageIDs(key string) string {
	return deletionIDPrefix + key + "-" + r.Secret + "-"
}

// messageID returns the messageId of the notification for a user number and a source. The method
// find parses it.
func (r deletionRecord) messageID(key, source string, user int) string {
	return fmt.Sprintf("%s%d-%d", r.messageIDs(key), slices.Index(r.sourcesNotified(), source), user)
}

// find returns the user number and the target number of a notification.
func (r deletionRecord) find(key string, n notification) (user, target int, ok bool) {
	place, ours := strings.CutPrefix(n.messageID, r.messageIDs(key))
	_, number, _ := strings.Cut(place, "-")
	user, err := strconv.Atoi(number)
	if !ours || err != nil || user < 0 || user >= r.Users {
		return 0, 0, false
	}
	target = slices.IndexFunc(r.Targets, func(t DeletionTarget) bool { return t.Source == n.source && t.Destination == n.destination })
	return user, target, target >= 0
}

// count adds the results of a chunk to the targets.
func (k deletionChunk) count(targets []DeletionTarget) {
	for t := range targets {
		for _, end := range k.Ends[t] {
			*targets[t].Of(end.State)++
		}
	}
}

// ended reports whether all notifications of a chunk have ended.
func (k deletionChunk) ended() bool {
	for _, ends := range k.Ends {
		if slices.ContainsFunc(ends, func(e deletionEnd) bool { return e.State == tracking.StatePending }) {
			return false
		}
	}
	return true
}

// loadDeletion returns the record of a request. The error is state.ErrNotFound if there is none.
func (u *Service) loadDeletion(ctx context.Context, key string) (deletionRecord, error) {
	return state.Load[deletionRecord](ctx, u.state, deletionKey(key))
}

// fits reports whether k can be chunk n of the request.
func (r deletionRecord) fits(k deletionChunk, n int) bool {
	return len(k.Users) == min(r.Chunk, r.Users-n*r.Chunk) && len(k.Ends) == len(r.Targets)
}

// loadChunk reads a chunk of a request. The error is state.ErrNotFound if it is lost.
func (u *Service) loadChunk(ctx context.Context, key string, r deletionRecord, n int) (deletionChunk, error) {
	k, err := state.Load[deletionChunk](ctx, u.state, partKey(chunkPrefix, key, r.Upload, n))
	if err == nil && !r.fits(k, n) {
		err = state.ErrNotFound
	}
	return k, err
}

// updateChunk changes a chunk of a request. The error is state.ErrNotFound if it is lost.
func (u *Service) updateChunk(ctx context.Context, key string, r deletionRecord, n int, change func(*deletionChunk)) (deletionChunk, error) {
	return state.Update(ctx, u.state, partKey(chunkPrefix, key, r.Upload, n), func(k *deletionChunk) error {
		if !r.fits(*k, n) {
			return state.ErrNotFound
		}
		change(k)
		return nil
	})
}

// count sets the counts of a request's targets and the number of its lost users, unless the
// request is completed. It returns the number of pending notifications. Before completion, chunks
// are not deleted, so a missing chunk is lost.
func (u *Service) count(ctx context.Context, key string, r *deletionRecord) (pending int, err error) {
	if !r.CompletedAt.IsZero() {
		return 0, nil
	}
	targets, lost := append([]DeletionTarget{}, r.Targets...), 0
	for n := range r.chunks() {
		chunk, err := u.loadChunk(ctx, key, *r, n)
		if errors.Is(err, state.ErrNotFound) {
			lost += min(r.Chunk, r.Users-n*r.Chunk)
			continue
		}
		if err != nil {
			return 0, err
		}
		chunk.count(targets)
	}
	for _, t := range targets {
		pending += t.Pending
	}
	r.Targets, r.LostUsers = targets, lost
	return pending, nil
}

// complete completes a request if all its notifications have ended. It returns the targets with
// their counts.
func (u *Service) complete(ctx context.Context, key string) (targets []DeletionTarget, done bool, err error) {
	r, err := u.loadDeletion(ctx, key)
	if err != nil || !r.CompletedAt.IsZero() {
		return r.Targets, true, err
	}
	pending, err := u.count(ctx, key, &r)
	if err != nil || pending > 0 || !r.Erased {
		return r.Targets, false, err
	}
	targets, lost := r.Targets, r.LostUsers
	_, err = state.Update(ctx, u.state, deletionKey(key), func(r *deletionRecord) error {
		if r.ID == "" {
			return state.ErrNotFound // the request was deleted in the meantime
		}
		if r.CompletedAt.IsZero() {
			r.CompletedAt, r.Targets, r.LostUsers = time.Now().UTC(), targets, lost
		}
		return nil
	})
	return targets, true, err
}
