package users

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A deletion request goes through these stages, each stored before the next:
//
//	take  the users are written to the State, and then the record says that they
//	      are there. From here on it is never lost, and the request is answered
//	send  a call of type delete for each user and source is stored in the journal;
//	      the record is told of each batch
//	erase the users are taken out of the lists of audiences and computed traits
//	follow what becomes of the calls is noted beside the users
//
// The calls' messageIds are the same each time.

// DeleteUsers takes a deletion request. When it returns nil, the request is as
// durable as the State of the Config; its notifications are made in the
// background, also after a restart. They are signed, delivered and tried again
// as other calls are. A request whose ID was taken before returns what became of
// that one, or ErrExists if that one was for other users.
//
// The users are also taken out of the lists of audiences and computed traits of
// the sources, silently: what was deleted is not told again when a later list
// lacks them.
func (u *Service) DeleteUsers(ctx context.Context, r DeletionRequest) (Deletion, error) {
	if u.isStopping() {
		return Deletion{}, state.ErrClosed
	}
	record, users, err := u.newDeletion(r)
	if err != nil {
		return Deletion{}, err
	}
	return u.deletions.take(ctx, record, users)
}

// newDeletion checks a request and makes its record.
func (u *Service) newDeletion(r DeletionRequest) (deletionRecord, []string, error) {
	none := deletionRecord{}
	if err := r.check(); err != nil {
		return none, nil, err
	}
	users := slices.Clone(r.UserIDs)
	slices.Sort(users)
	users = slices.Compact(users)
	sources, targets, err := u.deletionTargets(r.Source)
	if err != nil {
		return none, nil, err
	}
	if r.ID == "" {
		r.ID = strings.ToLower(rand.Text())
	}
	return deletionRecord{
		ID: r.ID, Fingerprint: digest.Of(append([]string{r.Source}, users...)...), RequestedAt: time.Now().UTC().Truncate(time.Millisecond),
		Source: r.Source, Sources: sources, Users: len(users), Targets: targets, Secret: strings.ToLower(rand.Text()[:digest.Len]),
		Chunk: min(chunkUsers, max(1, chunkOutcomes/max(1, len(targets)))),
	}, users, nil
}

// deletionTargets returns the sources that a request affects, and the
// destinations that are enabled for them.
func (u *Service) deletionTargets(source string) (sources []string, targets []DeletionTarget, err error) {
	settings := u.config.Settings()
	if source != "" {
		if source, err = u.oneSource(settings, source); err != nil {
			return nil, nil, err
		}
		sources = []string{source}
	} else {
		sources = u.allSources(settings)
	}
	for _, source := range sources {
		for i := range settings.Destinations {
			if d := &settings.Destinations[i]; gets(d, source) == nil {
				targets = append(targets, DeletionTarget{Source: source, Destination: d.Name})
			}
		}
	}
	switch {
	case len(sources) == 0:
		return nil, nil, &webhook.FieldError{Field: "source", Problem: "is empty, and no source is known yet", Hint: "name the source"}
	case len(targets) > maxDeletionTargets:
		return nil, nil, &webhook.FieldError{Field: "source", Problem: fmt.Sprintf("means %d destinations of sources", len(targets)),
			Hint: fmt.Sprintf("name sources one by one: at most %d are allowed", maxDeletionTargets)}
	}
	return sources, targets, nil
}

// Deletion returns the request of an ID, or state.ErrUnknown.
func (u *Service) Deletion(ctx context.Context, id string) (Deletion, error) {
	key := digest.Of(id)
	r, err := u.deletions.load(ctx, key)
	if err != nil {
		return Deletion{}, unknownDeletion(id, err)
	}
	return u.deletions.public(ctx, key, r)
}

func unknownDeletion(id string, err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf("%w: there is no deletion request %q", state.ErrUnknown, id)
	}
	return err
}

// Deletions returns all requests that are kept, the newest first.
func (u *Service) Deletions(ctx context.Context) ([]Deletion, error) {
	keys, err := u.deletions.keys(ctx)
	if err != nil {
		return nil, err
	}
	var all []Deletion
	for _, key := range keys {
		r, err := u.deletions.load(ctx, key)
		var d Deletion
		if err == nil {
			d, err = u.deletions.public(ctx, key, r)
		}
		if errors.Is(err, state.ErrNotFound) {
			continue // deleted meanwhile, or not yet there
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Deletion) int {
		if byTime := b.RequestedAt.Compare(a.RequestedAt); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// DeletionOutcomes yields what became of each notification of a request, by
// user. The error is state.ErrUnknown where there is no such request.
func (u *Service) DeletionOutcomes(ctx context.Context, id string) iter.Seq2[DeletionOutcome, error] {
	return func(yield func(DeletionOutcome, error) bool) {
		key := digest.Of(id)
		r, err := u.deletions.load(ctx, key)
		for n := 0; err == nil && n < r.chunks(); n++ {
			var chunk deletionChunk
			if _, err = state.Load(ctx, u.deletions.state, chunkKey(key, r.Secret, n), &chunk); err != nil {
				break
			}
			for u, user := range chunk.Users {
				for t, target := range r.Targets {
					end := chunk.Ends[t][u]
					o := DeletionOutcome{user, target.Source, target.Destination, r.messageID(key, target.Source, n*r.Chunk+u), end.Outcome, end.Attempt, end.At}
					if !yield(o, nil) {
						return
					}
				}
			}
		}
		if err != nil {
			yield(DeletionOutcome{}, unknownDeletion(id, err))
		}
	}
}

// WaitDeletion waits until every notification of a request has come to its end.
// When ctx ends first, it returns how far it is, and an error.
func (u *Service) WaitDeletion(ctx context.Context, id string) (Deletion, error) {
	var d Deletion
	err := u.deletions.changed.await(ctx, func() (done bool, err error) {
		d, err = u.Deletion(context.WithoutCancel(ctx), id)
		return !d.CompletedAt.IsZero(), err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("mockserver: waited for deletion request %q: %w", id, err)
	}
	return d, err
}
