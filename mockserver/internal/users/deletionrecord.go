package users

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A deletionRecord is what is stored of a request, under deletionKey. The users
// and the outcomes are in chunks.
type deletionRecord struct {
	ID          string           `json:"id"`
	Fingerprint string           `json:"fingerprint"` // of what was asked
	RequestedAt time.Time        `json:"requestedAt"`
	Source      string           `json:"source,omitempty"`
	Sources     []string         `json:"sources"` // that are affected, also those of no target
	Users       int              `json:"users"`
	Targets     []DeletionTarget `json:"targets"` // counted when all have ended
	// Secret goes into the messageIds, as that of a computation.
	Secret    string    `json:"secret"`
	Chunk     int       `json:"chunk"`           // users in each chunk but the last
	Ready     bool      `json:"ready,omitempty"` // the chunks are there
	Started   bool      `json:"started,omitempty"`
	Sent      int       `json:"sent,omitempty"` // calls in the journal: of all users for the first source, and so on
	SentAt    time.Time `json:"sentAt,omitzero"`
	Erased    bool      `json:"erased,omitempty"`
	Resent    int       `json:"resent,omitempty"` // how often notifications were sent again because their outcome was lost
	Completed time.Time `json:"completed,omitzero"`
	Lease     workLease `json:"lease,omitzero"`
}

// A deletionChunk is some of the users of a request.
type deletionChunk struct {
	Users []string `json:"users"`
	// Ends has one element for each target, which has one for each user.
	Ends [][]deletionEnd `json:"ends"`
}

type deletionEnd struct {
	tracking.Outcome
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

const (
	deletionPrefix = "deletion"
	// chunkOutcomes bounds the outcomes in a chunk, and chunkUsers the users, so
	// that it is no longer than MaxValue, whatever needs to be escaped.
	chunkOutcomes = 500
	chunkUsers    = 80
	// keptReason is how many bytes of an outcome's reason are kept.
	keptReason = 150
)

func deletionKey(key string) string { return deletionPrefix + "." + key }

func chunksKey(key, secret string) string { return "deletionchunk." + key + "." + secret }

func chunkKey(key, secret string, n int) string {
	return fmt.Sprintf("%s.%d", chunksKey(key, secret), n)
}

func (r deletionRecord) chunks() int { return (r.Users + r.Chunk - 1) / r.Chunk }

// sourcesNotified returns the sources of the targets, in their order.
func (r deletionRecord) sourcesNotified() []string {
	var sources []string
	for _, t := range r.Targets {
		if !slices.Contains(sources, t.Source) {
			sources = append(sources, t.Source)
		}
	}
	return sources
}

// destinations returns the targets of a source.
func (r deletionRecord) destinations(source string) []string {
	var names []string
	for _, t := range r.Targets {
		if t.Source == source {
			names = append(names, t.Destination)
		}
	}
	return names
}

const deletionIDPrefix = "delete-"

// messageID names the notification of a user, by number, and a source. It leads
// back to them: see parseMessageID.
func (r deletionRecord) messageID(key, source string, user int) string {
	return fmt.Sprintf("%s%s-%s-%d-%d", deletionIDPrefix, key, r.Secret, slices.Index(r.sourcesNotified(), source), user)
}

// find returns the user and the target that an outcome is of, by number.
func (r deletionRecord) find(key string, e tracking.Ended) (user, target int, ok bool) {
	place, ours := strings.CutPrefix(e.CallID, deletionIDPrefix+key+"-"+r.Secret+"-")
	_, number, _ := strings.Cut(place, "-")
	user, err := strconv.Atoi(number)
	if !ours || err != nil || user < 0 || user >= r.Users {
		return 0, 0, false
	}
	target = slices.IndexFunc(r.Targets, func(t DeletionTarget) bool { return t.Source == e.Source && t.Destination == e.Destination })
	return user, target, target >= 0
}

// count adds the outcomes of a chunk to the targets.
func (k deletionChunk) count(targets []DeletionTarget) {
	for t := range targets {
		for _, end := range k.Ends[t] {
			switch end.State {
			case tracking.StateDelivered:
				targets[t].Delivered++
			case tracking.StateFailed:
				targets[t].Failed++
			case tracking.StateFiltered:
				targets[t].Filtered++
			default:
				targets[t].Pending++
			}
		}
	}
}

// ended reports whether every notification of a chunk has come to its end.
func (k deletionChunk) ended() bool {
	for _, ends := range k.Ends {
		if slices.ContainsFunc(ends, func(e deletionEnd) bool { return e.State == tracking.StatePending }) {
			return false
		}
	}
	return true
}

func newDeletionEnd(e tracking.Ended) deletionEnd {
	o := tracking.Outcome{State: e.State, Reason: text.CutBytes(keptReason, e.Reason)}
	return deletionEnd{o, e.Attempt, e.At.UTC().Truncate(time.Millisecond)}
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
		if err := checkUserID(fmt.Sprintf("userIds[%d]", i), id); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
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

// Limits of deletion requests.
const (
	// MaxDeletionUsers is how many users one request may name.
	MaxDeletionUsers = 10_000
	// MaxDeletionID is how many bytes the ID of a request may have.
	MaxDeletionID = 255
	// DeletionKept is for how long a request that is done can still be asked about.
	// After that its ID may be used again.
	DeletionKept = 30 * 24 * time.Hour

	maxDeletionTargets = 1000 // sources with destinations, of one request
)
