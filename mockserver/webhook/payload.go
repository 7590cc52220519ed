package webhook

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
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
// [Canonical]). call is the stored call, a JSON object. The body of a track call contains version,
// type, userId, event, properties and timestamp, in this order. The guide docs/webhooks.md lists the
// fields of the other types.
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
	var v values
	v.read(o)
	return v.body(alias)
}

// values contains the values of a call's fields in canonical form. A missing value is nil.
type values [len(fields.Names)][]byte

func (v *values) read(o canonical.Object) {
	for i := range o.Len() {
		key, value, source := o.Member(i)
		switch f := fields.Of(key); {
		case f.IsText() && isNumber(source[0]):
			v[f] = slices.Concat([]byte{'"'}, source, []byte{'"'})
		case string(value) != "null":
			v[f] = value
		}
	}
}

// isNumber reports whether a JSON value with this first byte is a number.
func isNumber(first byte) bool { return first == '-' || first >= '0' && first <= '9' }

// keysSize is the approximate size of the keys and punctuation of a body in bytes.
const keysSize = 112

// size returns the approximate size of the body. It should be accurate, because attempts retain the
// unused capacity of the body too.
func (v *values) size(middle []fields.Field) int {
	size := keysSize + len(v[fields.Type]) + len(v[fields.AnonymousID]) + len(v[fields.Context]) + len(v[fields.Timestamp])
	for _, f := range middle {
		size += len(v[f])
	}
	return size
}

// spacedNames contains the names of fields of alias calls with AliasSpaced.
var spacedNames = [...]string{fields.PreviousID: "Previous ID", fields.UserID: "User ID"}

// body returns the body for the call's type.
func (v *values) body(alias AliasFields) ([]byte, error) {
	kind := string(bytes.Trim(v[fields.Type], `"`))
	typ, names := fields.TypeNamed(kind), fields.Names[:]
	switch {
	case kind == "delete":
		return v.deletion()
	case typ.Name == "":
		return nil, fmt.Errorf("webhook: the call's type is %.40q, not %s", v[fields.Type], text.Alternatives(fields.StoredTypes))
	case kind == "page":
		v[fields.Properties] = v.pageProperties()
	case kind == "alias" && alias != AliasCamelCase:
		names = spacedNames[:]
	}
	b := body{kind: kind, out: make([]byte, 0, v.size(typ.Body))}
	b.open(`{"version":1,"type":`, v[fields.Type])
	for _, f := range typ.Body {
		if v[f] == nil && (f == typ.Required || f == fields.UserID && typ.NoUser != "") {
			b.missing(f)
		}
		switch f {
		case fields.Properties, fields.Traits:
			b.object(names[f], v[f])
		case fields.UserID:
			b.field(names[f], v[f])
			b.field("anonymousId", v[fields.AnonymousID])
		default:
			b.field(names[f], v[f])
		}
	}
	b.time(v[fields.Timestamp])
	if v[fields.Context] != nil {
		b.object("context", v[fields.Context])
	}
	return b.close()
}

// deletion returns the body for a deletion request.
func (v *values) deletion() ([]byte, error) {
	b := body{kind: "delete", out: make([]byte, 0, v.size([]fields.Field{fields.UserID}))}
	b.open(`{"type":`, v[fields.Type])
	if v[fields.UserID] == nil {
		b.missing(fields.UserID)
	}
	b.field("userId", v[fields.UserID])
	b.time(v[fields.Timestamp])
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

func (b *body) missing(f fields.Field) {
	b.fail("webhook: a call of type %s requires %s", b.kind, fields.Names[f])
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

// time writes the timestamp.
func (b *body) time(value []byte) {
	if isWrittenTime(value) { // no parsing needed: the collector stores times in this format
		b.field("timestamp", value)
		return
	}
	t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(value, `"`)))
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		b.fail("webhook: the timestamp of a call of type %s is %.40q, not an ISO 8601 time such as %s", b.kind, value, fields.TimeLayout)
		return
	}
	b.out = append(b.out, `,"timestamp":"`...)
	b.out = t.AppendFormat(b.out, fields.TimeLayout)
	b.out = append(b.out, '"')
}

// isWrittenTime reports whether a value has the format of stored times. It is a fast check, and
// returns false for days after the 28th.
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
func (v *values) pageProperties() []byte {
	return withMember(withMember(v[fields.Properties], fields.Name, v[fields.Name]), fields.Category, v[fields.Category])
}

// withMember appends a field to an object in canonical form, unless the object has it or value is
// nil. It returns a value that is not an object unchanged.
func withMember(object []byte, f fields.Field, value []byte) []byte {
	if object == nil {
		object = []byte("{}")
	}
	if value == nil || object[0] != '{' || fields.Find(object, f) != nil {
		return object
	}
	comma := ","
	if len(object) == len("{}") {
		comma = ""
	}
	return slices.Concat(object[:len(object)-1], []byte(comma+`"`+fields.Names[f]+`":`), value, []byte("}"))
}
