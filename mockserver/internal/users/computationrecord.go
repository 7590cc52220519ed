package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A computationRecord is the stored record of a computation, under computationKey.
type computationRecord struct {
	Computation
	claim
	Current storedList   `json:"current"`         // the last list that was sent
	Queue   []storedList `json:"queue,omitempty"` // lists of unfinished syncs; the list of a deletion request contains the users to remove
}

// A storedList refers to a roster in the State.
type storedList struct {
	Upload   string `json:"upload,omitempty"` // empty for the empty list
	Segments int    `json:"segments,omitempty"`
	Users    int64  `json:"users,omitempty"`
}

const (
	maxQueuedSyncs = 16 // maximum number of unfinished syncs per computation
	keptSyncs      = 20 // number of retained syncs that are done
)

// Whole implements state.Record.
func (r computationRecord) Whole() bool {
	return r.ID != "" && r.Secret != "" && len(r.Queue) <= len(r.Syncs)
}

// done returns the number of syncs that are done.
func (r computationRecord) done() int { return len(r.Syncs) - len(r.Queue) }

// next returns the first sync that is not done.
func (r computationRecord) next() *Sync { return &r.Syncs[r.done()] }

// checkKind returns an error if the other record is of another kind.
func (r computationRecord) checkKind(of computationRecord) error {
	if r.ID == "" || r.Kind == of.Kind {
		return nil
	}
	return fmt.Errorf("%w: the trait %q of destination %q is already used by the %s %q", state.ErrExists, r.Key, r.Destination, r.Kind, r.Name)
}

// enqueue adds a list to the queue and returns its sync with an ID and a state.
func (r *computationRecord) enqueue(list storedList, sync Sync) Sync {
	now := time.Now().UTC()
	var last Sync
	if len(r.Syncs) > 0 {
		last = r.Syncs[len(r.Syncs)-1]
	}
	sync.Number, sync.State, sync.RequestedAt, sync.Users = last.Number+1, SyncQueued, now, list.Users
	sync.ID = fmt.Sprintf("%s-%d", r.ID, sync.Number)
	sync.Timestamp = now.Truncate(time.Millisecond)
	if !sync.Timestamp.After(last.Timestamp) {
		sync.Timestamp = last.Timestamp.Add(time.Millisecond)
	}
	r.Syncs = append(r.Syncs, sync)
	r.Queue = append(r.Queue, list)
	return sync
}

// finish completes the first sync in the queue, and makes list the current one.
func (r *computationRecord) finish(list storedList) {
	sync := r.next()
	if sync.Deletion != "" {
		sync.Users, sync.Left = list.Users, r.Current.Users-list.Users
	}
	sync.State, sync.FinishedAt = SyncDone, time.Now().UTC()
	r.Queue = r.Queue[1:]
	r.Syncs = r.Syncs[max(0, r.done()-keptSyncs):]
	r.Current, r.Users = list, list.Users
	r.end()
}

// context returns the context of a sync's calls. The field personas has the format that the
// service uses for its audiences and traits.
func (r computationRecord) context(sync int) map[string]any {
	return map[string]any{
		string(r.Kind): map[string]any{"name": r.Name, "key": r.Key, "sync": sync},
		"personas":     map[string]any{"computation_class": r.Kind, "computation_id": r.ID, "computation_key": r.Key},
	}
}

// lists returns all stored lists of the record.
func (r computationRecord) lists() []storedList {
	return append([]storedList{r.Current}, r.Queue...)
}

// announced returns the lists that the destination has received or will receive, in order.
func (r computationRecord) announced() []storedList {
	lists := []storedList{r.Current}
	for i, q := range r.Queue {
		if r.Syncs[r.done()+i].Deletion == "" {
			lists = append(lists, q)
		}
	}
	return lists
}

// begun returns the timestamp of the last sync that is done or running, or the zero time if
// there is none.
func (r computationRecord) begun() time.Time {
	begun := r.done()
	if len(r.Queue) > 0 && r.next().State == SyncRunning {
		begun++
	}
	if begun == 0 {
		return time.Time{}
	}
	return r.Syncs[begun-1].Timestamp
}

// latest returns the last list for which a call for the user was created, or the current list.
func (u *Service) latest(r computationRecord, user string) storedList {
	if len(r.Queue) > 0 && r.next().State == SyncRunning && r.next().Deletion == "" && u.hasCall(r, user) {
		return r.Queue[0]
	}
	return r.Current
}

// hasCall reports whether the first sync in the queue has created a call for a user.
func (u *Service) hasCall(r computationRecord, user string) bool {
	call := event.Batch{Source: r.Source, Calls: []tracking.Call{{ID: r.messageID(r.next().ID, user)}}}
	return len(u.config.Known.Without(call).Calls) == 0
}

// messageID returns the messageId of a sync's call for a user.
func (r computationRecord) messageID(sync, user string) string {
	return event.ListCallID(string(r.Kind), sync, text.Digest(r.Secret, sync, user))
}

// hasErased reports whether a sync that removes the users of a deletion request is queued or
// done.
func (r computationRecord) hasErased(request string) bool {
	return slices.ContainsFunc(r.Syncs, func(s Sync) bool { return s.Deletion == request })
}

func computationKey(id string) string { return computationPrefix + "." + id }

