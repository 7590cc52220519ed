package mockserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// A Code names what is wrong with a call or a request, in the answer and in
// the inspector.
type Code string

// Codes of a call that was not taken, though its request was.
const (
	CodeNotObject        Code = "call_not_object"
	CodeUnknownType      Code = "unknown_type"
	CodeNoUser           Code = "no_user_anon_id"
	CodeNoEvent          Code = "event_not_defined"
	CodeNoGroup          Code = "group_id_missing"
	CodeNoPrevious       Code = "previous_id_missing"
	CodeBadProperties    Code = "properties_not_object"
	CodeBadTraits        Code = "traits_not_object"
	CodeBadContext       Code = "context_not_object"
	CodeBadIntegrations  Code = "integrations_not_object"
	CodeBadTimestamp     Code = "bad_timestamp"
	CodeBadField         Code = "field_not_string"
	CodeMessageIDTooLong Code = "message_id_too_long"
	CodeCallTooLarge     Code = "call_too_large"
	CodeUnknownWriteKey  Code = "unknown_write_key"
)

// Codes of a request that was not taken.
const (
	CodeInvalidJSON   Code = "invalid_json"
	CodeInvalidBatch  Code = "invalid_batch"
	CodeTooManyCalls  Code = "too_many_calls"
	CodeBodyTooLarge  Code = "body_too_large"
	CodeBadEncoding   Code = "bad_encoding"
	CodeInvalidCalls  Code = "invalid_calls"
	CodeQueueFull     Code = "queue_full"
	CodeRateLimited   Code = "rate_limited"
	CodeUnavailable   Code = "unavailable"
	CodeNotFound      Code = "not_found"
	CodeWrongMethod   Code = "method_not_allowed"
	CodeInvalidHeader Code = "invalid_header"
)

// A Rejection is a call that was not taken.
type Rejection struct {
	Code       Code      `json:"code"`
	Field      string    `json:"field,omitempty"` // the member that is wrong, where one is
	Message    string    `json:"message"`         // what is wrong and what would be right
	Index      int       `json:"index"`           // the call's place in its request, from 0
	Source     string    `json:"source,omitempty"`
	ReceivedAt time.Time `json:"receivedAt"`
	Body       []byte    `json:"-"` // as received; at most the first 32 KB
}

// Limits of what the collector takes. They are those of the service.
type Limits struct {
	BodyBytes      int // of a request, after decompression. Defaults to 512,000
	CallBytes      int // of one call. Defaults to 32,768
	BatchCalls     int // in one request. Defaults to 2,500
	MessageIDChars int // of a messageId. Defaults to 100

	// CallsPerSecond is how many calls each source may send a second, on average,
	// unless it has a limit of its own. Defaults to no limit.
	CallsPerSecond int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.BodyBytes, 512_000)
	set(&l.CallBytes, 32_768)
	set(&l.BatchCalls, 2_500)
	set(&l.MessageIDChars, 100)
	return l
}

// A post is what one request held.
type post struct {
	writeKey     string
	sentAt       time.Time
	context      []byte // a JSON object, or nil
	integrations []byte // a JSON object, or nil
	calls        []rawCall
	rejected     []Rejection
}

// A rawCall is a call of a post before it is completed.
type rawCall struct {
	Call
	index    int
	writeKey string
	raw      []byte
	bad      Rejection // Code is empty where nothing is wrong

	context, integrations []byte
	timestamp             string
	typeIsOurs            bool // named by the endpoint, not by the call
}

// errTooManyCalls is what parsing ends with beyond Limits.BatchCalls.
var errTooManyCalls = errors.New("too many calls")

// errNotBatch says that a body is not of the shape of its endpoint.
type errNotBatch struct{ problem string }

func (e errNotBatch) Error() string { return e.problem }

// parseBatch reads the body of a batch.
func parseBatch(body []byte, limits Limits) (*post, error) {
	s := jsonscan.New(body)
	if s.Kind() != '{' {
		if _, err := s.Value(); err != nil {
			return nil, err
		}
		return nil, errNotBatch{`the body must be an object such as {"batch":[…]}`}
	}
	p := &post{}
	var array []byte
	err := s.Object(func(key []byte) error {
		value, err := s.Value()
		if err != nil {
			return err
		}
		switch string(jsonscan.Unquote(key)) {
		case "batch":
			array = value
		default:
			p.set(string(jsonscan.Unquote(key)), value)
		}
		return nil
	})
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return nil, err
	}
	if len(array) == 0 || array[0] != '[' {
		return nil, errNotBatch{`the body must have a member "batch" that is an array of calls`}
	}
	return p, p.readCalls(array, limits)
}

func (p *post) readCalls(array []byte, limits Limits) error {
	s := jsonscan.New(array)
	return s.Array(func() error {
		if len(p.calls) == limits.BatchCalls {
			return errTooManyCalls
		}
		raw, err := s.Value()
		if err == nil {
			p.calls = append(p.calls, rawCall{index: len(p.calls), raw: raw})
		}
		return err
	})
}

