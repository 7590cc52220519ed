package users

import (
	"errors"
	"io"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A ComputationKind is the kind of a computation.
type ComputationKind string

// Kinds of computations.
const (
	KindAudience ComputationKind = event.Audience
	KindTrait    ComputationKind = event.Trait
)

// A Computation is an audience or a computed trait at a destination.
type Computation struct {
	ID          string          `json:"id"`
	Kind        ComputationKind `json:"kind"`
	Name        string          `json:"name"`
	Key         string          `json:"key"` // trait key at the destination
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	// Users is the number of users in the last list that was sent.
	Users int64 `json:"users"`
	// LostUsers is the number of users whose stored entries were lost since the last complete
	// sync, because an operator accepted a corrupt store.
	LostUsers int64 `json:"lostUsers,omitempty"`
	// LostRecord reports that the record was lost because an operator accepted a corrupt store.
	// The lists and syncs are lost as well, so the next list is sent completely.
	LostRecord bool `json:"lostRecord,omitempty"`
	// Syncs contains the last 20 completed syncs, followed by the running and queued syncs.
	Syncs []Sync `json:"syncs"`
}

// A SyncRequest uploads a list of an audience or a computed trait for a destination.
type SyncRequest struct {
	Kind ComputationKind
	// Name is the name of the audience or trait, such as "Big Spenders". Names with the same
	// SnakeCase are the same name.
	Name string
	// Source is the source of the users. Defaults to the only source.
	Source string
	// Destination gets the calls. Defaults to the only destination that is enabled and
	// connected to the source.
	Destination string
	// List has one line per user, in any order. A line of an audience is the user ID, including
	// any white space. A line of a trait is a JSON object such as {"userId":"u1","value":42}.
	// Values are compared in canonical form, so 1.0 equals 1. If a user has several lines, the
	// last one applies. A null value means no value. Empty lines, carriage returns at the end of
	// lines and a byte order mark are ignored.
	List io.Reader

	// DryRun counts the calls without sending or storing anything.
	DryRun bool
	// Full also sends unchanged values, for a destination that has lost its data.
	Full bool
	// AllowEmpty accepts a list without users. By default, such a list is an error, because it
	// usually results from a failed query.
	AllowEmpty bool
}

// A SyncState is the progress of a sync.
type SyncState string

// States of a sync, in this order.
const (
	SyncQueued  SyncState = "queued"  // waits for earlier syncs
	SyncRunning SyncState = "running" // its calls are being created
	SyncDone    SyncState = "done"    // all its calls are in the journal
)

// A Sync is one list of an audience or a computed trait, and its progress.
type Sync struct {
	ID          string    `json:"id"` // empty for a dry run
	Number      int       `json:"number"`
	State       SyncState `json:"state,omitempty"` // empty for a dry run
	RequestedAt time.Time `json:"requestedAt"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
	// Timestamp is the timestamp of all calls of the sync, in whole milliseconds. It is later
	// than the timestamp of the previous sync.
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Users is the number of users in the list.
	Users int64 `json:"users"`
	// Entered is the number of users with a new value, and Left the number of users who are
	// no longer members or no longer have a value. Both are zero before StartedAt.
	Entered int64 `json:"entered"`
	Left    int64 `json:"left"`
	// Sent is the number of calls in the journal.
	Sent int64 `json:"sent"`
	// LostUsers is the number of users of this list and the previous list whose stored entries
	// were lost because an operator accepted a corrupt store. Other users are not affected. To
	// notify the destination of the lost users, send the list again.
	LostUsers int64 `json:"lostUsers,omitempty"`
	// Waiting is the reason why a running sync waits, or empty.
	Waiting string `json:"waiting,omitempty"`
	Full    bool   `json:"full,omitempty"`
	DryRun  bool   `json:"dryRun,omitempty"`
	// Deletion is the ID of a deletion request if the sync removes the users of this request.
	// Left is then the number of removed users, and the sync creates no calls.
	Deletion string `json:"deletion,omitempty"`
}

// Calls returns the number of calls of the sync. It is zero before StartedAt.
func (s Sync) Calls() int64 { return s.Entered + s.Left }

// A DeletionRequest requests the deletion of users. [Service.DeleteUsers] notifies each
// destination that received their data with {type, userId, timestamp}, once for each user and
// source.
type DeletionRequest struct {
	// ID makes the request idempotent. Defaults to a random ID.
	ID string `json:"id,omitempty"`
	// UserIDs are the users, up to MaxDeletionUsers. Duplicates are ignored.
	UserIDs []string `json:"userIds"`
	// Source is the source of the users. Defaults to all sources.
	Source string `json:"source,omitempty"`
}

// A Deletion is a deletion request and its progress.
type Deletion struct {
	ID          string    `json:"id"`
	RequestedAt time.Time `json:"requestedAt"`
	// CompletedAt is the time when every notification had been delivered or had failed; see
	// Targets.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Users is the number of users.
	Users  int    `json:"users"`
	Source string `json:"source,omitempty"`
	// LostUsers is the number of users whose stored IDs were lost because an operator accepted
	// a corrupt store. Their notifications may be missing; other users are not affected. To
	// notify the destinations, request the deletion again under another ID.
	LostUsers int `json:"lostUsers,omitempty"`
	// LostRecord reports that the record of the request was lost because an operator accepted a
	// corrupt store. The request can be made again under its ID.
	LostRecord bool `json:"lostRecord,omitempty"`
	// Targets contains the results of each destination, for each source.
	Targets []DeletionTarget `json:"targets"`
}

// Sums returns the sums over all targets.
func (d Deletion) Sums() (sums event.Counts) {
	for _, t := range d.Targets {
		for state := tracking.StatePending; state <= tracking.StateFiltered; state++ {
			*sums.Of(state) += *t.Of(state)
		}
	}
	return sums
}

// A DeletionTarget counts the results of one source's notifications at one destination. The sum
// of the counts is the number of users.
type DeletionTarget struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	event.Counts
}

// A DeletionOutcome is the result of one notification.
type DeletionOutcome struct {
	UserID      string `json:"userId"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	MessageID   string `json:"messageId"`
	tracking.Outcome
	// Attempt is the number of the last attempt, or 0 before the first attempt. At is the time of
	// the result.
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// An OutcomeFilter selects notifications by user, source, destination and state. An empty field
// selects all.
type OutcomeFilter struct {
	UserIDs, Sources, Destinations []string
	States                         []tracking.State
}

// Limits of audiences, computed traits and deletion requests.
const (
	// MaxUserIDBytes is the maximum length of a user ID.
	MaxUserIDBytes = 1024
	// maxTraitBytes is the maximum length of the value of a computed trait in canonical JSON.
	maxTraitBytes = 16 << 10
	// maxComputationName is the maximum length in bytes of the name of an audience or a
	// computed trait.
	maxComputationName = 255
	// MaxDeletionUsers is the maximum number of users of a deletion request.
	MaxDeletionUsers = 10_000
	// maxDeletionID is the maximum length in bytes of the ID of a deletion request.
	maxDeletionID = 255
	// DeletionKept is how long a completed deletion request is retained. Its ID may be used
	// again afterwards.
	DeletionKept = 30 * 24 * time.Hour
)

// Errors of syncs. They may be wrapped.
var (
	// ErrEmptyList reports a list without users if AllowEmpty is not set.
	ErrEmptyList = errors.New("mockserver: the list is empty")

	// ErrTooManySyncs reports that too many syncs of an audience or trait are queued.
	ErrTooManySyncs = errors.New("mockserver: too many syncs are queued")
)
