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

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A sync goes through these stages. What was done in each is stored before the
// next begins, so that a process can die anywhere and the next one goes on.
//
//	sort   the list is read and sorted; a long one in a temporary file
//	upload the sorted list is written to the State, in segments that no record names
//	       yet
//	queue  one update of the computation's record makes it the next list. From
//	       here on it is never lost, and the request is answered
//	count  when its turn has come, it is compared with the list before it
//	send   calls are made of the differences and stored in the journal; the record
//	       is told of each batch
//	done   one update of the record makes it the current list, and the one before
//	       it is deleted
//
// The differences of two lists, and the messageIds of their calls, are the same
// each time: a send that is begun again makes the same calls.

// sortsAtOnce is how many lists are read at once, each with roster.DefaultMemory.
const sortsAtOnce = 4

// StartSync takes the list of an audience's members, or of a trait's values. The
// destination is told those that it does not know yet, and those that it knows and that
// are in the list no more: an identify call for each, with the trait SnakeCase(Name). Its
// value is true or false for an audience; a user without a value of a trait any more gets
// null.
//
// When it returns nil, the list is as durable as the State of the Config; its calls are
// made in the background, also after a restart, and after those of syncs of this
// audience that came before. The Sync says how far that is; WaitSync waits for it. Its
// calls are delivered as others are, and failed ones are listed as theirs.
//
// Calls of one user can overtake each other on their way to a webhook when one
// is tried again. The one with the highest timestamp counts; the timestamps of
// later syncs are always higher.
//
// The list may be far larger than memory.
func (u *Service) StartSync(ctx context.Context, r SyncRequest) (Sync, error) {
	if u.work.stopping() {
		return Sync{}, state.ErrClosed
	}
	target, err := u.computationOf(r)
	if err != nil {
		return Sync{}, err
	}
	select {
	case u.sorts <- struct{}{}:
		defer func() { <-u.sorts }()
	case <-ctx.Done():
		return Sync{}, ctx.Err()
	}
	sorted, err := roster.Sort(readList(r.Kind, r.List), u.config.TempDir, 0)
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: the list of %s %q: %w", r.Kind, r.Name, err)
	}
	defer sorted.Close()
	before, err := u.loadComputation(ctx, target.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return Sync{}, err
	}
	if err := before.checkKind(target); err != nil {
		return Sync{}, err
	}
	if r.DryRun {
		return u.dryRun(ctx, before, withValues(sorted), r)
	}
	list, err := u.upload(ctx, target.ID, withValues(sorted))
	if err != nil {
		return Sync{}, err
	}
	if list.Users == 0 && !r.AllowEmpty {
		return Sync{}, emptyList(r)
	}
	return u.enqueue(ctx, target, list, Sync{Full: r.Full})
}

// computationOf returns what a request is for, and checks that its calls have
// somewhere to go.
func (u *Service) computationOf(r SyncRequest) (computationRecord, error) {
	settings := u.config.Settings()
	key := SnakeCase(r.Name)
	problem := ""
	switch {
	case len(r.Name) > MaxComputationName:
		problem = fmt.Sprintf("has %d bytes", len(r.Name))
	case key == "":
		problem = fmt.Sprintf("is %q, which has no letter and no digit", r.Name)
	case !utf8.ValidString(r.Name):
		problem = fmt.Sprintf("is %q, which is not UTF-8", r.Name)
	}
	if problem != "" {
		return computationRecord{}, &webhook.FieldError{Field: "name", Problem: problem,
			Hint: fmt.Sprintf("name the %s in 1 to %d bytes, such as Big Spenders", r.Kind, MaxComputationName)}
	}
	source, err := u.oneSource(settings, r.Source)
	if err != nil {
		return computationRecord{}, err
	}
	destination, err := oneDestination(settings, source, r.Destination)
	if err != nil {
		return computationRecord{}, err
	}
	return computationRecord{claim: claim{Secret: rand.Text()}, Computation: Computation{
		ID: text.Digest(source, destination, key), Kind: r.Kind, Name: r.Name, Key: key, Source: source, Destination: destination,
	}}, nil
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

func emptyList(r SyncRequest) error {
	return fmt.Errorf("%w: it would take every user out of %s %q; set allowEmpty if that is meant", ErrEmptyList, r.Kind, r.Name)
}

// dryRun counts what a list would change, had all that are queued been sent.
func (u *Service) dryRun(ctx context.Context, before computationRecord, list roster.Seq, r SyncRequest) (Sync, error) {
	dry := Sync{DryRun: true, Full: r.Full, RequestedAt: time.Now()}
	var err error
	if dry.Users, err = roster.Count(list); err != nil {
		return Sync{}, fmt.Errorf("mockserver: %w", err)
	}
	if dry.Users == 0 && !r.AllowEmpty {
		return Sync{}, emptyList(r)
	}
	told := before.told()
	dry.Entered, dry.Left, err = roster.CountChanges(roster.Diff(u.salvageStored(ctx, before.ID, told[len(told)-1], roster.Empty), list, r.Full))
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: %w", err)
	}
	return dry, nil
}

