package users

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A deletion request goes through these stages, each stored before the next:
//
//	take  the users are written to the State, in chunks that no record names yet, and
//	      then the record. From here on it is never lost, and the request is answered
//	send  a call of type delete for each user and source is stored in the journal;
//	      the record is told of each batch
//	erase the users are taken out of the lists of audiences and computed traits
//	wait  what becomes of the calls is noted beside the users
//	done  all have come to their end; the request is kept for DeletionKept
//
// The calls' messageIDs are the same each time.

// maxDeletionTargets bounds the sources with destinations of one request.
const maxDeletionTargets = 1000

// DeleteUsers takes a deletion request. When it returns nil, the request is as
// durable as the State of the Config; its notifications are made in the
// background, also after a restart. They are signed, delivered and tried again
// as other calls are. A request whose ID was taken before returns what became of
// that one, or state.ErrExists if that one was for other users.
//
// The users are also taken out of the lists of audiences and computed traits of
// the sources, silently: what was deleted is not told again when a later list
// lacks them.
func (u *Service) DeleteUsers(ctx context.Context, r DeletionRequest) (Deletion, error) {
	if u.work.stopping() {
		return Deletion{}, state.ErrClosed
	}
	if err := r.check(); err != nil {
		return Deletion{}, err
	}
	sources, targets, err := u.deletionTargets(r.Source)
	if err != nil {
		return Deletion{}, err
	}
	users := slices.Compact(slices.Sorted(slices.Values(r.UserIDs)))
	if r.ID == "" {
		r.ID = strings.ToLower(rand.Text())
	}
	return u.takeDeletion(ctx, users, deletionRecord{
		Deletion: Deletion{
			ID: r.ID, RequestedAt: time.Now().UTC().Truncate(time.Millisecond), Source: r.Source, Users: len(users), Targets: targets,
		},
		claim:       claim{Secret: strings.ToLower(rand.Text()[:text.DigestLen])},
		Fingerprint: text.Digest(append([]string{r.Source}, users...)...), Sources: sources,
		Upload: u.newUpload(), Chunk: min(chunkUsers, max(1, chunkOutcomes/max(1, len(targets)))),
	})
}

