package ingest

import (
	"errors"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A post is the parsed body of a request. It refers to the memory of the body.
type post struct {
	body         []byte
	writeKey     string
	sentAt       time.Time
	context      overlay
	integrations overlay
	calls        []rawCall
	members      []member // fields of all calls
	source       string   // first known source of the calls; set by the sorter
	rejected     []tracking.Rejection
}

// A rawCall is the location of a call in the body.
type rawCall struct {
	start, end int // offsets in post.body
	members    int // index of the call's first field in post.members; the next call's fields follow
}

// A member is the location of a field of a call.
type member struct {
	field           fields.Field
	key, value, end int32 // offsets in post.body: start of the key, start and end of the value
}

// parse parses a body in one pass. If typ is empty, the body is a batch; otherwise it is one call.
func (p *post) parse(body []byte, typ string, limits tracking.Limits) *requestError {
	p.body = body
	s := jsonscan.New(body)
	err := p.parseObject(s, typ, limits)
	if err == nil {
		err = s.End()
	}
	var refused *requestError
	if err == nil || errors.As(err, &refused) {
		return refused
	}
	return refuse(http.StatusBadRequest, tracking.CodeInvalidJSON, "%v", err)
}

// parseObject parses the body. The error is a *requestError or a *jsonscan.SyntaxError.
func (p *post) parseObject(s *jsonscan.Scanner, typ string, limits tracking.Limits) error {
	problem := "the body must be an object: one call"
	switch isObject := s.Kind() == '{'; {
	case isObject && typ == "":
		return p.parseBatch(s, limits)
	case isObject:
		return p.parseCall(s)
	case typ == "":
		problem = `the body must be an object such as {"batch":[…]}`
	}
	_, err := s.Value()
	return invalidBatch(s, err, problem)
}

// invalidBatch returns err or, if it is nil, the error for JSON with the wrong structure.
func invalidBatch(s *jsonscan.Scanner, err error, problem string) error {
	if err == nil {
		err = s.End()
	}
	if err == nil {
		err = refuse(http.StatusBadRequest, tracking.CodeInvalidBatch, "%s", problem)
	}
	return err
}

func (p *post) parseBatch(s *jsonscan.Scanner, limits tracking.Limits) error {
	found := false
	err := s.Object(func(key []byte) error {
		if string(jsonscan.Unquote(key)) == "batch" {
			if found = s.Kind() == '['; found {
				return p.parseCalls(s, limits)
			}
		}
		value, err := s.Value()
		if err == nil {
			p.set(fields.Of(key), value)
		}
		return err
	})
	if !found {
		return invalidBatch(s, err, `the body must have a field "batch" with an array of calls`)
	}
	return err
}

// parseCalls parses the calls of a batch. If the batch has the field batch twice, the last one is
// used, as in other JSON parsers.
func (p *post) parseCalls(s *jsonscan.Scanner, limits tracking.Limits) error {
	p.calls, p.members = p.calls[:0], p.members[:0]
	return s.Array(func() error {
		if len(p.calls) == limits.BatchCalls {
			return refuse(http.StatusRequestEntityTooLarge, tracking.CodeTooManyCalls, "the batch has more than %d calls", limits.BatchCalls)
		}
		return p.parseCall(s)
	})
}

// parseCall parses one call.
func (p *post) parseCall(s *jsonscan.Scanner) error {
	call := rawCall{start: s.Offset(), members: len(p.members)}
	if s.Kind() != '{' {
		if _, err := s.Value(); err != nil {
			return err
		}
	} else if err := s.Object(func(key []byte) error {
		m := member{field: fields.Of(key), key: int32(s.KeyOffset()), value: int32(s.Offset())}
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

// set stores a field of the batch in p.
func (p *post) set(f fields.Field, value []byte) {
	switch f {
	case fields.WriteKey:
		p.writeKey = fields.Text(value)
	case fields.SentAt:
		p.sentAt, _ = fields.ParseTime(fields.TimeText(value)) // if it is invalid, call times are not corrected
	case fields.Context:
		p.context = overlay{raw: fields.Object(value)}
	case fields.Integrations:
		p.integrations = overlay{raw: fields.Object(value)}
	}
}

// library returns the name and version of the library that sent the first parsed call, or "".
func (p *post) library() string {
	if library := fields.Library(p.context.raw); library != "" || len(p.calls) == 0 {
		return library
	}
	for _, m := range p.membersOf(0) {
		if m.field == fields.Context {
			return fields.Library(p.body[m.value:m.end])
		}
	}
	return ""
}

// membersOf returns the fields of the i-th call.
func (p *post) membersOf(i int) []member {
	end := len(p.members)
	if i+1 < len(p.calls) {
		end = p.calls[i+1].members
	}
	return p.members[p.calls[i].members:end]
}
