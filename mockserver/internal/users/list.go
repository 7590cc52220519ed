package users

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// readList yields the users of a list with one user per line. It stops after an error, which
// contains the line number.
func readList(kind ComputationKind, r io.Reader) roster.Seq {
	longest, parse := MaxUserIDBytes, parseMember
	if kind == KindTrait {
		// Escaping can make user IDs and values six times as long.
		longest, parse = 6*(MaxUserIDBytes+maxTraitBytes)+64, parseValue
	}
	return func(yield func(roster.Entry, error) bool) {
		in := bufio.NewScanner(textfile.NewReader(r))
		in.Buffer(make([]byte, 0, 64<<10), longest+len("\r\n"))
		n := 0
		for in.Scan() {
			n++
			line := in.Bytes()
			if len(line) == 0 {
				continue
			}
			e, wrong := parse(line)
			if wrong != nil {
				wrong.Field = fmt.Sprintf("line %d", n)
				yield(e, wrong)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		switch err := in.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(roster.Entry{}, &webhook.FieldError{Field: fmt.Sprintf("line %d", n+1), Problem: "is too long", Hint: fmt.Sprintf("keep it to %d bytes", longest)})
		case err != nil:
			yield(roster.Entry{}, fmt.Errorf("after line %d: %w", n, err))
		}
	}
}

// stored yields the entries of a list with the IDs that the stored calls of a source have. The
// order changes.
func (u *Service) stored(source string, list roster.Seq) roster.Seq {
	id := u.config.StoredID(source)
	return func(yield func(roster.Entry, error) bool) {
		for e, err := range list {
			e.User = id(e.User)
			if !yield(e, err) {
				return
			}
		}
	}
}

// parseMember parses a line of an audience. The caller sets the Field of the error.
func parseMember(line []byte) (roster.Entry, *webhook.FieldError) {
	id := string(line)
	return roster.Entry{User: id}, checkUserID(id)
}

// parseValue parses a line of a computed trait. It returns the value in canonical form, so values
// can be compared.
func parseValue(line []byte) (roster.Entry, *webhook.FieldError) {
	var v struct {
		UserID string          `json:"userId"`
		Value  json.RawMessage `json:"value"`
	}
	err := text.ParseJSON(line, &v)
	if err == nil && v.Value == nil {
		err = errors.New("it has no value")
	}
	if err != nil {
		return roster.Entry{}, &webhook.FieldError{Problem: "cannot be read (" + err.Error() + ")", Hint: `write one object such as {"userId":"u1","value":42}`}
	}
	if wrong := checkUserID(v.UserID); wrong != nil {
		return roster.Entry{}, wrong
	}
	canonical, err := webhook.Canonical(nil, v.Value)
	if err != nil {
		return roster.Entry{}, &webhook.FieldError{Problem: "has a value that is not valid JSON (" + err.Error() + ")", Hint: "give any JSON value"}
	}
	if len(canonical) > maxTraitBytes {
		return roster.Entry{}, &webhook.FieldError{Problem: fmt.Sprintf("has a value of %d bytes", len(canonical)), Hint: fmt.Sprintf("give at most %d bytes of JSON", maxTraitBytes)}
	}
	return roster.Entry{User: v.UserID, Value: canonical}, nil
}

// checkUserID returns the problem of a user ID, or nil.
func checkUserID(id string) *webhook.FieldError {
	problem := ""
	switch {
	case id == "":
		problem = "is empty"
	case len(id) > MaxUserIDBytes:
		problem = fmt.Sprintf("has %d bytes", len(id))
	case !utf8.ValidString(id):
		problem = fmt.Sprintf("is %.40q, which is not UTF-8", id)
	default:
		return nil
	}
	return &webhook.FieldError{Problem: problem, Hint: fmt.Sprintf("give a user ID of 1 to %d bytes of UTF-8", MaxUserIDBytes)}
}
