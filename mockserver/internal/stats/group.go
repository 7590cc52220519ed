package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Kind is a kind of problem.
type Kind string

// Kinds of problems.
const (
	Failed   Kind = "failed"   // failed attempts, and calls that failed permanently
	Rejected Kind = "rejected" // rejected calls of accepted requests
	Refused  Kind = "refused"  // refused requests
)

// A Key identifies a group.
type Key struct {
	Kind        Kind          `json:"kind"`
	Destination string        `json:"destination,omitempty"` // set for Failed
	Source      string        `json:"source,omitempty"`      // set for Rejected and Refused; empty if the write key is unknown
	Code        tracking.Code `json:"code,omitempty"`        // set for Rejected and Refused
	Cause       string        `json:"cause"`                 // see CauseOf; empty if the write key is unknown
}

// ID returns a digest of the key.
func (k *Key) ID() string {
	return text.Digest(string(k.Kind), k.Destination, k.Source, string(k.Code), k.Cause)
}

// KeyOf returns the key of the group of a rejected call or a refused request. It omits the cause if
// the write key is unknown. Otherwise anyone could create groups with arbitrary messages.
func KeyOf(kind Kind, r *tracking.Rejection) Key {
	key := Key{Kind: kind, Source: r.Source, Code: r.Code}
	if r.Source != "" {
		key.Cause = CauseOf(text.Cut(maxMessage, r.Message))
	}
	return key
}

const (
	// maxCalls is the number of calls listed in a group.
	maxCalls = 5
	// maxResponse is the maximum length of the stored part of a response in bytes. maxMessage is
	// the maximum length of a message in characters.
	maxResponse = 1 << 10
	maxMessage  = 500
)

// A Group contains the problems that have the same cause.
type Group struct {
	ID string `json:"id"`
	Key
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Attempts Counts    `json:"attempts"`         // failed attempts
	Calls    Counts    `json:"calls"`            // failed calls, rejected calls, or refused requests
	Sample   Sample    `json:"sample"`           // newest problem
	Newest   []Call    `json:"newest,omitempty"` // newest failed calls, newest first
	Senders  []Sender  `json:"senders,omitempty"`
	// OtherSenders is the number of problems of senders that are not listed.
	OtherSenders int64 `json:"otherSenders,omitempty"`
}

// A Sample is one problem of a group.
type Sample struct {
	Message string `json:"message"`          // message with its variable parts
	Status  int    `json:"status,omitempty"` // status of the webhook's response, or of the collector's response to the request
	Answer  string `json:"answer,omitempty"` // beginning of the webhook's response
}

// A Call identifies a failed call.
type Call struct {
	Source string    `json:"source"`
	ID     string    `json:"messageId"`
	At     time.Time `json:"at"`
}

// A group contains the data of a Group.
type group struct {
	Key
	id              string
	first, last     time.Time
	attempts, calls counter
	sample          Sample
	newest          []Call // newest failed calls, oldest first
	senders         senders
	changed         bool // whether the group has changed since it was saved
}

// seen extends the time range of the group to include at.
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

// view returns a copy of the group.
func (g *group) view(now time.Time) Group {
	v := Group{
		ID: g.id, Key: g.Key, First: g.first, Last: g.last, Sample: g.sample,
		Attempts: g.attempts.counts(now), Calls: g.calls.counts(now),
		Newest: slices.Clone(g.newest), Senders: g.senders.sorted(), OtherSenders: g.senders.others,
	}
	slices.Reverse(v.Newest)
	return v
}

// maxSenders is the number of senders listed in a group.
const maxSenders = 8

// A Sender is a sender of rejected calls, refused requests, or failed calls.
type Sender struct {
	Source string `json:"source,omitempty"` // source of the sender's write key
	tracking.Sender
	Count int64     `json:"count"` // number of problems since the sender was listed
	Last  time.Time `json:"last"`
}

type senders struct {
	list   []Sender
	others int64 // number of problems of senders that are not listed
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

// least returns the index of the sender to replace. It is the sender with the lowest count. Among
// equals, it is the one whose last problem is the oldest.
func (s *senders) least() (place int) {
	for i := range s.list {
		a, b := &s.list[i], &s.list[place]
		if cmp.Or(cmp.Compare(a.Count, b.Count), a.Last.Compare(b.Last)) < 0 {
			place = i
		}
	}
	return place
}

// sorted returns the senders, most frequent first.
func (s *senders) sorted() []Sender {
	return slices.SortedStableFunc(slices.Values(s.list), func(a, b Sender) int { return cmp.Compare(b.Count, a.Count) })
}
