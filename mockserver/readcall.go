package mockserver

import (
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// ReadCall reads a stored call back from its Body, which it keeps.
func ReadCall(source string, body []byte) (Call, error) {
	c := Call{Source: source, Body: body}
	s := jsonscan.New(body)
	err := s.Object(func(key []byte) error {
		value, err := s.Value()
		if err != nil {
			return err
		}
		switch f := fieldOf(key); f {
		case fieldReceivedAt:
			c.ReceivedAt, err = readTime(timeText(value))
		case fieldSentAt:
			c.SentAt, err = readTime(timeText(value))
		case fieldOriginalTimestamp:
			c.OriginalTimestamp, err = readTime(timeText(value))
		case fieldTimestamp:
			c.Timestamp, err = readTime(timeText(value))
		default:
			if to := textField(&c, f); to != nil {
				*to = text(value)
			}
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return Call{}, fmt.Errorf("mockserver: a stored call cannot be read: %w", err)
	}
	return c, nil
}

// textField returns the string that a field of a call is read into, or nil.
func textField(c *Call, f field) *string {
	switch f {
	case fieldMessageID:
		return &c.ID
	case fieldType:
		return &c.Type
	case fieldUserID:
		return &c.UserID
	case fieldAnonymousID:
		return &c.AnonymousID
	case fieldEvent:
		return &c.Event
	case fieldName:
		return &c.Name
	case fieldCategory:
		return &c.Category
	case fieldGroupID:
		return &c.GroupID
	case fieldPreviousID:
		return &c.PreviousID
	}
	return nil
}
