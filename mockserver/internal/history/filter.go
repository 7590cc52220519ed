package history

import (
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A CallFilter selects calls that match all of its fields. Zero fields are ignored.
type CallFilter struct {
	IDs     []string     `json:"messageIds"` // the messageId is one of these
	Sources []string     `json:"sources"`    // the source is one of these
	Types   []string     `json:"types"`      // the type is one of these
	Event   string       `json:"event"`      // event of a track call, or name of a page or screen; a trailing * matches any suffix
	UserID  string       `json:"userId"`     // userId or anonymousId
	Text    string       `json:"text"`       // substring of the encoded body, ignoring ASCII case
	Since   time.Time    `json:"since"`
	Until   time.Time    `json:"until"` // exclusive; Since and Until refer to ReceivedAt
	Where   search.Query `json:"-"`     // conditions on fields of the body

	picked map[event.Key]bool // if not nil, only these calls
}

// PickOnly restricts the filter to the given calls.
func (f *CallFilter) PickOnly(calls map[event.Key]bool) { f.picked = calls }

// Matches reports whether the filter selects a call.
func (f *CallFilter) Matches(c *tracking.Call) bool {
	switch {
	case f.picked != nil && !f.picked[event.KeyOf(c.Source, c.ID)],
		len(f.IDs) > 0 && !slices.Contains(f.IDs, c.ID),
		len(f.Sources) > 0 && !slices.Contains(f.Sources, c.Source),
		len(f.Types) > 0 && !slices.Contains(f.Types, c.Type),
		f.Event != "" && !routing.MatchesEvent(f.Event, c.Event) && !routing.MatchesEvent(f.Event, c.Name),
		f.UserID != "" && f.UserID != c.UserID && f.UserID != c.AnonymousID,
		!f.Since.IsZero() && c.ReceivedAt.Before(f.Since),
		!f.Until.IsZero() && !c.ReceivedAt.Before(f.Until):
		return false
	}
	for _, term := range f.Where {
		if term.MatchesBody(c.Body) == term.Not {
			return false
		}
	}
	return f.Text == "" || text.ContainsFold(c.Body, []byte(f.Text))
}

// IsSynthetic reports whether the collector created the call, to notify destinations of a deletion
// request, an audience or a computed trait. It checks the format of the messageId.
func IsSynthetic(c *tracking.Call) bool {
	switch c.Type {
	case "delete":
		return true
	case "identify":
		_, ok := event.ListOfCall(c.ID)
		return ok
	}
	return false
}
