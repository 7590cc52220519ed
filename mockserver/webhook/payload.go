package webhook

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
)

// AliasFields selects the names of the two IDs in the body of an alias call.
type AliasFields string

const (
	// AliasSpaced selects the names `Previous ID` and `User ID`. It is the default.
	AliasSpaced AliasFields = "spaced"
	// AliasCamelCase selects the names `previousId` and `userId`.
	AliasCamelCase AliasFields = "camelCase"
)

// Payload returns the body of the webhook requests for a call, in canonical form (see
// [Canonical]). call is the stored call, a JSON object. The body contains these fields, in
// this order:
//
//	page      version, type, userId, properties, timestamp
//	screen    version, type, userId, name, timestamp
//	identify  version, type, userId, traits, timestamp
//	track     version, type, userId, event, properties, timestamp
//	alias     version, type, Previous ID, User ID, timestamp
//	group     version, type, groupId, userId, traits, timestamp
//	delete    type, userId, timestamp
//
// If the call has an anonymousId or a context, the body contains it as well, except for delete:
// anonymousId follows the user ID, and context is the last field. version is 1. properties and
// traits default to {}. The name and category of a page are added to its properties, unless these
// have the same keys. timestamp is in UTC with milliseconds. A null field counts as missing. IDs
// and names are strings; a number becomes a string with the same digits. Other fields of the call
// are omitted, including a screen's category and properties.
//
// If a field is missing or is not an object, the error names the field. Payload is safe for
// concurrent use.
func Payload(call []byte, alias AliasFields) ([]byte, error) {
	o, err := canonical.ReadObject(call)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	defer o.Release()
	var f fields
	f.read(o)
	return f.body(alias)
}

// fields contains the values of a call that the body may contain, in canonical form. A missing
// value is nil.
type fields struct {
	kind, userID, anonymousID, event, name, category, properties,
	traits, groupID, previousID, context, timestamp []byte
}

func (f *fields) read(o canonical.Object) {
	for i := range o.Len() {
		key, value, source := o.Member(i)
		field, isText := f.named(key)
		switch {
		case field == nil:
		case isText && isNumber(source[0]):
			*field = slices.Concat([]byte{'"'}, source, []byte{'"'})
		case string(value) != "null":
			*field = value
		}
	}
}

// isNumber reports whether a JSON value with this first byte is a number.
func isNumber(first byte) bool { return first == '-' || first >= '0' && first <= '9' }

// named returns the field with a key, or nil. isText reports that the field is an ID or a name, which
// must be a string.
func (f *fields) named(key []byte) (field *[]byte, isText bool) {
	switch string(key) {
	case `"userId"`:
		return &f.userID, true
	case `"anonymousId"`:
		return &f.anonymousID, true
	case `"event"`:
		return &f.event, true
	case `"name"`:
		return &f.name, true
	case `"category"`:
		return &f.category, true
	case `"groupId"`:
		return &f.groupID, true
	case `"previousId"`:
		return &f.previousID, true
	case `"type"`:
		return &f.kind, false
	case `"properties"`:
		return &f.properties, false
	case `"traits"`:
		return &f.traits, false
	case `"context"`:
		return &f.context, false
	case `"timestamp"`:
		return &f.timestamp, false
	}
	return nil, false
}

// keysSize is the approximate size of the keys and punctuation of a body in bytes.
const keysSize = 112

// size returns the approximate size of the body. It should be accurate, because attempts retain the
// unused capacity of the body too.
func (f *fields) size() int {
	return len(f.kind) + len(f.userID) + len(f.anonymousID) + len(f.event) + len(f.name) + len(f.category) + len(f.properties) +
		len(f.traits) + len(f.groupID) + len(f.previousID) + len(f.context) + len(f.timestamp) + keysSize
}

// body returns the body for the call's type.
func (f *fields) body(alias AliasFields) ([]byte, error) {
	b := body{kind: string(bytes.Trim(f.kind, `"`)), out: make([]byte, 0, f.size())}
	if b.kind == "delete" {
		b.open(`{"type":`, f.kind)
		b.need("userId", f.userID)
		b.time(f.timestamp)
		return b.close()
	}
	b.open(`{"version":1,"type":`, f.kind)
	switch b.kind {
	case "page":
		b.user(f)
		b.object("properties", f.pageProperties())
	case "screen":
		b.user(f)
		b.field("name", f.name)
	case "identify":
		b.user(f)
		b.object("traits", f.traits)
	case "track":
		b.user(f)
		b.need("event", f.event)
		b.object("properties", f.properties)
	case "alias":
		b.alias(f, alias)
	case "group":
		b.need("groupId", f.groupID)
		b.user(f)
		b.object("traits", f.traits)
	default:
		return nil, fmt.Errorf("webhook: the call's type is %.40q, not page, screen, identify, track, alias, group or delete", f.kind)
	}
	b.time(f.timestamp)
	if f.context != nil {
		b.object("context", f.context)
	}
	return b.close()
}

