package users

import (
	"errors"
	"io"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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
	// LostUsers is the number of users whose stored entries were lost through corruption
	// that an operator accepted, since the last list that was sent without a loss.
	LostUsers int64 `json:"lostUsers,omitempty"`
	// LostRecord reports that the record was lost in this way, with its lists and syncs.
	// The next list is a first one.
	LostRecord bool `json:"lostRecord,omitempty"`
	// Syncs are those that are done, of which the last 20 are kept, and then those
	// that are not, in their order.
	Syncs []Sync `json:"syncs"`
}

// A SyncRequest is a list of an audience or a computed trait, for a destination that
// is to know it.
type SyncRequest struct {
	Kind ComputationKind
	// Name is that of the audience or trait, such as "Big Spenders". Names that are
	// the same in snake_case name the same one.
	Name string
	// Source is the source whose users they are. Defaults to the only one that
	// there is.
	Source string
	// Destination is the one that gets the calls. Defaults to the only one that is
	// enabled and connected to the source.
	Destination string
	// List has a line for each user, in any order and any number. One of an audience
	// is the ID of a member, taken as it stands, white space included. One of a trait
	// is a user and any JSON, {"userId":"u1","value":42}, compared in its canonical form:
	// 1.0 in place of 1 is no change. Of those of one user the last counts; null is as
	// good as no value. Empty lines count for nothing, nor does a carriage return at the
	// end of one or a byte order mark.
	List io.Reader

	// DryRun counts what would be sent, and changes and sends nothing.
	DryRun bool
	// Full also sends what the destination should know from earlier syncs, for one
	// that has lost it.
	Full bool
	// AllowEmpty takes a list without users. Otherwise it is refused: far more
	// often than an audience without members it is a query that went wrong.
	AllowEmpty bool
}

// A SyncState says how far a sync is.
type SyncState string

// The states of a sync. Each follows the one before it.
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
	// LostUsers is the number of users of this list and of the list before it whose stored
	// entries were lost through corruption that an operator accepted. The other users are
	// not affected. Send the list again to notify the destination of them.
	LostUsers int64 `json:"lostUsers,omitempty"`
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

// A DeletionRequest asks that users be deleted. [Service.DeleteUsers] notifies
// each destination that got their data: {type, userId, timestamp}, once for each
// user and source.
type DeletionRequest struct {
	// ID makes the request idempotent: one that was taken is not taken again.
	// Defaults to a random one.
	ID string `json:"id,omitempty"`
	// UserIDs are the users, up to MaxDeletionUsers. One that comes twice counts
	// once.
	UserIDs []string `json:"userIds"`
	// Source is the source whose users they are. Defaults to all sources.
	Source string `json:"source,omitempty"`
}

// A Deletion is a deletion request, and what came of it.
type Deletion struct {
	ID          string    `json:"id"`
	RequestedAt time.Time `json:"requestedAt"`
	// CompletedAt is when every notification had come to its end. One that failed
	// has come to its end too; see Targets.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Users is how many it names, and Source the one it names.
	Users  int    `json:"users"`
	Source string `json:"source,omitempty"`
	// LostUsers is the number of users whose stored names were lost through corruption
	// that an operator accepted. Their notifications may be missing; the other users are
	// not affected. Request the deletion again under another ID to notify them.
	LostUsers int `json:"lostUsers,omitempty"`
	// LostRecord reports that the record of the request was lost in this way. The request
	// can be made again under its ID.
	LostRecord bool `json:"lostRecord,omitempty"`
	// Targets are the destinations that are notified, for each source.
	Targets []DeletionTarget `json:"targets"`
}

// Sums adds up the targets.
func (d Deletion) Sums() (sums DeletionTarget) {
	for _, t := range d.Targets {
		sums.Pending += t.Pending
		sums.Delivered += t.Delivered
		sums.Failed += t.Failed
		sums.Filtered += t.Filtered
	}
	return sums
}

// A DeletionTarget counts what became of the notifications of one source at one
// destination. Their sum is the number of users.
type DeletionTarget struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Pending     int    `json:"pending"`
	Delivered   int    `json:"delivered"`
	Failed      int    `json:"failed"`
	Filtered    int    `json:"filtered"`
}

// A DeletionOutcome is what became of one notification.
type DeletionOutcome struct {
	UserID      string `json:"userId"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	MessageID   string `json:"messageId"`
	tracking.Outcome
	// Attempt is the number of the last attempt, 0 before there was one, and At
	// when its end was noted.
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// An OutcomeFilter picks notifications: those of one of its users, sources, destinations
// and states. Where it has none of a kind, it picks all of it.
type OutcomeFilter struct {
	UserIDs, Sources, Destinations []string
	States                         []tracking.State
}

// Limits of audiences, computed traits and deletion requests.
const (
	// MaxUserIDBytes is how long a user ID may be.
	MaxUserIDBytes = 1024
	// MaxTraitBytes is how long the value of a computed trait may be as JSON.
	MaxTraitBytes = 16 << 10
	// MaxComputationName is how many bytes the name of an audience or a computed
	// trait may have.
	MaxComputationName = 255
	// MaxDeletionUsers is how many users one deletion request may name.
	MaxDeletionUsers = 10_000
	// MaxDeletionID is how many bytes the ID of a deletion request may have.
	MaxDeletionID = 255
	// DeletionKept is for how long a deletion request that is done can still be asked
	// about. After that its ID may be used again.
	DeletionKept = 30 * 24 * time.Hour
)

// Errors that syncs answer with, wrapped.
var (
	// ErrEmptyList says that a list has no users, and that AllowEmpty was not set.
	ErrEmptyList = errors.New("mockserver: the list is empty")

	// ErrTooManySyncs says that too many syncs of an audience or trait wait.
	ErrTooManySyncs = errors.New("mockserver: too many syncs wait for their turn")
)
