package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A computationRecord is what is stored of a computation, under computationKey. Its
// lists are beside it.
type computationRecord struct {
	Computation
	claim
	Current storedList   `json:"current"`         // what the destination was told
	Queue   []queuedList `json:"queue,omitempty"` // of the syncs that are not done
}

// A storedList is a roster in the State, in segments.
type storedList struct {
	Upload   string `json:"upload,omitempty"` // empty for the empty list
	Segments int    `json:"segments,omitempty"`
	Users    int64  `json:"users,omitempty"`
}

// A queuedList is that of a sync that is not done.
type queuedList struct {
	storedList      // for a deletion request: the users to take out
	Counted    bool `json:"counted,omitempty"`
}

const (
	maxQueuedSyncs = 16 // of one computation
	keptSyncs      = 20 // that are done
)

// Whole implements state.Record.
func (r computationRecord) Whole() bool {
	return r.ID != "" && r.Secret != "" && len(r.Queue) <= len(r.Syncs)
}

// done returns how many of the syncs are.
func (r computationRecord) done() int { return len(r.Syncs) - len(r.Queue) }

// next returns the first sync that is not done.
func (r computationRecord) next() *Sync { return &r.Syncs[r.done()] }

// checkKind returns nil if a list is of the kind that the record has, if there is one.
func (r computationRecord) checkKind(of computationRecord) error {
	if r.ID == "" || r.Kind == of.Kind {
		return nil
	}
	return fmt.Errorf("%w: the trait %q at destination %q is that of the %s %q", state.ErrExists, r.Key, r.Destination, r.Kind, r.Name)
}

// enqueue makes a list the next one, and returns its sync.
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
	r.Queue = append(r.Queue, queuedList{storedList: list})
	return sync
}

// finish makes a list the current one, and the next sync done.
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

// context names the computation in its calls. personas has the form in which the
// service itself names audiences and traits there.
func (r computationRecord) context(sync int) map[string]any {
	return map[string]any{
		string(r.Kind): map[string]any{"name": r.Name, "key": r.Key, "sync": sync},
		"personas":     map[string]any{"computation_class": r.Kind, "computation_id": r.ID, "computation_key": r.Key},
	}
}

// lists returns the stored lists that are needed.
func (r computationRecord) lists() []storedList {
	lists := []storedList{r.Current}
	for _, q := range r.Queue {
		lists = append(lists, q.storedList)
	}
	return lists
}

// told returns the lists that the destination was or will be told, in their order.
func (r computationRecord) told() []storedList {
	lists := []storedList{r.Current}
	for i, q := range r.Queue {
		if r.Syncs[r.done()+i].Deletion == "" {
			lists = append(lists, q.storedList)
		}
	}
	return lists
}

// begun returns the number of the last sync that is done or running; 0 if there is none.
func (r computationRecord) begun() int {
	begun := r.done()
	if len(r.Queue) > 0 && r.next().State == SyncRunning {
		begun++
	}
	if begun == 0 {
		return 0
	}
	return r.Syncs[begun-1].Number
}

// telling returns the last list whose calls are made, or were.
func (r computationRecord) telling() storedList {
	if len(r.Queue) > 0 && r.next().State == SyncRunning && r.next().Deletion == "" {
		return r.Queue[0].storedList
	}
	return r.Current
}

// messageID is that of the call in which a sync tells of a user.
func (r computationRecord) messageID(sync, user string) string {
	return fmt.Sprintf("%s-%s-%s", r.Kind, sync, text.Digest(r.Secret, sync, user))
}

// hasErased reports whether the users of a deletion request were taken out of the
// list, or will be.
func (r computationRecord) hasErased(request string) bool {
	return slices.ContainsFunc(r.Syncs, func(s Sync) bool { return s.Deletion == request })
}

func computationKey(id string) string { return computationPrefix + "." + id }

