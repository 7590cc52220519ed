package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A ComputationKind says what a computation is.
type ComputationKind string

// The kinds of computations.
const (
	KindAudience ComputationKind = "audience"
	KindTrait    ComputationKind = "trait"
)

// A Computation is an audience or a computed trait at a destination.
type Computation struct {
	ID          string          `json:"id"`
	Kind        ComputationKind `json:"kind"`
	Name        string          `json:"name"`
	Key         string          `json:"key"` // of the trait that the destination gets
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	// Users is how many the destination was told of: the members of an audience,
	// or those who have a value.
	Users int64 `json:"users"`
	// Syncs are those that are done, of which the last 20 are kept, and then those
	// that are not, in their order.
	Syncs []Sync `json:"syncs"`
}

// A SyncState says how far a sync is.
type SyncState string

// The states of a sync.
const (
	SyncQueued  SyncState = "queued"  // it waits for its turn
	SyncRunning SyncState = "running" // its calls are being made
	SyncDone    SyncState = "done"    // all its calls are in the journal
)

// A Sync is one list of an audience or a computed trait, and what came of it.
type Sync struct {
	ID          string    `json:"id"` // empty of a dry run
	Number      int       `json:"number"`
	State       SyncState `json:"state,omitempty"` // empty of a dry run
	RequestedAt time.Time `json:"requestedAt"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
	// Timestamp is that of all its calls, in whole milliseconds. It is higher than
	// that of the sync before.
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Users is how many are in the list.
	Users int64 `json:"users"`
	// Entered is for how many users a value is sent, and Left to how many it is
	// sent that they are members no more, or have no value. They are zero until
	// StartedAt.
	Entered int64 `json:"entered"`
	Left    int64 `json:"left"`
	// Sent is how many of their calls are in the journal.
	Sent int64 `json:"sent"`
	// Waiting says what a running sync waits for, if it does.
	Waiting string `json:"waiting,omitempty"`
	Full    bool   `json:"full,omitempty"`
	DryRun  bool   `json:"dryRun,omitempty"`
	// Deletion is the ID of the deletion request whose users were taken out of the
	// list, if this is no list but that. Left is then how many they were; they are
	// not told of it.
	Deletion string `json:"deletion,omitempty"`
}

// Calls returns how many calls the sync makes; zero until StartedAt.
func (s Sync) Calls() int64 { return s.Entered + s.Left }

// Errors that syncs answer with, wrapped.
var (
	// ErrEmptyList says that a list has no users, and that AllowEmpty was not set.
	ErrEmptyList = errors.New("mockserver: the list is empty")

	// ErrTooManySyncs says that too many syncs of an audience or trait wait.
	ErrTooManySyncs = errors.New("mockserver: too many syncs wait for their turn")

	errForgotten = errors.New("mockserver: it was forgotten while its list was read")
)

// Computations returns all audiences and computed traits, by name.
func (u *Service) Computations(ctx context.Context) ([]Computation, error) {
	ids, err := u.syncs.ids(ctx)
	if err != nil {
		return nil, err
	}
	var all []Computation
	for _, id := range ids {
		r, err := u.syncs.load(ctx, id)
		if errors.Is(err, state.ErrNotFound) || r.Last.Number == 0 {
			continue // forgotten meanwhile, or never synced
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.public())
	}
	slices.SortFunc(all, func(a, b Computation) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return all, nil
}

// Computation returns the audience or computed trait of an ID, or state.ErrUnknown.
func (u *Service) Computation(ctx context.Context, id string) (Computation, error) {
	r, err := computationRecord{}, state.ErrNotFound
	if digest.Valid(id) {
		r, err = u.syncs.load(ctx, id)
	}
	if errors.Is(err, state.ErrNotFound) || err == nil && r.Last.Number == 0 {
		return Computation{}, fmt.Errorf("%w: there is no audience or trait with the ID %q", state.ErrUnknown, id)
	}
	return r.public(), err
}

// Sync returns the sync of an ID, or state.ErrUnknown, also where newer ones have
// displaced it.
func (u *Service) Sync(ctx context.Context, id string) (Sync, error) {
	computation, _, _ := strings.Cut(id, "-")
	all, err := u.Computation(ctx, computation)
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

// WaitSync waits until all calls of a sync are in the journal. When ctx ends
// first, it returns how far it is, and an error.
func (u *Service) WaitSync(ctx context.Context, id string) (Sync, error) {
	var s Sync
	err := u.syncs.changed.await(ctx, func() (done bool, err error) {
		s, err = u.Sync(context.WithoutCancel(ctx), id)
		return s.State == SyncDone, err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("mockserver: waited for sync %s, which has sent %d of %d calls: %w", id, s.Sent, s.Entered+s.Left, err)
	}
	return s, err
}

// ForgetComputation forgets an audience or a computed trait, with what its
// destination was told and the syncs that wait. Nothing is sent. The next sync
// is then a first one. It is state.ErrUnknown where there is none.
func (u *Service) ForgetComputation(ctx context.Context, id string) error {
	if _, err := u.Computation(ctx, id); err != nil {
		return err
	}
	err := u.syncs.state.Delete(ctx, recordKey(id))
	if err == nil {
		err = u.syncs.state.Delete(ctx, "segment."+id)
	}
	if err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	u.syncs.changed.tell()
	return nil
}

// A computationRecord is what is stored of a computation, under recordKey.
type computationRecord struct {
	ID          string          `json:"id"`
	Kind        ComputationKind `json:"kind"`
	Name        string          `json:"name"`
	Key         string          `json:"key"`
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	// Secret goes into the messageIds, so that no sender can guess them: a call
	// with such an ID would keep ours from being taken.
	Secret  string       `json:"secret"`
	Last    Sync         `json:"last"`    // of all that were queued
	Current storedList   `json:"current"` // what the destination was told
	Queue   []queuedSync `json:"queue,omitempty"`
	Done    []Sync       `json:"done,omitempty"`
	Uploads []upload     `json:"uploads,omitempty"` // under way
	Lease   workLease    `json:"lease,omitzero"`
}

// A storedList is a roster in the State, under segmentKey.
type storedList struct {
	Upload   string `json:"upload,omitempty"` // empty for the empty list
	Segments int    `json:"segments,omitempty"`
	Users    int64  `json:"users,omitempty"`
}

type queuedSync struct {
	Sync
	List    storedList `json:"list"`
	Counted bool       `json:"counted,omitempty"`
}

type upload struct {
	ID       string    `json:"id"`
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
}

func (r computationRecord) public() Computation {
	c := Computation{
		ID: r.ID, Kind: r.Kind, Name: r.Name, Key: r.Key, Source: r.Source, Destination: r.Destination,
		Users: r.Current.Users, Syncs: append([]Sync{}, r.Done...),
	}
	for _, q := range r.Queue {
		c.Syncs = append(c.Syncs, q.Sync)
	}
	return c
}

// matches reports whether a record, if there is one, is of the same kind.
func (r computationRecord) matches(stored computationRecord) error {
	if stored.ID == "" || stored.Kind == r.Kind {
		return nil
	}
	return fmt.Errorf("%w: the trait %q at destination %q is that of the %s %q", state.ErrExists, r.Key, r.Destination, stored.Kind, stored.Name)
}

// next makes a sync the one after the last.
func (r computationRecord) next(sync Sync, now time.Time) Sync {
	sync.Number, sync.State, sync.RequestedAt = r.Last.Number+1, SyncQueued, now
	sync.ID = fmt.Sprintf("%s-%d", r.ID, sync.Number)
	sync.Timestamp = now.Truncate(time.Millisecond)
	if !sync.Timestamp.After(r.Last.Timestamp) {
		sync.Timestamp = r.Last.Timestamp.Add(time.Millisecond)
	}
	return sync
}

// context names the computation in its calls. personas has the form in which the
// service itself names audiences and traits there.
func (r computationRecord) context(number int) map[string]any {
	return map[string]any{
		string(r.Kind): map[string]any{"name": r.Name, "key": r.Key, "sync": number},
		"personas":     map[string]any{"computation_class": r.Kind, "computation_id": r.ID, "computation_key": r.Key},
	}
}

// uploads returns the stored lists that are needed.
func (r computationRecord) uploads() map[string]bool {
	needed := map[string]bool{r.Current.Upload: true}
	for _, q := range r.Queue {
		needed[q.List.Upload] = true
	}
	for _, u := range r.Uploads {
		needed[u.ID] = true
	}
	return needed
}

// struck reports whether the users of a deletion request were taken out of the
// list, or will be.
func (r computationRecord) struck(request string) bool {
	return slices.ContainsFunc(r.public().Syncs, func(s Sync) bool { return s.Deletion == request })
}

const recordPrefix = "computation"

func recordKey(id string) string { return recordPrefix + "." + id }

func segmentsKey(id, upload string) string { return "segment." + id + "." + upload }

func segmentKey(id, upload string, n int) string {
	return fmt.Sprintf("%s.%d", segmentsKey(id, upload), n)
}

// ids returns those of all computations.
func (s *syncs) ids(ctx context.Context) ([]string, error) {
	return state.Keys(ctx, s.state, recordPrefix)
}

// load returns the record of a computation, or ErrNotFound.
func (s *syncs) load(ctx context.Context, id string) (computationRecord, error) {
	var r computationRecord
	_, err := state.Load(ctx, s.state, recordKey(id), &r)
	return r, err
}

// update changes the record of a computation, which is empty if there is none.
func (s *syncs) update(ctx context.Context, id string, change func(*computationRecord) error) (computationRecord, error) {
	r, err := state.Update(ctx, s.state, recordKey(id), change)
	if err == nil {
		s.changed.tell()
	}
	return r, err
}

// Limits of audiences and computed traits.
const (
	// MaxUserIDBytes is how long a user ID in a list may be.
	MaxUserIDBytes = 1024
	// MaxTraitBytes is how long the value of a computed trait may be as JSON.
	MaxTraitBytes = 16 << 10
	// MaxComputationName is how many bytes the name of an audience or a computed
	// trait may have.
	MaxComputationName = 255
)

// SnakeCase returns a name in snake_case: the key of the trait that an audience
// or a computed trait sets.
//
//   - Words are letters, digits and their marks, in lower case, of any script;
//     whatever is between them becomes one underscore.
//   - An apostrophe within a word is left out.
//   - A capital begins a word after a small letter or a digit ("bigSpender"), and
//     after capitals when a small letter follows it ("HTTPServer").
//   - Digits stay with the letters before and after them ("top10", "1st").
//
// A name without letters and digits gives "". SnakeCase of its own result is
// that result.
func SnakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	gap := false
	for i, r := range runes {
		switch {
		case isApostrophe(r) && i > 0 && i+1 < len(runes) && isWord(runes[i-1]) && isWord(runes[i+1]):
			continue
		case !isWord(r):
			gap = true
			continue
		}
		if b.Len() > 0 && (gap || beginsWord(runes, i)) {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

func isApostrophe(r rune) bool { return r == '\'' || r == '\u2019' || r == '\u02BC' }

// isCapital reports whether a letter has a small one: some capitals of mathematics
// have none, and would begin a word again in the result.
func isCapital(r rune) bool { return unicode.ToLower(r) != r }

// beginsWord reports whether the capital at i begins a word though nothing is
// between it and the letter before.
func beginsWord(runes []rune, i int) bool {
	before := i - 1
	for before > 0 && unicode.IsMark(runes[before]) {
		before--
	}
	switch {
	case !isCapital(runes[i]) || before < 0 || !isWord(runes[before]):
		return false
	case !isCapital(runes[before]):
		return true
	}
	after := i + 1
	for after < len(runes) && unicode.IsMark(runes[after]) {
		after++
	}
	return after < len(runes) && unicode.IsLower(runes[after])
}
