package timeline

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// MaxIDs is the maximum number of IDs of one user.
const MaxIDs = 50

// A Link is a call that links two IDs.
type Link struct {
	Source    string    `json:"source"`
	MessageID string    `json:"messageId"`
	Type      string    `json:"type"` // alias or identify
	Timestamp time.Time `json:"timestamp"`
	Before    string    `json:"-"` // previousId or anonymousId
	After     string    `json:"-"` // userId
}

// An ID is one of the IDs of a user.
type ID struct {
	ID  string `json:"id"`
	To  string `json:"joinedTo,omitempty"` // ID in the list that this ID is linked to; empty for the first ID
	Via *Link  `json:"via,omitempty"`      // call that links them
}

// linkOf returns the link of a call.
func linkOf(c *tracking.Call) (l Link, ok bool) {
	var before string
	switch c.Type {
	case "alias":
		before = c.PreviousID
	case "identify":
		before = c.AnonymousID
	}
	if before == "" || c.UserID == "" || before == c.UserID {
		return Link{}, false
	}
	return Link{c.Source, c.ID, c.Type, c.Timestamp, before, c.UserID}, true
}

// links returns the links of all calls, oldest first.
func links(h *history.History, end int64) []Link {
	var all []Link
	h.Scan(end, func(i *history.Item) bool {
		if i.Record != nil {
			if l, ok := linkOf(&i.Record.Call); ok {
				all = append(all, l)
			}
		}
		return true
	})
	slices.Reverse(all)
	return all
}

// linkedIDs returns at most MaxIDs IDs that are linked to first, with increasing distance. more
// reports whether there are other IDs.
func linkedIDs(first string, links []Link) (ids []ID, more bool) {
	ids = []ID{{ID: first}}
	known := map[string]bool{first: true}
	for n := 0; n < len(ids); {
		n = len(ids)
		near := maps.Clone(known)
		for i := range links {
			l := &links[i]
			id := ID{l.Before, l.After, l}
			if near[l.Before] {
				id.ID, id.To = l.After, l.Before
			}
			if near[l.Before] == near[l.After] || known[id.ID] {
				continue
			}
			if len(ids) == MaxIDs {
				return ids, true
			}
			known[id.ID] = true
			ids = append(ids, id)
		}
	}
	return ids, false
}
