package users

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// superseded is the reason not to send a call that a newer list contradicts.
const superseded = "superseded: a newer list contradicts this call"

// Superseded returns the reason not to send a call of an audience or a computed trait, if a newer
// list contradicts the call. The reason is empty for every other call, and if the list cannot be
// read.
//
// A list is newer if its timestamp is later. Sync numbers cannot be compared, because they start
// at 1 again after a computation is deleted and created again. A list that is being sent contradicts a
// call only after its own call for the user was created. Otherwise, the user could get neither call if
// the rest of the list is lost.
func (u *Service) Superseded(ctx context.Context, c *tracking.Call) (reason string) {
	id, ok := event.ListOfCall(c.ID)
	if !ok {
		return ""
	}
	var notice struct {
		Timestamp time.Time
		Traits    map[string]json.RawMessage
	}
	if json.Unmarshal(c.Body, &notice) != nil {
		return ""
	}
	for unreadable := ""; ; {
		r, err := u.loadComputation(ctx, id)
		if err != nil || c.Source != r.Source || !notice.Timestamp.Before(r.begun()) {
			return ""
		}
		list := u.latest(r, c.UserID)
		now, err := u.valueIn(ctx, r, list, c.UserID)
		switch {
		case err == nil && bytes.Equal(notice.Traits[r.Key], now), err != nil && list.Upload == unreadable:
			return ""
		case err == nil:
			return superseded
		}
		unreadable = list.Upload // another process may have replaced the list in the meantime
	}
}

// valueIn returns the JSON value of the trait for a user according to a list.
func (u *Service) valueIn(ctx context.Context, r computationRecord, list storedList, user string) ([]byte, error) {
	e, listed, err := roster.Find(list.Segments, u.segments(ctx, r.ID, list), user)
	return r.Kind.value(e.Value, listed), err
}