// loadComputation returns the record of a computation, or state.ErrNotFound.
func (u *Service) loadComputation(ctx context.Context, id string) (computationRecord, error) {
	return state.Load[computationRecord](ctx, u.state, computationKey(id))
}

// named returns the computation as its name has it: with the newest list.
func (r computationRecord) named(newest Sync) Computation {
	c := r.Computation
	c.Syncs = []Sync{newest}
	return c
}

// lacks reports whether the record has lost the update that queued a sync.
func (r computationRecord) lacks(s Sync) bool {
	displaced := len(r.Syncs) > 0 && r.Syncs[0].Number > s.Number
	return !displaced && !slices.ContainsFunc(r.Syncs, func(known Sync) bool { return known.Deletion == "" && known.Timestamp.Equal(s.Timestamp) })
}

// enqueue makes an upload the next list of a computation. Where there is none yet, it
// makes that of the list, but not to take users out of it.
func (u *Service) enqueue(ctx context.Context, of computationRecord, list storedList, sync Sync) (Sync, error) {
	var refused error
	_, err := state.Update(ctx, u.state, computationKey(of.ID), func(r *computationRecord) error {
		refused = r.checkKind(of)
		switch {
		case refused != nil:
		case r.ID == "" && sync.Deletion != "":
			refused = state.ErrNotFound
		case len(r.Queue) >= maxQueuedSyncs && sync.Deletion == "":
			refused = fmt.Errorf("%s %q: %w: %d do", of.Kind, of.Name, ErrTooManySyncs, len(r.Queue))
		case time.Since(uploadTime(list.Upload)) > maxUploadTime:
			refused = fmt.Errorf("mockserver: the list of %s %q took more than %v to be stored", of.Kind, of.Name, maxUploadTime)
		case r.ID == "":
			*r = of
		}
		if refused != nil {
			return refused
		}
		r.Name = of.Name // names that give the same key: the newest is shown
		sync = r.enqueue(list, sync)
		return nil
	})
	if refused != nil {
		u.deleteLists(of.ID, list) // after any other error it may be queued
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

// readStored yields a stored list of a computation. The error is roster.ErrCorrupt if a
// segment is lost; see repair.
func (u *Service) readStored(ctx context.Context, id string, list storedList) roster.Seq {
	return roster.Read(list.Segments, u.segments(ctx, id, list))
}

// salvageStored yields the entries of a stored list that are not lost, and the entries of
// fill in place of the others.
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

// missingSegment returns roster.ErrCorrupt if the record still names the list: a list is
// deleted only after its record names another.
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

// errReplaced ends the reading of a list that another process has replaced.
var errReplaced = errors.New("mockserver: another process has replaced the list")

// upload stores a list of a computation, which no record names yet.
func (u *Service) upload(ctx context.Context, id string, entries roster.Seq) (storedList, error) {
	list := storedList{Upload: u.newUpload()}
	var err error
	list.Users, list.Segments, err = roster.Write(entries, func(n int, segment []byte) error {
		return u.state.Put(ctx, partKey(segmentPrefix, id, list.Upload, n), segment)
	})
	if err != nil {
		u.deleteLists(id, list)
		return storedList{}, fmt.Errorf("mockserver: a list cannot be stored: %w", err)
	}
	return list, nil
}

// deleteLists deletes lists that no record names any more, as well as it can: what stays
// is deleted by clean.
func (u *Service) deleteLists(id string, lists ...storedList) {
	ctx, cancel := context.WithTimeout(u.work.ctx, deleteTime)
	defer cancel()
	for _, list := range lists {
		if list.Upload == "" {
			continue
		}
		if err := u.state.Delete(ctx, uploadKey(segmentPrefix, id, list.Upload)); err != nil {
			u.config.Logger.Warn("a list that is not needed could not be deleted yet", "computation", id, "error", err)
		}
	}
}

// deleteTime bounds how long the deletion of lists can take.
const deleteTime = 5 * time.Second
