// Package calls reads the head of a call: its type, its name and the object that a plan
// describes.
package calls

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// MaxDepth is how deep a call may be nested.
const MaxDepth = jsonscan.MaxDepth

// A Head is what a call says of itself. Of members that come twice it has the last.
type Head struct {
	Type      string
	Event     string
	Name      string
	MessageID string

	Properties, Traits []byte // JSON, nil where there is none or null
}

// Read reads a call. The error says why it is not one JSON object.
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
		h.Properties = unlessNull(value)
	case "traits":
		h.Traits = unlessNull(value)
	}
}

// Member returns the member that a plan describes of calls of a type, or nothing if plans
// have no such calls.
func Member(callType string) string {
	switch callType {
	case "track", "page", "screen":
		return "properties"
	case "identify", "group":
		return "traits"
	}
	return ""
}

// Title returns the name by which plans list the call: none of identify and
// group calls.
func (h *Head) Title() string {
	switch h.Type {
	case "track":
		return h.Event
	case "identify", "group":
		return ""
	}
	return h.Name
}

// Object returns the value of a member that plans describe: an empty object for none.
func (h *Head) Object(member string) []byte {
	value := h.Properties
	if member == "traits" {
		value = h.Traits
	}
	if value == nil {
		return []byte("{}")
	}
	return value
}

func unlessNull(value []byte) []byte {
	if value[0] == 'n' {
		return nil
	}
	return value
}

// text returns the text of a JSON string, or nothing for another value.
func text(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	return strings.ToValidUTF8(string(jsonscan.Unquote(value)), "\uFFFD")
}
