package copyas

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Collector is where code sends its call.
type Collector struct {
	Endpoint string // such as https://calls.example.com
	// WriteKey is that of the call's source. Where it is empty, code reads it from the
	// environment variable WRITE_KEY.
	WriteKey string
}

// types are the types of calls that a sender can make, and the methods of clients for them.
var types = map[string]string{"track": "Track", "identify": "Identify", "page": "Page", "screen": "Screen", "group": "Group", "alias": "Alias"}

// CanSend reports whether a sender can make the call: it is whole, and not one that the
// collector made.
func CanSend(c *tracking.Call) bool {
	return c.Type != "delete" && jsonscan.New(c.Body).Kind() == '{' && json.Valid(c.Body)
}

// IsTyped reports whether clients have a method for the call.
func IsTyped(c *tracking.Call) bool { return types[c.Type] != "" && CanSend(c) }

// way are the members that a call gets on its way, and so are not sent again.
var way = []fields.Field{fields.MessageID, fields.ReceivedAt, fields.SentAt, fields.OriginalTimestamp, fields.WriteKey}

// sent returns the call as one line of JSON, without the members of some fields.
func sent(c *tracking.Call, without ...fields.Field) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for m := range jsonscan.Members(c.Body) {
		if slices.Contains(without, fields.Of(m.Key)) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(m.Key)
		out.WriteByte(':')
		_ = json.Compact(&out, m.Value) // it is valid, see CanSend
	}
	out.WriteByte('}')
	return out.Bytes()
}

// member returns the value of a field of a call, or nil.
func member(c *tracking.Call, field fields.Field) []byte {
	value := fields.Find(c.Body, field)
	if string(value) == "null" {
		return nil
	}
	return value
}

// otherMembers returns the names of members that are no fields of a call.
func otherMembers(c *tracking.Call) []string {
	var names []string
	for m := range jsonscan.Members(c.Body) {
		name := string(jsonscan.Unquote(m.Key))
		if _, known := fields.ByName[name]; !known && len(names) < 10 {
			names = append(names, name)
		}
	}
	return names
}

// namedValues returns the IDs and names of a call for which clients have a field, by the
// name that the Go client gives the field.
func namedValues(c *tracking.Call) (values [][2]string) {
	for _, v := range [][2]string{
		{"UserId", c.UserID}, {"AnonymousId", c.AnonymousID}, {"PreviousId", c.PreviousID}, {"GroupId", c.GroupID},
		{"Event", c.Event}, {"Category", c.Category}, {"Name", c.Name},
	} {
		if v[1] != "" && hasField(types[c.Type], v[0]) {
			values = append(values, v)
		}
	}
	return values
}

// commentOn says in one line of a comment that members are left out.
func commentOn(names []string) string {
	if len(names) == 0 {
		return ""
	}
	for i, name := range names {
		names[i] = strconv.QuoteToASCII(name)
	}
	return "// Omitted, because the client has no field for it: " + strings.Join(names, ", ") + "\n"
}
