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

// A sync has these stages. The result of each stage is stored before the next one begins, so
// another process can continue after a crash.
//
//	sort   read and sort the list, in a temporary file if it is long
//	upload store the sorted list in the State, in segments that no record refers to
//	queue  add the list to the queue with one update of the computation's record. The list is
//	       durable now, and the request returns
//	count  compare the list with the previous list when it is first in the queue
//	send   store calls for the differences in the journal, and record each batch
//	done   make the list current with one update of the record, and delete the previous list
//
// The differences of two lists and the messageIds of their calls are deterministic, so a
// repeated stage creates the same calls.

// sortsAtOnce is the maximum number of lists that are read at the same time. Each of them needs
// roster.SortMemory.
const sortsAtOnce = 4

// StartSync accepts a list of the members of an audience or of the values of a trait. The
// destination gets an identify call for each user whose membership or value has changed, with
// the trait SnakeCase(Name). Its value is true or false for an audience. It is null for a user
// who no longer has a value of a computed trait.
//
// When StartSync returns nil, the list is stored. Its calls are created in the background, even
// after a restart, after the calls of earlier syncs of this audience or trait. The Sync reports
// the progress.
//
// Because of retries, the calls of one user may be delivered out of order. Receivers must use
// the call with the latest timestamp: each sync has a later timestamp than the previous one.
//
// The list may be larger than memory.
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
	sorted, err := roster.Sort(u.stored(target.Source, readList(r.Kind, r.List)), u.config.TempDir)
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: the list of %s %q: %w", r.Kind, r.Name, err)
	}
	defer sorted.Close()
	entries := roster.Filter(sorted.All(), func(e roster.Entry) bool { return string(e.Value) != "null" })
	before, err := u.loadComputation(ctx, target.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return Sync{}, err
	}
	if err := before.checkKind(target); err != nil {
		return Sync{}, err
	}
	if r.DryRun {
		return u.dryRun(ctx, before, entries, r)
	}
	list, err := u.upload(ctx, target.ID, entries)
	if err != nil {
		return Sync{}, err
	}
	if list.Users == 0 && !r.AllowEmpty {
		return Sync{}, emptyList(r)
	}
	return u.enqueue(ctx, target, list, Sync{Full: r.Full})
}

// computationOf returns the record for a request. It checks that the source and the destination
// exist.
func (u *Service) computationOf(r SyncRequest) (computationRecord, error) {
	settings := u.config.Settings()
	key := SnakeCase(r.Name)
	problem := ""
	switch {
	case len(r.Name) > maxComputationName:
		problem = fmt.Sprintf("has %d bytes", len(r.Name))
	case key == "":
		problem = fmt.Sprintf("is %q, which has no letters or digits", r.Name)
	case !utf8.ValidString(r.Name):
		problem = fmt.Sprintf("is %q, which is not UTF-8", r.Name)
	}
	if problem != "" {
		return computationRecord{}, &webhook.FieldError{Field: "name", Problem: problem,
			Hint: fmt.Sprintf("name the %s in 1 to %d bytes, such as Big Spenders", r.Kind, maxComputationName)}
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

func emptyList(r SyncRequest) error {
	return fmt.Errorf("%w: it would remove every user from %s %q; set allowEmpty to allow this", ErrEmptyList, r.Kind, r.Name)
}

// dryRun counts the changes that a list would cause after all queued lists.
func (u *Service) dryRun(ctx context.Context, before computationRecord, list roster.Seq, r SyncRequest) (Sync, error) {
	dry := Sync{DryRun: true, Full: r.Full, RequestedAt: time.Now()}
	var err error
	if dry.Users, err = roster.Count(list); err != nil {
		return Sync{}, fmt.Errorf("mockserver: %w", err)
	}
	if dry.Users == 0 && !r.AllowEmpty {
		return Sync{}, emptyList(r)
	}
	lists := before.announced()
	dry.Entered, dry.Left, err = roster.CountChanges(roster.Diff(u.salvageStored(ctx, before.ID, lists[len(lists)-1], roster.Empty), list, r.Full))
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: %w", err)
	}
	return dry, nil
}

// Computations returns all audiences and computed traits, sorted by name.
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

// withoutRecord returns c for a computation with a lost record.
func (c Computation) withoutRecord() Computation {
	c.LostRecord, c.Syncs = true, []Sync{}
	return c
}

// Computation returns an audience or computed trait, or state.ErrUnknown.
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
		if errors.Is(err, state.ErrNotFound) {
			var name Computation
			name, err = lostRecord[Computation](ctx, u, computationKey(id))
			r.Computation = name.withoutRecord()
		}
	}
	if errors.Is(err, state.ErrNotFound) {
		err = state.Unknown("audience or trait with the ID", id)
	}
	return r, err
}

// Sync returns a sync. The error is state.ErrUnknown if the sync does not exist or has expired,
// because only the last syncs are retained.
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
	return Sync{}, state.Unknown("sync with the ID", id)
}

// computationOfSync returns the ID of a sync's computation.
func computationOfSync(id string) string {
	computation, _, _ := strings.Cut(id, "-")
	return computation
}

// DeleteComputation deletes an audience or a computed trait with its lists and queued syncs. It
// creates no calls. If the computation is created again, calls for its complete list are sent. The
// error is state.ErrUnknown if the computation does not exist.
func (u *Service) DeleteComputation(ctx context.Context, id string) error {
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