// parseSingle reads the body of an endpoint that takes one call of a type.
func parseSingle(body []byte) (*post, error) {
	s := jsonscan.New(body)
	raw, err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return nil, err
	}
	if raw[0] != '{' {
		return nil, errNotBatch{"the body must be an object: one call"}
	}
	return &post{calls: []rawCall{{raw: raw}}}, nil
}

// set takes a member of the batch itself.
func (p *post) set(key string, value []byte) {
	switch key {
	case "writeKey":
		p.writeKey = text(value)
	case "sentAt":
		p.sentAt, _ = parseTime(text(value)) // a batch is not refused for it: its calls are then not corrected
	case "context":
		p.context = object(value)
	case "integrations":
		p.integrations = object(value)
	}
}

// read takes the members of a call that the collector needs, and checks it.
// A single call's endpoint names its type.
func (c *rawCall) read(limits Limits, typ string) {
	switch {
	case c.raw[0] != '{':
		c.reject(CodeNotObject, "", "a call must be an object")
		return
	case len(c.raw) > limits.CallBytes:
		c.reject(CodeCallTooLarge, "", fmt.Sprintf("the call has %d bytes; at most %d are allowed", len(c.raw), limits.CallBytes))
		return
	}
	s := jsonscan.New(c.raw)
	_ = s.Object(func(key []byte) error { // the batch's reader has checked the syntax
		value, err := s.Value()
		c.set(string(jsonscan.Unquote(key)), value)
		return err
	})
	if typ != "" && c.Type != typ {
		c.Type, c.typeIsOurs = typ, true
	}
	c.check(limits)
}

// set takes one member. Strings may come as numbers: some libraries send ids so.
func (c *rawCall) set(key string, value []byte) {
	switch key {
	case "writeKey":
		c.writeKey = text(value)
	case "timestamp":
		c.timestamp = text(value)
		if c.timestamp == "" && string(value) != "null" {
			c.reject(CodeBadTimestamp, key, "timestamp must be a string of ISO 8601")
		}
	case "originalTimestamp":
		if c.timestamp == "" {
			c.timestamp = text(value)
		}
	case "sentAt":
		c.SentAt, _ = parseTime(text(value))
	case "context":
		c.context = c.object(key, value, CodeBadContext)
	case "integrations":
		c.integrations = c.object(key, value, CodeBadIntegrations)
	case "properties":
		c.object(key, value, CodeBadProperties)
	case "traits":
		c.object(key, value, CodeBadTraits)
	default:
		if field := c.Call.field(key); field != nil {
			*field = text(value)
			if value[0] != '"' && value[0] != 'n' && *field == "" {
				c.reject(CodeBadField, key, key+" must be a string")
			}
		}
	}
}

// field returns the string that a member of a call is read into, or nil.
func (c *Call) field(key string) *string {
	switch key {
	case "messageId":
		return &c.ID
	case "type":
		return &c.Type
	case "userId":
		return &c.UserID
	case "anonymousId":
		return &c.AnonymousID
	case "event":
		return &c.Event
	case "name":
		return &c.Name
	case "category":
		return &c.Category
	case "groupId":
		return &c.GroupID
	case "previousId":
		return &c.PreviousID
	}
	return nil
}

// object returns a member that must be an object or null.
func (c *rawCall) object(key string, value []byte, code Code) []byte {
	if value[0] != '{' && value[0] != 'n' {
		c.reject(code, key, key+" must be an object")
	}
	return object(value)
}

// check holds the call against the rules of its type.
func (c *rawCall) check(limits Limits) {
	switch c.Type {
	case "identify", "page", "screen":
	case "track":
		if c.Event == "" {
			c.reject(CodeNoEvent, "event", "a track call needs the name of its event")
		}
	case "group":
		if c.GroupID == "" {
			c.reject(CodeNoGroup, "groupId", "a group call needs a groupId")
		}
	case "alias":
		if c.PreviousID == "" {
			c.reject(CodeNoPrevious, "previousId", "an alias call needs a previousId")
		}
	default:
		c.reject(CodeUnknownType, "type", fmt.Sprintf("%.40q is not a type; the types are identify, track, page, screen, group and alias", c.Type))
		return
	}
	if c.UserID == "" && c.AnonymousID == "" {
		c.reject(CodeNoUser, "userId", "a call needs a userId or an anonymousId")
	}
	if n := len([]rune(c.ID)); n > limits.MessageIDChars {
		c.reject(CodeMessageIDTooLong, "messageId", fmt.Sprintf("the messageId has %d characters; at most %d are allowed", n, limits.MessageIDChars))
	}
	if c.timestamp != "" {
		t, err := parseTime(c.timestamp)
		if err != nil {
			c.reject(CodeBadTimestamp, "timestamp", err.Error())
		}
		c.OriginalTimestamp = t
	}
}

