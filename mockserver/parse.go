package mockserver

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// keptBody is how much of a rejected call is kept.
const keptBody = 32 << 10

// A post is what one request held. It points into the body of the request, and
// is of no use once that is gone.
type post struct {
	body         []byte
	writeKey     string
	sentAt       time.Time
	context      overlay
	integrations overlay
	calls        []rawCall
	members      []member // of all calls, one after another
	rejected     []Rejection
}

// A rawCall is a call as it stands in the body of a request.
type rawCall struct {
	start, end int // in post.body
	members    int // where its members begin in post.members; they end where those of the next begin
}

// A member is one of a call's members.
type member struct {
	field           field
	key, value, end int32 // where the key and the value begin, and where the value ends, in post.body
}

// errTooManyCalls is what parsing ends with beyond Limits.BatchCalls.
var errTooManyCalls = errors.New("too many calls")

// errNotBatch says that a body is not of the shape of its endpoint.
type errNotBatch struct{ problem string }

func (e errNotBatch) Error() string { return e.problem }

// parseBatch reads the body of a batch into p, in one pass.
func (p *post) parseBatch(body []byte, limits Limits) error {
	p.body = body
	s := jsonscan.New(body)
	if s.Kind() != '{' {
		if err := whole(s); err != nil {
			return err
		}
		return errNotBatch{`the body must be an object such as {"batch":[…]}`}
	}
	found := false
	err := s.Object(func(key []byte) error {
		if string(jsonscan.Unquote(key)) == "batch" {
			found = s.Kind() == '['
			if found {
				return p.parseCalls(s, limits)
			}
		}
		value, err := s.Value()
		if err == nil {
			p.set(fieldOf(key), value)
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	if err == nil && !found {
		return errNotBatch{`the body must have a member "batch" that is an array of calls`}
	}
	return err
}

// whole passes a value that must be all there is.
func whole(s *jsonscan.Scanner) error {
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

// parseCalls reads the calls of a batch. If the batch has that member twice, the
// last counts, as it does for other JSON parsers.
func (p *post) parseCalls(s *jsonscan.Scanner, limits Limits) error {
	p.calls, p.members = p.calls[:0], p.members[:0]
	return s.Array(func() error {
		if len(p.calls) == limits.BatchCalls {
			return errTooManyCalls
		}
		return p.parseCall(s)
	})
}

// parseSingle reads the body of an endpoint that takes one call of a type.
func (p *post) parseSingle(body []byte) error {
	p.body = body
	s := jsonscan.New(body)
	s.Kind() // passes white space
	err := p.parseCall(s)
	if err == nil {
		err = s.End()
	}
	if err == nil && body[p.calls[0].start] != '{' {
		return errNotBatch{"the body must be an object: one call"}
	}
	return err
}

// parseCall reads one call. It stands at the call's first byte.
func (p *post) parseCall(s *jsonscan.Scanner) error {
	call := rawCall{start: s.Offset(), members: len(p.members)}
	if s.Kind() != '{' {
		if _, err := s.Value(); err != nil {
			return err
		}
	} else if err := s.Object(func(key []byte) error {
		m := member{field: fieldOf(key), key: int32(s.KeyOffset()), value: int32(s.Offset())}
		_, err := s.Value()
		m.end = int32(s.Offset())
		p.members = append(p.members, m)
		return err
	}); err != nil {
		return err
	}
	call.end = s.Offset()
	p.calls = append(p.calls, call)
	return nil
}

// set takes a member of the batch itself.
func (p *post) set(f field, value []byte) {
	switch f {
	case fieldWriteKey:
		p.writeKey = text(value)
	case fieldSentAt:
		p.sentAt, _ = readTime(timeText(value)) // a batch is not refused for it: its calls are then not corrected
	case fieldContext:
		p.context.set(object(value))
	case fieldIntegrations:
		p.integrations.set(object(value))
	}
}

// membersOf returns the members of the i-th call.
func (p *post) membersOf(i int) []member {
	end := len(p.members)
	if i+1 < len(p.calls) {
		end = p.calls[i+1].members
	}
	return p.members[p.calls[i].members:end]
}

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

// kept returns what is kept of a call that is rejected: what came, with only a
// hint in place of its write key.
func (p *post) kept(d *draft) []byte {
	from, end := p.calls[d.index].start, p.calls[d.index].end
	var kept []byte
	for _, m := range d.members {
		if m.field != fieldWriteKey {
			continue
		}
		if key := text(p.body[m.value:m.end]); key != "" {
			kept = appendString(append(kept, p.body[from:m.value]...), redact(key))
			from = int(m.end)
		}
	}
	kept = append(kept, p.body[from:end]...)
	return bytes.Clone(kept[:min(len(kept), keptBody)])
}
