package mockserver

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A draft is a call that is being read and checked. It is used for one call
// after another.
type draft struct {
	Call
	raw     []byte
	members []member
	bad     Rejection // Code is empty where nothing is wrong

	index                 int
	writeKey              string
	timestamp             []byte // its text
	context, integrations []byte // objects, or nil
	typeIsOurs            bool   // named by the endpoint, not by the call
}

// read takes the members of the i-th call that the collector needs, and checks
// them. A single call's endpoint names its type; typ is empty in a batch.
func (d *draft) read(p *post, i int, limits Limits, typ string) {
	last := d.Call
	*d = draft{raw: p.body[p.calls[i].start:p.calls[i].end], members: p.membersOf(i), index: i}
	switch {
	case d.raw[0] != '{':
		d.reject(CodeNotObject, "", "a call must be an object")
		return
	case len(d.raw) > limits.CallBytes:
		d.reject(CodeCallTooLarge, "", fmt.Sprintf("the call has %d bytes; at most %d are allowed", len(d.raw), limits.CallBytes))
		return
	}
	for _, m := range d.members {
		d.set(m.field, p.body[m.value:m.end], &last)
	}
	if typ != "" && d.Type != typ {
		d.Type, d.typeIsOurs = typ, true
	}
	d.check(limits)
}

// set takes one member. Strings may come as numbers: some libraries send ids so.
// What the last call had too shares its string.
func (d *draft) set(f field, value []byte, last *Call) {
	switch f {
	case fieldWriteKey:
		d.writeKey = text(value)
	case fieldTimestamp:
		if value[0] == 'n' {
			return
		}
		if d.timestamp = timeText(value); d.timestamp == nil {
			d.reject(CodeBadTimestamp, "timestamp", "timestamp must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z")
		}
	case fieldOriginalTimestamp:
		if d.timestamp == nil {
			d.timestamp = timeText(value)
		}
	case fieldSentAt:
		d.SentAt, _ = readTime(timeText(value))
	case fieldContext:
		d.context = d.object("context", value, CodeBadContext)
	case fieldIntegrations:
		d.integrations = d.object("integrations", value, CodeBadIntegrations)
	case fieldProperties:
		d.object("properties", value, CodeBadProperties)
	case fieldTraits:
		d.object("traits", value, CodeBadTraits)
	default:
		if to := textField(&d.Call, f); to != nil {
			*to = textLike(value, *textField(last, f))
			if *to == "" && value[0] != '"' && value[0] != 'n' {
				d.reject(CodeBadField, fieldNames[f], fieldNames[f]+" must be a string")
			}
		}
	}
}

// object returns a member that must be an object or null.
func (d *draft) object(key string, value []byte, code Code) []byte {
	if value[0] != '{' && value[0] != 'n' {
		d.reject(code, key, key+" must be an object")
	}
	return object(value)
}

// check holds the call against the rules of its type.
func (d *draft) check(limits Limits) {
	switch d.Type {
	case "identify", "page", "screen":
	case "track":
		if d.Event == "" {
			d.reject(CodeNoEvent, "event", "a track call needs the name of its event")
		}
	case "group":
		if d.GroupID == "" {
			d.reject(CodeNoGroup, "groupId", "a group call needs a groupId")
		}
	case "alias":
		if d.PreviousID == "" {
			d.reject(CodeNoPrevious, "previousId", "an alias call needs a previousId")
		}
	default:
		d.reject(CodeUnknownType, "type", fmt.Sprintf("%.40q is not a type; the types are identify, track, page, screen, group and alias", d.Type))
		return
	}
	switch {
	case d.UserID != "":
	case d.Type == "alias":
		d.reject(CodeNoUser, "userId", "an alias call needs a userId: the new ID")
	case d.AnonymousID == "":
		d.reject(CodeNoUser, "userId", "a call needs a userId or an anonymousId")
	}
	if n := utf8.RuneCountInString(d.ID); n > limits.MessageIDChars {
		d.reject(CodeMessageIDTooLong, "messageId", fmt.Sprintf("the messageId has %d characters; at most %d are allowed", n, limits.MessageIDChars))
	}
	if i := strings.IndexFunc(d.ID, isControl); i >= 0 { // no webhook could be told of it, in X-Message-Id
		d.reject(CodeBadMessageID, "messageId", fmt.Sprintf("the messageId has the control character %q; use printable characters", d.ID[i]))
	}
	if d.timestamp != nil {
		t, err := readTime(d.timestamp)
		if err != nil {
			d.reject(CodeBadTimestamp, "timestamp", err.Error())
		}
		d.OriginalTimestamp = t
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7F }

// reject keeps the first problem of a call.
func (d *draft) reject(code Code, field, message string) {
	if d.bad.Code == "" {
		d.bad = Rejection{Code: code, Field: field, Message: message, Index: d.index}
	}
}
