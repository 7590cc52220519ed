// Package input reads calls: the fields that select an entry in a plan, and the object that the
// entry describes. It also checks the formats of strings.
package input

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// MaxDepth is the maximum nesting of a call.
const MaxDepth = jsonscan.MaxDepth

// A Head contains the fields that select an entry. If a field occurs twice, the last one
// is used.
type Head struct {
	Type      string
	Event     string
	Name      string
	MessageID string

	Properties, Traits []byte // JSON, or nil if missing
}

// Read reads a call. It returns an error unless the call is one JSON object.
func Read(call []byte) (Head, error) {
	var h Head
	s := jsonscan.New(call)
	err := s.Object(func(key []byte) error {
		value, err := s.Value()
		if err == nil {
			h.set(jsonscan.Unquote(key), value)
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	return h, err
}

func (h *Head) set(name, value []byte) {
	switch string(name) {
	case "type":
		h.Type = text(value)
	case "event":
		h.Event = text(value)
	case "name":
		h.Name = text(value)
	case "messageId":
		h.MessageID = text(value)
	case "properties":
		h.Properties = value
	case "traits":
		h.Traits = value
	}
}

// Member returns the name of the field that plans describe: "properties" or "traits". It returns
// "" if plans do not describe calls of this type.
func Member(callType string) string {
	switch callType {
	case "track", "page", "screen":
		return "properties"
	case "identify", "group":
		return "traits"
	}
	return ""
}

// Title returns the name that identifies the call in plans. It is empty for identify and group.
func (h *Head) Title() string {
	switch h.Type {
	case "track":
		return h.Event
	case "identify", "group":
		return ""
	}
	return h.Name
}

// Object returns the value of the field member, or an empty object if it is missing or null.
func (h *Head) Object(member string) []byte {
	value := h.Properties
	if member == "traits" {
		value = h.Traits
	}
	if value == nil || value[0] == 'n' {
		return []byte("{}")
	}
	return value
}

// text decodes a JSON string. For any other value it returns "".
func text(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	return strings.ToValidUTF8(string(jsonscan.Unquote(value)), "\uFFFD")
}
