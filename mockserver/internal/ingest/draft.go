package ingest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A draft is a call that is being read and validated. It is reused for the next call.
type draft struct {
	tracking.Call
	raw     []byte
	members []member
	bad     tracking.Rejection // Code is empty if the call is valid

	index                 int
	writeKey              string
	timestamp             []byte // unparsed
	context, integrations []byte // objects, or nil
	properties, traits    []byte // objects, or nil
	typeFromEndpoint      bool   // the type of the endpoint replaces the type of the call
}

// read reads and validates the i-th call. typ is the type set by the endpoint; it is empty
// in a batch.
func (d *draft) read(p *post, i int, limits tracking.Limits, typ string) {
	last := d.Call
	*d = draft{raw: p.body[p.calls[i].start:p.calls[i].end], members: p.membersOf(i), index: i}
	switch { // a rejected call is read too, for its write key and library
	case d.raw[0] != '{':
		d.reject(tracking.CodeNotObject, "", "a call must be an object")
	case len(d.raw) > limits.CallBytes:
		d.reject(tracking.CodeCallTooLarge, "", fmt.Sprintf("the call has %d bytes; at most %d are allowed", len(d.raw), limits.CallBytes))
	}
	for _, m := range d.members {
		if m.field == fields.Type { // read first, because the other checks depend on it
			d.set(m.field, p.body[m.value:m.end], &last)
		}
	}
	if typ != "" && d.Type != typ {
		d.Type, d.typeFromEndpoint = typ, true
	}
	for _, m := range d.members {
		if m.field != fields.Type {
			d.set(m.field, p.body[m.value:m.end], &last)
		}
	}
	d.check(limits)
}

// set reads a field, and checks it if calls of this type have the field. It accepts numbers as
// strings, because some libraries send numeric IDs. If the field of the call last has the same value,
// both share one string.
func (d *draft) set(f fields.Field, value []byte, last *tracking.Call) {
	switch f {
	case fields.WriteKey:
		d.writeKey = fields.Text(value)
	case fields.Timestamp:
		if value[0] == 'n' {
			return
		}
		if d.timestamp = fields.TimeText(value); d.timestamp == nil {
			d.reject(tracking.CodeBadTimestamp, "timestamp", "timestamp must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z")
		}
	case fields.OriginalTimestamp:
		if d.timestamp == nil {
			d.timestamp = fields.TimeText(value)
		}
	case fields.SentAt:
		d.SentAt, _ = fields.ParseTime(fields.TimeText(value))
	case fields.Context:
		d.context = d.object(f, value, tracking.CodeBadContext)
	case fields.Integrations:
		d.integrations = d.object(f, value, tracking.CodeBadIntegrations)
	case fields.Properties:
		d.properties = d.object(f, value, tracking.CodeBadProperties)
	case fields.Traits:
		d.traits = d.object(f, value, tracking.CodeBadTraits)
	default:
		if to := event.TextOf(&d.Call, f); to != nil {
			*to = fields.TextLike(value, *event.TextOf(last, f))
			if *to == "" && value[0] != '"' && value[0] != 'n' && fields.TypeNamed(d.Type).Has(f) {
				d.reject(tracking.CodeBadField, fields.Names[f], fields.Names[f]+" must be a string")
			}
		}
	}
}

// object returns the value of a field that must be an object or null.
func (d *draft) object(f fields.Field, value []byte, code tracking.Code) []byte {
	if value[0] != '{' && value[0] != 'n' && fields.TypeNamed(d.Type).Has(f) {
		d.reject(code, fields.Names[f], fields.Names[f]+" must be an object")
	}
	return fields.Object(value)
}

// check validates the call according to its type.
func (d *draft) check(limits tracking.Limits) {
	typ := fields.TypeNamed(d.Type)
	switch {
	case typ.Name == "":
		d.reject(tracking.CodeUnknownType, "type", fmt.Sprintf("unknown type %.40q; use %s", d.Type, text.Alternatives(fields.Types)))
		return
	case typ.Problem != "" && *event.TextOf(&d.Call, typ.Required) == "":
		d.reject(tracking.Code(typ.Code), fields.Names[typ.Required], typ.Problem)
	}
	switch {
	case d.UserID != "":
	case typ.NoUser != "":
		d.reject(tracking.CodeNoUser, "userId", typ.NoUser)
	case d.AnonymousID == "":
		d.reject(tracking.CodeNoUser, "userId", "a call needs a userId or an anonymousId")
	}
	if n := utf8.RuneCountInString(d.ID); n > limits.MessageIDChars {
		d.reject(tracking.CodeMessageIDTooLong, "messageId", fmt.Sprintf("the messageId has %d characters; at most %d are allowed", n, limits.MessageIDChars))
	}
	if i := strings.IndexFunc(d.ID, isControl); i >= 0 { // the X-Message-Id header cannot contain control characters
		d.reject(tracking.CodeBadMessageID, "messageId", fmt.Sprintf("the messageId contains the control character %q; use printable characters", d.ID[i]))
	}
	if d.timestamp != nil {
		t, err := fields.ParseTime(d.timestamp)
		if err != nil {
			d.reject(tracking.CodeBadTimestamp, "timestamp", err.Error())
		}
		d.OriginalTimestamp = t
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7F }

// reject records the problem of a call, unless an earlier problem is recorded.
func (d *draft) reject(code tracking.Code, field, message string) {
	if d.bad.Code == "" {
		d.bad = tracking.Rejection{Code: code, Field: field, Message: message, Index: d.index}
	}
}
