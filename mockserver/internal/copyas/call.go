package copyas

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Collector is the target of generated code.
type Collector struct {
	Endpoint string // such as https://calls.example.com
	// WriteKey is the write key of the source. If it is empty, the code reads the
	// environment variable WRITE_KEY.
	WriteKey string
}

// method returns the name of the Go client's method for a call, or "".
func method(c *tracking.Call) string { return upper(fields.TypeNamed(c.Type).Name) }

// upper changes the first letter of a name to upper case.
func upper(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// CanSend reports whether a client can send the call: it is complete and not synthetic.
func CanSend(c *tracking.Call) bool {
	return c.Type != "delete" && jsonscan.New(c.Body).Kind() == '{' && json.Valid(c.Body)
}

// IsTyped reports whether client libraries have a method for the call.
func IsTyped(c *tracking.Call) bool { return method(c) != "" && CanSend(c) }

// added contains the fields that clients and collectors add. Generated code omits them.
var added = []fields.Field{fields.MessageID, fields.ReceivedAt, fields.SentAt, fields.OriginalTimestamp, fields.WriteKey}

// sent returns the call as compact JSON. It omits the fields in without.
func sent(c *tracking.Call, without ...fields.Field) []byte {
	var out bytes.Buffer
	rest := jsonscan.AppendWithout(nil, c.Body, func(m jsonscan.Member) bool { return slices.Contains(without, fields.Of(m.Key)) })
	_ = json.Compact(&out, rest) // cannot fail, because CanSend has checked the call
	return out.Bytes()
}

func member(c *tracking.Call, field fields.Field) []byte {
	value := fields.Find(c.Body, field)
	if string(value) == "null" {
		return nil
	}
	return value
}

// omitted returns a comment line that lists at most 10 unknown fields, which the clients do not have, or "".
func omitted(c *tracking.Call) string {
	var names []string
	for m := range jsonscan.Members(c.Body) {
		name := string(jsonscan.Unquote(m.Key))
		if _, known := fields.ByName[name]; !known && len(names) < 10 {
			names = append(names, strconv.QuoteToASCII(name))
		}
	}
	if names == nil {
		return ""
	}
	return "// Omitted, because the client has no field for it: " + strings.Join(names, ", ") + "\n"
}

// namedValues returns the names and values of the IDs and names in a call.
func namedValues(c *tracking.Call) (values [][2]string) {
	typ := fields.TypeNamed(c.Type)
	for _, f := range append([]fields.Field{fields.UserID, fields.AnonymousID}, typ.Own...) {
		if text := event.TextOf(c, f); text != nil && *text != "" {
			values = append(values, [2]string{fields.Names[f], *text})
		}
	}
	return values
}
