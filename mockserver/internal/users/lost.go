package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// repair replaces the lists of the sync with copies without the lost entries, counts the lost
// users, and restarts the sync. If no users are lost, it returns cause.
//
// For users lost from the current list, calls are created as if the destination did not know them.
// Users lost from the next list may still be members, so their entries of the current list are
// kept, except if this sync has already created a call for the user.
func (w *syncWork) repair(ctx context.Context, cause error) error {
	before, given := w.record.Current, w.list()
	current, lost, err := w.salvage(ctx, before, roster.Empty)
	if err != nil {
		return err
	}
	fill := roster.Empty
	if w.sync().Deletion == "" {
		fill = roster.Filter(w.salvageStored(ctx, w.record.ID, before, roster.Empty), func(e roster.Entry) bool { return !w.hasCall(w.record, e.User) })
	}
	next, lostNext, err := w.salvage(ctx, given, fill)
	if err != nil {
		return err
	}
	if lost += lostNext; lost == 0 {
		return cause
	}
	err = w.note(ctx, func(r *computationRecord) {
		r.Current, r.Users, r.Queue[0] = current, current.Users, next
		r.next().LostUsers += lost
		r.next().Sent = 0
	})
	if err != nil {
		return err
	}
	w.config.Logger.Error("users of a list were lost because stored data is corrupt; the other users are processed",
		"kind", w.record.Kind, "name", w.record.Name, "destination", w.record.Destination, "sync", w.sync().ID, "users", lost)
	for _, list := range []storedList{before, given} {
		if list != current && list != next {
			w.deleteLists(w.record.ID, list)
		}
	}
	return nil
}

// salvage stores a copy of a list without its lost segments. It returns the copy and the number of
// lost users.
func (w *syncWork) salvage(ctx context.Context, list storedList, fill roster.Seq) (whole storedList, lost int64, err error) {
	rest, err := roster.Count(w.salvageStored(ctx, w.record.ID, list, roster.Empty))
	if err != nil || rest == list.Users {
		return list, 0, err
	}
	whole, err = w.upload(ctx, w.record.ID, w.salvageStored(ctx, w.record.ID, list, fill))
	return whole, list.Users - rest, err
}

// lostUsers returns the number of users lost since the last sync without lost users.
func (r computationRecord) lostUsers() (lost int64) {
	for _, s := range slices.Backward(r.Syncs) {
		if s.State == SyncDone && s.Deletion == "" && s.LostUsers == 0 {
			break
		}
		lost += s.LostUsers
	}
	return lost
}

// withLost returns computations with their numbers of lost users: users that syncs recorded as
// lost, and users of stored lists with missing segments.
func (u *Service) withLost(ctx context.Context, records ...computationRecord) ([]Computation, error) {
	keys, err := state.Keys(ctx, u.state, segmentPrefix)
	if err != nil {
		return nil, err
	}
	segments := map[string]int{} // numbers of segments by upload
	for _, key := range keys {
		if parts := strings.Split(key, "."); len(parts) == 3 {
			segments[parts[1]]++
		}
	}
	var all []Computation
	for _, r := range records {
		unknown, err := u.lostLists(ctx, r)
		if err != nil {
			return nil, err
		}
		r.LostUsers = r.lostUsers() + unknown
		for _, list := range r.lists() {
			if segments[list.Upload] >= list.Segments {
				continue
			}
			rest, err := roster.Count(u.salvageStored(ctx, r.ID, list, roster.Empty))
			switch {
			case errors.Is(err, errReplaced) || errors.Is(err, state.ErrNotFound): // the list was replaced after r was read
			case err != nil:
				return nil, err
			default:
				r.LostUsers += list.Users - rest
			}
		}
		all = append(all, r.Computation)
	}
	return all, nil
}

// lostLists returns the number of users of the newest list, if the update that added this list to
// the record is lost.
func (u *Service) lostLists(ctx context.Context, r computationRecord) (lost int64, err error) {
	name, err := loadName[Computation](ctx, u, computationKey(r.ID))
	if err == nil && len(name.Syncs) > 0 && r.lacks(name.Syncs[0]) {
		r, err = u.loadComputation(ctx, r.ID) // reads the record again, because the list may have been added since
		if err == nil && r.lacks(name.Syncs[0]) {
			lost = name.Syncs[0].Users
		}
	}
	if errors.Is(err, state.ErrNotFound) {
		err = nil
	}
	return lost, err
}

