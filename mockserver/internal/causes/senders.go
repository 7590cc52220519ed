package causes

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// keptSenders is how many senders of a group are kept.
const keptSenders = 8

// A Sender is who sent something that went wrong.
type Sender struct {
	Source string `json:"source,omitempty"` // whose write key came with it
	tracking.Sender
	Count int64     `json:"count"` // since it is listed
	Last  time.Time `json:"last"`
}

// senders are those of a group.
type senders struct {
	kept   []Sender
	others int64 // what others sent
}

func (s *senders) add(at time.Time, source string, from tracking.Sender, n int) {
	if source == "" && from == (tracking.Sender{}) {
		return
	}
	i := slices.IndexFunc(s.kept, func(k Sender) bool { return k.Source == source && k.Sender == from })
	if i < 0 {
		added := Sender{Source: source, Sender: from}
		if len(s.kept) < keptSenders {
			i = len(s.kept)
			s.kept = append(s.kept, added)
		} else {
			i = s.least()
			s.others += s.kept[i].Count
			s.kept[i] = added
		}
	}
	s.kept[i].Count += int64(n)
	if at.After(s.kept[i].Last) {
		s.kept[i].Last = at
	}
}

// least returns the place of the sender that makes room: the one that sent the least, and
// of these the one that was quiet for the longest.
func (s *senders) least() (place int) {
	for i := range s.kept {
		a, b := &s.kept[i], &s.kept[place]
		if cmp.Or(cmp.Compare(a.Count, b.Count), a.Last.Compare(b.Last)) < 0 {
			place = i
		}
	}
	return place
}

// sorted returns the senders, the most frequent first.
func (s *senders) sorted() []Sender {
	return slices.SortedStableFunc(slices.Values(s.kept), func(a, b Sender) int { return cmp.Compare(b.Count, a.Count) })
}
