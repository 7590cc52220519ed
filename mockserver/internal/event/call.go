package event

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// ReadCall parses a stored call. It retains body.
func ReadCall(source string, body []byte) (tracking.Call, error) {
	c := tracking.Call{Source: source, Body: body}
	s := jsonscan.New(body)
	err := s.Object(func(key []byte) error {
		value, err := s.Value()
		if err != nil {
			return err
		}
		f := fields.Of(key)
		if to := timeOf(&c, f); to != nil {
			*to, err = fields.ParseTime(fields.TimeText(value))
		} else if to := TextOf(&c, f); to != nil {
			*to = fields.Text(value)
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return tracking.Call{}, fmt.Errorf("mockserver: a stored call cannot be read: %w", err)
	}
	return c, nil
}

// timeOf returns a pointer to the time in c for the field f. It returns nil if c has no time for f.
func timeOf(c *tracking.Call, f fields.Field) *time.Time {
	switch f {
	case fields.Timestamp:
		return &c.Timestamp
	case fields.OriginalTimestamp:
		return &c.OriginalTimestamp
	case fields.SentAt:
		return &c.SentAt
	case fields.ReceivedAt:
		return &c.ReceivedAt
	}
	return nil
}

// TextOf returns a pointer to the string in c for the field f. It returns nil if c has no string for f.
func TextOf(c *tracking.Call, f fields.Field) *string {
	switch f {
	case fields.MessageID:
		return &c.ID
	case fields.Type:
		return &c.Type
	case fields.UserID:
		return &c.UserID
	case fields.AnonymousID:
		return &c.AnonymousID
	case fields.Event:
		return &c.Event
	case fields.Name:
		return &c.Name
	case fields.Category:
		return &c.Category
	case fields.GroupID:
		return &c.GroupID
	case fields.PreviousID:
		return &c.PreviousID
	}
	return nil
}

// NameOf returns the name of the event of a track call, or the name of a page or screen. For other
// known types it returns "". The type of a rejected call may be unknown. NameOf then returns the
// event or, if it is empty, the name.
func NameOf(c *tracking.Call) string {
	switch t := fields.TypeNamed(c.Type); {
	case t.Name == "":
		return cmp.Or(c.Event, c.Name)
	case t.Title != 0:
		return *TextOf(c, t.Title)
	}
	return ""
}