// reject keeps the first problem of a call.
func (c *rawCall) reject(code Code, field, message string) {
	if c.bad.Code == "" {
		c.bad = Rejection{Code: code, Field: field, Message: message, Index: c.index, Body: c.raw}
	}
}

// complete makes the call that is stored, and writes its body to dst.
func (c *rawCall) complete(dst []byte, p *post, source string, received time.Time) (Call, []byte) {
	call := c.Call
	call.Source = source
	call.ReceivedAt = received.UTC().Truncate(time.Millisecond)
	if call.SentAt.IsZero() {
		call.SentAt = p.sentAt
	}
	call.Timestamp = correctClock(call.ReceivedAt, call.SentAt, call.OriginalTimestamp)
	if call.ID == "" {
		call.ID = "collector-" + strings.ToLower(rand.Text())
	}
	start := len(dst)
	dst = c.appendBody(dst, p, &call)
	call.Body = dst[start:len(dst):len(dst)]
	return call, dst
}

// appendBody writes the members as they came, but for those that the collector
// answers for.
func (c *rawCall) appendBody(dst []byte, p *post, call *Call) []byte {
	dst = append(dst, '{')
	s := jsonscan.New(c.raw)
	_ = s.Object(func(key []byte) error {
		value, err := s.Value()
		switch string(jsonscan.Unquote(key)) {
		case "timestamp", "originalTimestamp", "sentAt", "receivedAt", "writeKey":
			return err
		case "type":
			if c.typeIsOurs {
				return err
			}
		case "messageId":
			if c.ID == "" {
				return err
			}
		case "context":
			if p.context != nil {
				return err
			}
		case "integrations":
			if p.integrations != nil {
				return err
			}
		}
		dst = append(append(append(append(dst, key...), ':'), value...), ',')
		return err
	})
	if p.context != nil {
		dst = append(merge(append(dst, `"context":`...), c.context, p.context), ',')
	}
	if p.integrations != nil {
		dst = append(merge(append(dst, `"integrations":`...), c.integrations, p.integrations), ',')
	}
	if c.typeIsOurs {
		dst = append(appendString(append(dst, `"type":`...), call.Type), ',')
	}
	if c.ID == "" {
		dst = append(appendString(append(dst, `"messageId":`...), call.ID), ',')
	}
	dst = appendTimeMember(dst, `"receivedAt":"`, call.ReceivedAt)
	dst = appendTimeMember(dst, `,"sentAt":"`, call.SentAt)
	dst = appendTimeMember(dst, `,"originalTimestamp":"`, call.OriginalTimestamp)
	dst = appendTimeMember(dst, `,"timestamp":"`, call.Timestamp)
	return append(dst, '}')
}

func appendTimeMember(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(appendTime(append(dst, name...), t), '"')
}

// merge writes the object over with the members of under that it lacks.
func merge(dst, over, under []byte) []byte {
	if over == nil {
		return append(dst, under...)
	}
	dst = append(dst, '{')
	has := map[string]bool{}
	s := jsonscan.New(over)
	_ = s.Object(func(key []byte) error {
		has[string(jsonscan.Unquote(key))] = true
		value, err := s.Value()
		dst = append(append(append(append(dst, key...), ':'), value...), ',')
		return err
	})
	s = jsonscan.New(under)
	_ = s.Object(func(key []byte) error {
		value, err := s.Value()
		if !has[string(jsonscan.Unquote(key))] {
			dst = append(append(append(append(dst, key...), ':'), value...), ',')
		}
		return err
	})
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// ReadCall reads a stored call back from its Body, which it keeps.
func ReadCall(source string, body []byte) (Call, error) {
	c := Call{Source: source, Body: body}
	s := jsonscan.New(body)
	err := s.Object(func(key []byte) error {
		value, err := s.Value()
		if err != nil {
			return err
		}
		switch name := string(jsonscan.Unquote(key)); name {
		case "receivedAt":
			c.ReceivedAt, err = parseTime(text(value))
		case "sentAt":
			c.SentAt, err = parseTime(text(value))
		case "originalTimestamp":
			c.OriginalTimestamp, err = parseTime(text(value))
		case "timestamp":
			c.Timestamp, err = parseTime(text(value))
		default:
			if field := c.field(name); field != nil {
				*field = text(value)
			}
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return Call{}, fmt.Errorf("mockserver: a stored call cannot be read: %w", err)
	}
	return c, nil
}

// text returns what a string says, the digits of a number, and otherwise "".
func text(value []byte) string {
	switch c := value[0]; {
	case c == '"':
		return strings.ToValidUTF8(string(jsonscan.Unquote(value)), "\uFFFD")
	case c == '-' || (c >= '0' && c <= '9'):
		return string(value)
	}
	return ""
}

// object returns the value if it is an object, and otherwise nil.
func object(value []byte) []byte {
	if value[0] == '{' {
		return value
	}
	return nil
}

// appendString writes s, which is valid UTF-8, as JSON.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
