package causes

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Kind is what went wrong.
type Kind string

// Kinds of groups.
const (
	Failed   Kind = "failed"   // attempts at calls, and calls that were given up
	Rejected Kind = "rejected" // calls of requests that were taken
	Refused  Kind = "refused"  // whole requests
)

// A Key names a group.
type Key struct {
	Kind        Kind          `json:"kind"`
	Destination string        `json:"destination,omitempty"` // of what failed
	Source      string        `json:"source,omitempty"`      // of what was rejected or refused; empty where the write key is that of none
	Code        tracking.Code `json:"code,omitempty"`        // of what was rejected or refused
	Cause       string        `json:"cause"`                 // see Of; empty for requests of strangers
}

// ID returns letters and digits that stand for the key.
func (k *Key) ID() string {
	return text.Digest(string(k.Kind), k.Destination, k.Source, string(k.Code), k.Cause)
}

// KeyOfRejection returns the key of the group of a call that was rejected.
func KeyOfRejection(r *tracking.Rejection) Key {
	return keyOfRefused(Rejected, r.Source, r.Code, r.Message)
}

// KeyOfRefusal returns the key of the group of a request that was refused.
func KeyOfRefusal(r *event.Refusal) Key {
	return keyOfRefused(Refused, r.Source, r.Code, r.Message)
}

// keyOfRefused gives whoever has no write key of a source no groups by words of his own.
func keyOfRefused(kind Kind, source string, code tracking.Code, message string) Key {
	key := Key{Kind: kind, Source: source, Code: code}
	if source != "" {
		key.Cause = Of(text.Cut(maxMessage, message))
	}
	return key
}

const (
	// maxCalls is how many calls of a group are kept by name.
	maxCalls = 5
	// maxResponse is how many bytes of an answer are kept, and maxMessage how many
	// characters of a message.
	maxResponse = 1 << 10
	maxMessage  = 500
)

// A Group is what went wrong for one cause.
type Group struct {
	ID string `json:"id"`
	Key
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Attempts Counts    `json:"attempts"`         // that failed
	Calls    Counts    `json:"calls"`            // that were given up or rejected, or requests that were refused
	Sample   Sample    `json:"sample"`           // the newest
	Newest   []Call    `json:"newest,omitempty"` // of what failed: calls, the newest first
	Senders  []Sender  `json:"senders,omitempty"`
	// OtherSenders is how much came from senders that are not listed.
	OtherSenders int64 `json:"otherSenders,omitempty"`
}

// A Sample shows what went wrong once.
type Sample struct {
	Message string `json:"message"`          // in the words of this one case
	Status  int    `json:"status,omitempty"` // of the answer: of the webhook, or the collector's own to a request
	Answer  string `json:"answer,omitempty"` // the beginning of the webhook's
}

// A Call names a call that failed.
type Call struct {
	Source string    `json:"source"`
	ID     string    `json:"messageId"`
	At     time.Time `json:"at"`
}

// A group is what is known of a Group.
type group struct {
	Key
	id              string
	first, last     time.Time
	attempts, calls counter
	sample          Sample
	newest          []Call // the oldest first
	senders         senders
	changed         bool // since it was written
}

// seen notes that it happened at a time.
func (g *group) seen(at time.Time) {
	g.changed = true
	if g.first.IsZero() || at.Before(g.first) {
		g.first = at
	}
	if at.After(g.last) {
		g.last = at
	}
}

func (g *group) addCall(c Call) {
	g.newest = slices.DeleteFunc(g.newest, func(known Call) bool { return known.Source == c.Source && known.ID == c.ID })
	if len(g.newest) == maxCalls {
		g.newest = slices.Delete(g.newest, 0, 1)
	}
	g.newest = append(g.newest, c)
}

// view returns the group as it is now.
func (g *group) view(now time.Time) Group {
	v := Group{
		ID: g.id, Key: g.Key, First: g.first, Last: g.last, Sample: g.sample,
		Attempts: g.attempts.counts(now), Calls: g.calls.counts(now),
		Newest: slices.Clone(g.newest), Senders: g.senders.sorted(), OtherSenders: g.senders.others,
	}
	slices.Reverse(v.Newest)
	return v
}

// maxSenders is how many senders of a group are kept.
const maxSenders = 8

// A Sender is who sent something that went wrong.
type Sender struct {
	Source string `json:"source,omitempty"` // whose write key came with it
	tracking.Sender
	Count int64     `json:"count"` // since it is listed
	Last  time.Time `json:"last"`
}

// senders are those of a group.
type senders struct {
	list   []Sender
	others int64 // what others sent
}

func (s *senders) add(at time.Time, source string, from tracking.Sender, n int) {
	if source == "" && from == (tracking.Sender{}) {
		return
	}
	i := slices.IndexFunc(s.list, func(k Sender) bool { return k.Source == source && k.Sender == from })
	if i < 0 {
		added := Sender{Source: source, Sender: from}
		if len(s.list) < maxSenders {
			i = len(s.list)
			s.list = append(s.list, added)
		} else {
			i = s.least()
			s.others += s.list[i].Count
			s.list[i] = added
		}
	}
	s.list[i].Count += int64(n)
	if at.After(s.list[i].Last) {
		s.list[i].Last = at
	}
}

// least returns the place of the sender that makes room: the one that sent the least, and
// of these the one that was quiet for the longest.
func (s *senders) least() (place int) {
	for i := range s.list {
		a, b := &s.list[i], &s.list[place]
		if cmp.Or(cmp.Compare(a.Count, b.Count), a.Last.Compare(b.Last)) < 0 {
			place = i
		}
	}
	return place
}

// sorted returns the senders, the most frequent first.
func (s *senders) sorted() []Sender {
	return slices.SortedStableFunc(slices.Values(s.list), func(a, b Sender) int { return cmp.Compare(b.Count, a.Count) })
}