// A body builds a JSON body. It stores the first error.
type body struct {
	kind string
	out  []byte
	err  error
}

func (b *body) open(start string, kind []byte) {
	b.out = append(append(b.out, start...), kind...)
}

func (b *body) close() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	return append(b.out, '}'), nil
}

func (b *body) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// field writes an optional field.
func (b *body) field(name string, value []byte) {
	if value == nil {
		return
	}
	b.out = append(b.out, `,"`...)
	b.out = append(b.out, name...)
	b.out = append(b.out, `":`...)
	b.out = append(b.out, value...)
}

// need writes a required field.
func (b *body) need(name string, value []byte) {
	if value == nil {
		b.fail("webhook: a call of type %s requires %s", b.kind, name)
	}
	b.field(name, value)
}

// object writes an object field, which defaults to {}.
func (b *body) object(name string, value []byte) {
	if value == nil {
		value = []byte("{}")
	}
	if value[0] != '{' {
		b.fail("webhook: %s of a call of type %s is %.40s, not an object", name, b.kind, value)
	}
	b.field(name, value)
}

func (b *body) user(f *fields) {
	b.field("userId", f.userID)
	b.field("anonymousId", f.anonymousID)
}

func (b *body) alias(f *fields, names AliasFields) {
	previous, user := "Previous ID", "User ID"
	if names == AliasCamelCase {
		previous, user = "previousId", "userId"
	}
	if f.previousID == nil || f.userID == nil {
		b.need("previousId", f.previousID)
		b.need("userId", f.userID)
		return
	}
	b.field(previous, f.previousID)
	b.field(user, f.userID)
	b.field("anonymousId", f.anonymousID)
}

// timeLayout is the format of timestamps.
const timeLayout = "2006-01-02T15:04:05.000Z"

// time writes the timestamp.
func (b *body) time(value []byte) {
	if isWrittenTime(value) { // no parsing needed: the collector stores times in this format
		b.field("timestamp", value)
		return
	}
	t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(value, `"`)))
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		b.fail("webhook: the timestamp of a call of type %s is %.40q, not an ISO 8601 time such as %s", b.kind, value, timeLayout)
		return
	}
	b.out = append(b.out, `,"timestamp":"`...)
	b.out = t.AppendFormat(b.out, timeLayout)
	b.out = append(b.out, '"')
}

// isWrittenTime reports whether a value has the format timeLayout. It is a fast check, and returns
// false for days after the 28th.
func isWrittenTime(value []byte) bool {
	const form = `"0000-00-00T00:00:00.000Z"`
	if len(value) != len(form) {
		return false
	}
	for i, c := range value {
		if form[i] == '0' && (c < '0' || c > '9') || form[i] != '0' && c != form[i] {
			return false
		}
	}
	number := func(at int) int { return 10*int(value[at]-'0') + int(value[at+1]-'0') }
	month, day, hour, minute, second := number(6), number(9), number(12), number(15), number(18)
	return month >= 1 && month <= 12 && day >= 1 && day <= 28 && hour < 24 && minute < 60 && second < 60
}

// pageProperties returns a page's properties with its name and category.
func (f *fields) pageProperties() []byte {
	return withMember(withMember(f.properties, `"name"`, f.name), `"category"`, f.category)
}

// withMember appends a field to an object in canonical form, unless the object has the key or value
// is nil. It returns a value that is not an object unchanged.
func withMember(object []byte, key string, value []byte) []byte {
	if object == nil {
		object = []byte("{}")
	}
	if value == nil || object[0] != '{' || hasMember(object, key) {
		return object
	}
	comma := ","
	if len(object) == len("{}") {
		comma = ""
	}
	return slices.Concat(object[:len(object)-1], []byte(comma+key+":"), value, []byte("}"))
}

// hasMember reports whether a canonical object has a key.
func hasMember(object []byte, key string) bool {
	for m := range jsonscan.Members(object) {
		if string(m.Key) == key {
			return true
		}
	}
	return false
}
