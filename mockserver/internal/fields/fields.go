package fields

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Field is a known field of a call.
type Field uint8

const (
	otherField Field = iota
	Type
	MessageID
	UserID
	AnonymousID
	Event
	Name
	Category
	GroupID
	PreviousID
	Properties
	Traits
	Context
	Integrations
	Timestamp
	OriginalTimestamp
	SentAt
	ReceivedAt
	WriteKey
)

// Names contains the names of the fields.
var Names = [...]string{
	Type: "type", MessageID: "messageId", UserID: "userId", AnonymousID: "anonymousId",
	Event: "event", Name: "name", Category: "category", GroupID: "groupId", PreviousID: "previousId",
	Properties: "properties", Traits: "traits", Context: "context", Integrations: "integrations",
	Timestamp: "timestamp", OriginalTimestamp: "originalTimestamp", SentAt: "sentAt",
	ReceivedAt: "receivedAt", WriteKey: "writeKey",
}

// About describes the fields that a sender sets, for help texts.
var About = [...]string{
	MessageID:    "the ID of the call (default: a new one)",
	UserID:       "the ID of the user in your database",
	AnonymousID:  "an ID for an anonymous user",
	Event:        "the name of the event",
	Name:         "the name of the page or screen",
	Category:     "the category of the page or screen",
	GroupID:      "the ID of the group: a company, an account, a team",
	PreviousID:   "the previous ID of the user",
	Properties:   "the properties, as a JSON object",
	Traits:       "the traits, as a JSON object",
	Context:      "the context, as a JSON object",
	Integrations: `the destinations to include, as a JSON object: {"All":false,"Webhooks":true}`,
	Timestamp:    "the time of the event, in ISO 8601 (default: now)",
}

// ByName maps names to fields.
var ByName = func() map[string]Field {
	fields := map[string]Field{}
	for f, name := range Names {
		if name != "" {
			fields[name] = Field(f)
		}
	}
	return fields
}()

// IsText reports whether f is an ID or a name of a call, except for the type and the messageId.
func (f Field) IsText() bool { return f >= UserID && f <= PreviousID }

// IsObject reports whether the value of f is an object.
func (f Field) IsObject() bool { return f >= Properties && f <= Integrations }

// Of returns the field with a quoted key.
func Of(key []byte) Field { return ByName[string(jsonscan.Unquote(key))] }

// Find returns the value of a field in the body of a call, or nil. If the key occurs twice, it
// returns the last value.
func Find(body []byte, f Field) []byte { return Member(body, Names[f]) }

// Member returns the value of an object's field, or nil. If the key occurs twice, it returns the
// last value.
func Member(object []byte, name string) (value []byte) {
	for m := range jsonscan.Members(object) {
		if string(jsonscan.Unquote(m.Key)) == name {
			value = m.Value
		}
	}
	return value
}

// Text returns the content of a string or the digits of a number. For other values it returns "".
func Text(value []byte) string {
	switch c := value[0]; {
	case c == '"':
		return text.Valid(jsonscan.Unquote(value))
	case c == '-' || (c >= '0' && c <= '9'):
		return string(value)
	}
	return ""
}

// TextLike is like Text. If the result is equal to like, it returns like without allocating.
func TextLike(value []byte, like string) string {
	if len(value) == len(like)+2 && value[0] == '"' && string(value[1:len(value)-1]) == like && strings.IndexByte(like, '\\') < 0 {
		return like
	}
	return Text(value)
}

// TimeText returns the content of a string. For other values it returns nil.
func TimeText(value []byte) []byte {
	if value[0] != '"' || len(value) == len(`""`) {
		return nil
	}
	return jsonscan.Unquote(value)
}

// Object returns the value if it is an object. For other values it returns nil.
func Object(value []byte) []byte {
	if len(value) > 0 && value[0] == '{' {
		return value
	}
	return nil
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte { return wire.AppendString(dst, s) }

// maxLibrary is the maximum length of a library's name and version in characters.
const maxLibrary = 100

// Library returns the name and version of the library in a call's context, such as "analytics-go
// 1.2.3", or "". The context may be nil.
func Library(context []byte) string {
	var name, version string
	for part := range jsonscan.Members(Member(context, "library")) {
		switch string(jsonscan.Unquote(part.Key)) {
		case "name":
			name = Text(part.Value)
		case "version":
			version = Text(part.Value)
		}
	}
	return text.Cut(maxLibrary, strings.TrimSpace(name+" "+version))
}
