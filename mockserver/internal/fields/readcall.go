package fields

import (
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
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
		switch f := Of(key); f {
		case ReceivedAt:
			c.ReceivedAt, err = ReadTime(TimeText(value))
		case SentAt:
			c.SentAt, err = ReadTime(TimeText(value))
		case OriginalTimestamp:
			c.OriginalTimestamp, err = ReadTime(TimeText(value))
		case Timestamp:
			c.Timestamp, err = ReadTime(TimeText(value))
		default:
			if to := TextOf(&c, f); to != nil {
				*to = Text(value)
			}
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

// TextOf returns a pointer to the string of a call that contains a field. It returns nil for other
// fields.
func TextOf(c *tracking.Call, f Field) *string {
	switch f {
	case MessageID:
		return &c.ID
	case Type:
		return &c.Type
	case UserID:
		return &c.UserID
	case AnonymousID:
		return &c.AnonymousID
	case Event:
		return &c.Event
	case Name:
		return &c.Name
	case Category:
		return &c.Category
	case GroupID:
		return &c.GroupID
	case PreviousID:
		return &c.PreviousID
	}
	return nil
}