// loadComputation returns the record of a computation, or state.ErrNotFound.
func (u *Service) loadComputation(ctx context.Context, id string) (computationRecord, error) {
	return state.Load[computationRecord](ctx, u.state, computationKey(id))
}

// named returns the name of the record with its newest list; see namePrefix.
func (r computationRecord) named(newest Sync) Computation {
	c := r.Computation
	c.Syncs = []Sync{newest}
	return c
}

// lacks reports whether the record is missing the update that queued a sync.
func (r computationRecord) lacks(s Sync) bool {
	displaced := len(r.Syncs) > 0 && r.Syncs[0].Number > s.Number
	return !displaced && !slices.ContainsFunc(r.Syncs, func(known Sync) bool { return known.Deletion == "" && known.Timestamp.Equal(s.Timestamp) })
}

// enqueue adds an uploaded list to a computation's queue. It creates the computation if
// necessary, unless the list belongs to a deletion request.
func (u *Service) enqueue(ctx context.Context, of computationRecord, list storedList, sync Sync) (Sync, error) {
	var refused error
	_, err := state.Update(ctx, u.state, computationKey(of.ID), func(r *computationRecord) error {
		refused = r.checkKind(of)
		switch {
		case refused != nil:
		case r.ID == "" && sync.Deletion != "":
			refused = state.ErrNotFound
		case len(r.Queue) >= maxQueuedSyncs && sync.Deletion == "":
			refused = fmt.Errorf("%s %q: %w (%d)", of.Kind, of.Name, ErrTooManySyncs, len(r.Queue))
		case time.Since(uploadTime(list.Upload)) > maxUploadTime:
			refused = fmt.Errorf("mockserver: the list of %s %q could not be stored within %v", of.Kind, of.Name, maxUploadTime)
		case r.ID == "":
			*r = of
		}
		if refused != nil {
			return refused
		}
		r.Name = of.Name // several names have the same key: the newest one is shown
		sync = r.enqueue(list, sync)
		return nil
	})
	if refused != nil {
		u.deleteLists(of.ID, list) // only in this case: after other errors the list may be queued
	}
	if err == nil && sync.Deletion == "" {
		err = state.Put(ctx, u.state, nameKey(computationKey(of.ID)), of.named(sync))
	}
	if err != nil {
		return Sync{}, err
	}
	u.work.kick(computationKey(of.ID))
	return sync, nil
}

// readStored yields the entries of a stored list. The error is roster.ErrCorrupt if a segment is
// lost; see repair.
func (u *Service) readStored(ctx context.Context, id string, list storedList) roster.Seq {
	return roster.Read(list.Segments, u.segments(ctx, id, list))
}

// salvageStored yields the readable entries of a stored list. Lost segments are replaced with
// the corresponding entries of fill.
func (u *Service) salvageStored(ctx context.Context, id string, list storedList, fill roster.Seq) roster.Seq {
	return roster.Salvage(list.Segments, u.segments(ctx, id, list), fill)
}

// segments returns a function that reads the segments of a stored list.
func (u *Service) segments(ctx context.Context, id string, list storedList) func(int) ([]byte, error) {
	return func(n int) ([]byte, error) {
		segment, _, err := u.state.Get(ctx, partKey(segmentPrefix, id, list.Upload, n))
		if errors.Is(err, state.ErrNotFound) {
			err = u.missingSegment(ctx, id, list)
		}
		return segment, err
	}
}

// missingSegment returns the error for a missing segment. It is roster.ErrCorrupt if the record
// still refers to the list, and errReplaced otherwise, because a list is deleted only after its
// record refers to another list.
func (u *Service) missingSegment(ctx context.Context, id string, list storedList) error {
	r, err := u.loadComputation(ctx, id)
	if err != nil {
		return err
	}
	if !slices.Contains(r.lists(), list) {
		return errReplaced
	}
	return roster.ErrCorrupt
}

// errReplaced reports that another process has replaced the list.
var errReplaced = errors.New("mockserver: another process has replaced the list")

// upload stores a list. The caller then stores a record that refers to it.
func (u *Service) upload(ctx context.Context, id string, entries roster.Seq) (storedList, error) {
	list := storedList{Upload: u.newUpload()}
	var err error
	list.Users, list.Segments, err = roster.Write(entries, func(n int, segment []byte) error {
		return u.state.Put(ctx, partKey(segmentPrefix, id, list.Upload, n), segment)
	})
	if err != nil {
		u.deleteLists(id, list)
		return storedList{}, fmt.Errorf("mockserver: could not store a list: %w", err)
	}
	return list, nil
}

// deleteLists deletes lists that no record refers to. If it fails, clean deletes them later.
func (u *Service) deleteLists(id string, lists ...storedList) {
	ctx, cancel := context.WithTimeout(u.work.ctx, deleteTime)
	defer cancel()
	for _, list := range lists {
		if list.Upload == "" {
			continue
		}
		if err := u.state.Delete(ctx, uploadKey(segmentPrefix, id, list.Upload)); err != nil {
			u.config.Logger.Warn("could not delete an unused list; trying again later", "computation", id, "error", err)
		}
	}
}

// deleteTime is the timeout of deleteLists.
const deleteTime = 5 * time.Second