// check returns nil, or all that is wrong with a request.
func (r DeletionRequest) check() error {
	var problems []error
	switch n := len(r.UserIDs); {
	case n == 0:
		problems = append(problems, &webhook.FieldError{Field: "userIds", Problem: "is empty", Hint: "give at least one user ID"})
	case n > MaxDeletionUsers:
		problems = append(problems, &webhook.FieldError{Field: "userIds", Problem: fmt.Sprintf("has %d users", n),
			Hint: fmt.Sprintf("give at most %d, and the others in another request", MaxDeletionUsers)})
	}
	if n := len(r.ID); n > MaxDeletionID {
		problems = append(problems, &webhook.FieldError{Field: "id", Problem: fmt.Sprintf("has %d bytes", n), Hint: fmt.Sprintf("give at most %d", MaxDeletionID)})
	}
	for i, id := range r.UserIDs {
		if wrong := checkUserID(id); wrong != nil {
			wrong.Field = fmt.Sprintf("userIds[%d]", i)
			problems = append(problems, wrong)
		}
	}
	return errors.Join(problems...)
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

// takeDeletion stores a request, unless it was stored before.
func (u *Service) takeDeletion(ctx context.Context, users []string, asked deletionRecord) (Deletion, error) {
	key := text.Digest(asked.ID)
	taken, err := u.loadDeletion(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		if err := u.putChunks(ctx, key, asked, users); err != nil {
			return Deletion{}, err
		}
		taken, err = state.Update(ctx, u.state, deletionKey(key), func(r *deletionRecord) error {
			if r.ID == "" {
				*r = asked // nobody came between
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return Deletion{}, err
	case taken.Fingerprint != asked.Fingerprint:
		return Deletion{}, fmt.Errorf("%w: deletion request %q was made before, for other users or another source", state.ErrExists, asked.ID)
	}
	if err := state.Put(ctx, u.state, nameKey(deletionKey(key)), taken.Deletion); err != nil {
		return Deletion{}, err
	}
	u.work.kick(deletionKey(key))
	return u.counted(ctx, key, taken)
}

func (u *Service) putChunks(ctx context.Context, key string, r deletionRecord, users []string) error {
	n := 0
	for some := range slices.Chunk(users, r.Chunk) {
		chunk := deletionChunk{Users: some, Ends: make([][]deletionEnd, len(r.Targets))}
		for t := range chunk.Ends {
			chunk.Ends[t] = make([]deletionEnd, len(some))
		}
		if err := state.Put(ctx, u.state, partKey(chunkPrefix, key, r.Upload, n), chunk); err != nil {
			return err
		}
		n++
	}
	return nil
}

// counted returns a request with the numbers of its targets.
func (u *Service) counted(ctx context.Context, key string, r deletionRecord) (Deletion, error) {
	_, err := u.count(ctx, key, &r)
	return r.Deletion, err
}

// Deletion returns the request of an ID, or state.ErrUnknown.
func (u *Service) Deletion(ctx context.Context, id string) (Deletion, error) {
	key := text.Digest(id)
	r, err := u.loadDeletion(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		lost, err := lostRecord[Deletion](ctx, u, deletionKey(key))
		return lost.withoutRecord(), unknownDeletion(id, err)
	}
	if err != nil {
		return Deletion{}, err
	}
	return u.counted(ctx, key, r)
}

// withoutRecord returns a request of which only the name is left.
func (d Deletion) withoutRecord() Deletion {
	d.LostUsers, d.LostRecord = d.Users, true
	return d
}

func unknownDeletion(id string, err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf("%w: there is no deletion request %q", state.ErrUnknown, id)
	}
	return err
}

// Deletions returns all requests that are kept, the newest first.
func (u *Service) Deletions(ctx context.Context) ([]Deletion, error) {
	var all []Deletion
	err := state.Each(ctx, u.state, deletionPrefix, func(key string, r deletionRecord) error {
		d, err := u.counted(ctx, key, r)
		all = append(all, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = lostRecords(ctx, u, deletionPrefix, func(_ string, d Deletion) error {
		all = append(all, d.withoutRecord())
		return nil
	})
	slices.SortFunc(all, func(a, b Deletion) int {
		if byTime := b.RequestedAt.Compare(a.RequestedAt); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, err
}

// DeletionOutcomes returns what became of the notifications of a request that filter
// picks, by user: up to limit of them behind the first offset, and whether there are more.
// The error is state.ErrUnknown where there is no such request.
func (u *Service) DeletionOutcomes(ctx context.Context, id string, filter OutcomeFilter, offset, limit int) (page []DeletionOutcome, more bool, err error) {
	key := text.Digest(id)
	r, err := u.loadDeletion(ctx, key)
	for n := 0; err == nil && n < r.chunks(); n++ {
		var chunk deletionChunk
		chunk, err = u.loadChunk(ctx, key, r, n)
		if errors.Is(err, state.ErrNotFound) {
			err = nil // lost
			continue
		}
		if err != nil {
			break
		}
		for _, o := range chunk.outcomes(key, r, n) {
			switch {
			case !filter.picks(o):
			case offset > 0:
				offset--
			case len(page) == limit:
				return page, true, nil
			default:
				page = append(page, o)
			}
		}
	}
	if errors.Is(err, state.ErrNotFound) {
		_, err = lostRecord[Deletion](ctx, u, deletionKey(key)) // with its outcomes
	}
	if err != nil {
		return nil, false, unknownDeletion(id, err)
	}
	return page, false, nil
}

// outcomes returns those of a chunk by its number, by user.
func (k deletionChunk) outcomes(key string, r deletionRecord, number int) []DeletionOutcome {
	var all []DeletionOutcome
	for i, user := range k.Users {
		for t, target := range r.Targets {
			end := k.Ends[t][i]
			all = append(all, DeletionOutcome{
				user, target.Source, target.Destination, r.messageID(key, target.Source, number*r.Chunk+i), end.Outcome, end.Attempt, end.At,
			})
		}
	}
	return all
}

func (f OutcomeFilter) picks(o DeletionOutcome) bool {
	return oneOf(f.UserIDs, o.UserID) && oneOf(f.Sources, o.Source) && oneOf(f.Destinations, o.Destination) && oneOf(f.States, o.State)
}

// oneOf reports whether a value is one of those wanted, or none is.
func oneOf[T comparable](wanted []T, value T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

// WaitDeletion waits until every notification of a request has come to its end.
// When ctx ends first, it returns how far it is, and an error.
func (u *Service) WaitDeletion(ctx context.Context, id string) (Deletion, error) {
	var d Deletion
	err := u.await(ctx, deletionKey(text.Digest(id)), func() (done bool, err error) {
		d, err = u.Deletion(context.WithoutCancel(ctx), id)
		return d.LostRecord || !d.CompletedAt.IsZero(), err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("mockserver: waited for deletion request %q: %w", id, err)
	}
	return d, err
}
