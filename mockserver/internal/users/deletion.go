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

// A deletion request has these stages. The result of each stage is stored before the next
// stage begins.
//
//	accept store the users in the State, in chunks that no record refers to, and then the
//	       record. The request is durable now, and DeleteUsers returns
//	send   store a call of type delete for each user and source in the journal, and record
//	       each batch
//	erase  remove the users from the lists of audiences and computed traits
//	wait   store the results of the calls in the chunks
//	done   all calls have ended; the request is retained for DeletionKept
//
// The messageIds of the calls are deterministic.

// maxDeletionTargets is the maximum number of targets of a request. A target is a pair of
// source and destination.
const maxDeletionTargets = 1000

// DeleteUsers accepts a deletion request. When it returns nil, the request is stored. Its
// notifications are created in the background, even after a restart, and are signed, delivered
// and retried like other calls. If a request with the same ID exists, DeleteUsers returns the
// existing request, or state.ErrExists if its users or its source are different.
//
// The users are also removed from the lists of audiences and computed traits of the sources.
// This creates no other calls.
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
	return u.acceptDeletion(ctx, users, deletionRecord{
		Deletion: Deletion{
			ID: r.ID, RequestedAt: time.Now().UTC().Truncate(time.Millisecond), Source: r.Source, Users: len(users), Targets: targets,
		},
		claim:       claim{Secret: strings.ToLower(rand.Text()[:text.DigestLen])},
		Fingerprint: text.Digest(append([]string{r.Source}, users...)...), Sources: sources,
		Upload: u.newUpload(), Chunk: min(chunkUsers, max(1, chunkOutcomes/max(1, len(targets)))),
	})
}

// check returns all problems of a request as a joined error, or nil.
func (r DeletionRequest) check() error {
	var problems []error
	switch n := len(r.UserIDs); {
	case n == 0:
		problems = append(problems, &webhook.FieldError{Field: "userIds", Problem: "is empty", Hint: "give at least one user ID"})
	case n > MaxDeletionUsers:
		problems = append(problems, &webhook.FieldError{Field: "userIds", Problem: fmt.Sprintf("has %d users", n),
			Hint: fmt.Sprintf("give at most %d, and the rest in another request", MaxDeletionUsers)})
	}
	if n := len(r.ID); n > maxDeletionID {
		problems = append(problems, &webhook.FieldError{Field: "id", Problem: fmt.Sprintf("has %d bytes", n), Hint: fmt.Sprintf("give at most %d", maxDeletionID)})
	}
	for i, id := range r.UserIDs {
		if wrong := checkUserID(id); wrong != nil {
			wrong.Field = fmt.Sprintf("userIds[%d]", i)
			problems = append(problems, wrong)
		}
	}
	return errors.Join(problems...)
}

// deletionTargets returns the sources of a request, and the targets with the destinations that
// are enabled for these sources.
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
		for _, name := range destinationsOf(settings, source) {
			targets = append(targets, DeletionTarget{Source: source, Destination: name})
		}
	}
	switch {
	case len(sources) == 0:
		return nil, nil, &webhook.FieldError{Field: "source", Problem: "is empty, and no source is known yet", Hint: "name the source"}
	case len(targets) > maxDeletionTargets:
		return nil, nil, &webhook.FieldError{Field: "source", Problem: fmt.Sprintf("has %d pairs of source and destination", len(targets)),
			Hint: fmt.Sprintf("name one source: at most %d are allowed", maxDeletionTargets)}
	}
	return sources, targets, nil
}

// acceptDeletion stores a request, unless it exists already.
func (u *Service) acceptDeletion(ctx context.Context, users []string, request deletionRecord) (Deletion, error) {
	key := text.Digest(request.ID)
	taken, err := u.loadDeletion(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		if err := u.putChunks(ctx, key, request, users); err != nil {
			return Deletion{}, err
		}
		taken, err = state.Update(ctx, u.state, deletionKey(key), func(r *deletionRecord) error {
			if r.ID == "" {
				*r = request // another process has not stored the request in the meantime
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return Deletion{}, err
	case taken.Fingerprint != request.Fingerprint:
		return Deletion{}, fmt.Errorf("%w: deletion request %s exists with other users or another source", state.ErrExists, text.Quote(text.MaxRepeated, request.ID))
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

// counted returns a request with the counts of its targets.
func (u *Service) counted(ctx context.Context, key string, r deletionRecord) (Deletion, error) {
	_, err := u.count(ctx, key, &r)
	return r.Deletion, err
}

// Deletion returns a request, or state.ErrUnknown.
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

// withoutRecord returns d for a request with a lost record.
func (d Deletion) withoutRecord() Deletion {
	d.LostUsers, d.LostRecord = d.Users, true
	return d
}

func unknownDeletion(id string, err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return state.Unknown("deletion request", id)
	}
	return err
}

// Deletions returns all retained requests, newest first.
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

// DeletionOutcomes returns the results of a request's notifications that match filter, ordered
// by user. It skips offset results and returns at most limit; more reports whether others
// follow. The error is state.ErrUnknown if the request does not exist.
func (u *Service) DeletionOutcomes(ctx context.Context, id string, filter OutcomeFilter, offset, limit int) (page []DeletionOutcome, more bool, err error) {
	key := text.Digest(id)
	r, err := u.loadDeletion(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		_, err := lostRecord[Deletion](ctx, u, deletionKey(key)) // its outcomes are lost too
		return nil, false, unknownDeletion(id, err)
	}
	if err != nil {
		return nil, false, err
	}
	for n := range r.chunks() {
		chunk, err := u.loadChunk(ctx, key, r, n)
		if errors.Is(err, state.ErrNotFound) {
			continue // the chunk is lost
		}
		if err != nil {
			return nil, false, err
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
	return page, false, nil
}

// outcomes returns the results of a chunk, ordered by user.
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

// oneOf reports whether wanted is empty or contains value.
func oneOf[T comparable](wanted []T, value T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}