// namePrefix is the prefix of the keys of names. A name is a copy of the identity of a deletion
// request or a computation, including the newest list of the computation. Its key is namePrefix
// followed by the key of the record. It is stored after the record and deleted before it, so a
// name without a record means that the record is lost.
const namePrefix = "name"

func nameKey(key string) string { return namePrefix + "." + key }

// deleteNamed deletes a record and its name.
func (u *Service) deleteNamed(ctx context.Context, key string) error {
	if err := u.state.Delete(ctx, nameKey(key)); err != nil {
		return err
	}
	return u.state.Delete(ctx, key)
}

// lostRecords calls visit with the name of each lost record and its key without the prefix.
func lostRecords[T any](ctx context.Context, u *Service, prefix string, visit func(key string, name T) error) error {
	keys, err := state.Keys(ctx, u.state, nameKey(prefix))
	if err != nil {
		return err
	}
	for _, key := range keys {
		name, err := lostRecord[T](ctx, u, prefix+"."+key)
		if errors.Is(err, state.ErrNotFound) {
			continue
		}
		if err == nil {
			err = visit(key, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostRecord returns the name of a lost record. It returns state.ErrNotFound if the record is not
// lost, was never stored, or if its name is lost as well.
func lostRecord[T any](ctx context.Context, u *Service, key string) (name T, err error) {
	if kind, id, _ := strings.Cut(key, "."); kind == deletionPrefix {
		_, err = u.loadDeletion(ctx, id)
	} else {
		_, err = u.loadComputation(ctx, id)
	}
	if errors.Is(err, state.ErrNotFound) {
		return loadName[T](ctx, u, key)
	}
	if err == nil {
		err = state.ErrNotFound
	}
	return name, err
}

// loadName returns the name of a record. It returns state.ErrNotFound if the name is lost.
func loadName[T any](ctx context.Context, u *Service, key string) (T, error) {
	name, err := state.Load[T](ctx, u.state, nameKey(key))
	if errors.Is(err, state.ErrUnreadable) {
		err = fmt.Errorf("%w: %w", state.ErrNotFound, err)
	}
	return name, err
}

// A LostList is a deletion request, an audience or a trait that has lost users because an operator
// accepted a corrupt store.
type LostList struct {
	Kind        string `json:"kind"` // deletion, audience or trait
	Name        string `json:"name"` // name, or ID of the deletion request
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// LostUsers is the number of lost users. If the record of an audience or a trait is lost,
	// the number is unknown, and LostUsers is 0.
	LostUsers int64 `json:"lostUsers"`
	// LostRecord reports that the record of the list is lost, with all of its users.
	LostRecord bool `json:"lostRecord,omitempty"`
}

// String describes the loss.
func (l LostList) String() string {
	kind, name := l.Kind, fmt.Sprintf("%q", l.Name)
	if l.Destination != "" {
		name += fmt.Sprintf(" of source %s at destination %s", l.Source, l.Destination)
	}
	if kind == lostDeletion {
		kind = "deletion request"
	}
	switch {
	case l.LostRecord:
		return fmt.Sprintf("%s %s: the record of this list was lost; send the list again", kind, name)
	case l.Kind == lostDeletion:
		return fmt.Sprintf("%s %s: users lost: %d; send the whole list again under another ID", kind, name, l.LostUsers)
	}
	return fmt.Sprintf("%s %s: users lost: %d; send the list again", kind, name, l.LostUsers)
}

const lostDeletion = "deletion"

// Lost returns the deletion requests and lists that have lost users.
func (u *Service) Lost(ctx context.Context) ([]LostList, error) {
	lost := []LostList{}
	deletions, err := u.Deletions(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range deletions {
		if d.LostUsers > 0 {
			lost = append(lost, LostList{lostDeletion, d.ID, d.Source, "", int64(d.LostUsers), d.LostRecord})
		}
	}
	computations, err := u.Computations(ctx)
	for _, c := range computations {
		if c.LostUsers > 0 || c.LostRecord {
			lost = append(lost, LostList{string(c.Kind), c.Name, c.Source, c.Destination, c.LostUsers, c.LostRecord})
		}
	}
	return lost, err
}
