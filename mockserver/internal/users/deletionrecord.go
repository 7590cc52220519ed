package users

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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
