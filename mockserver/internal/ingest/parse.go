package ingest

import (
	"errors"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

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
	rejected     []tracking.Rejection
}

// A rawCall is a call as it stands in the body of a request.
type rawCall struct {
	start, end int // in post.body
	members    int // where its members begin in post.members; they end where those of the next begin
}

// A member is one of a call's members.
type member struct {
	field           fields.Field
	key, value, end int32 // where the key and the value begin, and where the value ends, in post.body
}

// errTooManyCalls is what parsing ends with beyond Limits.BatchCalls.
var errTooManyCalls = errors.New("too many calls")

// errNotBatch says that a body is not of the shape of its endpoint.
type errNotBatch struct{ problem string }

func (e errNotBatch) Error() string { return e.problem }

// parse reads a body by the shape of its endpoint: a batch, or one call of a
// type.
func (p *post) parse(body []byte, typ string, limits tracking.Limits) *requestError {
	var err error
	if typ == "" {
		err = p.parseBatch(body, limits)
	} else {
		err = p.parseSingle(body)
	}
	var shape errNotBatch
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooManyCalls):
		return refuse(http.StatusRequestEntityTooLarge, tracking.CodeTooManyCalls, "the batch has more than %d calls", limits.BatchCalls)
	case errors.As(err, &shape):
		return refuse(http.StatusBadRequest, tracking.CodeInvalidBatch, "%s", shape.problem)
	}
	return refuse(http.StatusBadRequest, tracking.CodeInvalidJSON, "%v", err)
}

// parseBatch reads the body of a batch into p, in one pass.
func (p *post) parseBatch(body []byte, limits tracking.Limits) error {
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
			p.set(fields.Of(key), value)
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
func (p *post) parseCalls(s *jsonscan.Scanner, limits tracking.Limits) error {
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

// set takes a member of the batch itself.
func (p *post) set(f fields.Field, value []byte) {
	switch f {
	case fields.WriteKey:
		p.writeKey = fields.Text(value)
	case fields.SentAt:
		p.sentAt, _ = fields.ReadTime(fields.TimeText(value)) // a batch is not refused for it: its calls are then not corrected
	case fields.Context:
		p.context.set(fields.Object(value))
	case fields.Integrations:
		p.integrations.set(fields.Object(value))
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