// Computations returns all audiences and computed traits, by name.
func (u *Service) Computations(ctx context.Context) ([]Computation, error) {
	var records []computationRecord
	err := state.Each(ctx, u.state, computationPrefix, func(_ string, r computationRecord) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := u.withLost(ctx, records...)
	if err != nil {
		return nil, err
	}
	err = lostRecords(ctx, u, computationPrefix, func(_ string, c Computation) error {
		all = append(all, c.withoutRecord())
		return nil
	})
	slices.SortFunc(all, func(a, b Computation) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return all, err
}

// withoutRecord returns a computation of which only the name is left.
func (c Computation) withoutRecord() Computation {
	c.LostRecord, c.Syncs = true, []Sync{}
	return c
}

// Computation returns the audience or computed trait of an ID, or state.ErrUnknown.
func (u *Service) Computation(ctx context.Context, id string) (Computation, error) {
	r, err := u.knownComputation(ctx, id)
	if err != nil || r.LostRecord {
		return r.Computation, err
	}
	all, err := u.withLost(ctx, r)
	if err != nil {
		return Computation{}, err
	}
	return all[0], nil
}

func (u *Service) knownComputation(ctx context.Context, id string) (computationRecord, error) {
	r, err := computationRecord{}, state.ErrNotFound
	if text.IsDigest(id) {
		r, err = u.loadComputation(ctx, id)
	}
	if errors.Is(err, state.ErrNotFound) && text.IsDigest(id) {
		var name Computation
		name, err = lostRecord[Computation](ctx, u, computationKey(id))
		r.Computation = name.withoutRecord()
	}
	if errors.Is(err, state.ErrNotFound) {
		err = fmt.Errorf("%w: there is no audience or trait with the ID %q", state.ErrUnknown, id)
	}
	return r, err
}

// Sync returns the sync of an ID, or state.ErrUnknown, also where newer ones have
// displaced it.
func (u *Service) Sync(ctx context.Context, id string) (Sync, error) {
	all, err := u.knownComputation(ctx, computationOfSync(id))
	if err != nil && !errors.Is(err, state.ErrUnknown) {
		return Sync{}, err
	}
	for _, s := range all.Syncs {
		if s.ID == id {
			return s, nil
		}
	}
	return Sync{}, fmt.Errorf("%w: there is no sync with the ID %q", state.ErrUnknown, id)
}

// computationOfSync returns the ID of a sync's computation.
func computationOfSync(id string) string {
	computation, _, _ := strings.Cut(id, "-")
	return computation
}

// WaitSync waits until all calls of a sync are in the journal. When ctx ends
// first, it returns how far it is, and an error.
func (u *Service) WaitSync(ctx context.Context, id string) (Sync, error) {
	var s Sync
	err := u.await(ctx, computationKey(computationOfSync(id)), func() (done bool, err error) {
		s, err = u.Sync(context.WithoutCancel(ctx), id)
		return s.State == SyncDone, err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("mockserver: waited for sync %s, which has sent %d of %d calls: %w", id, s.Sent, s.Calls(), err)
	}
	return s, err
}

// ForgetComputation forgets an audience or a computed trait, with what its
// destination was told and the syncs that wait. Nothing is sent. The next sync
// is then a first one. It is state.ErrUnknown where there is none.
func (u *Service) ForgetComputation(ctx context.Context, id string) error {
	r, err := u.knownComputation(ctx, id)
	if err != nil {
		return err
	}
	if err := u.deleteNamed(ctx, computationKey(id)); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	u.deleteLists(id, r.lists()...)
	return nil
}
