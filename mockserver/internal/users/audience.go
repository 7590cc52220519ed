package users

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An AudienceSync is the list of all members of an audience, for a destination
// that is to know them. [Service.SyncAudience] tells it those that it does not
// know yet, and those that it knows and are members no more: an identify call
// for each, with the trait SnakeCase(Name), true or false.
type AudienceSync struct {
	// Name is that of the audience, such as "Big Spenders". Names that are the
	// same in snake_case name the same audience.
	Name string
	// Source is the source whose users they are. Defaults to the only one that
	// there is.
	Source string
	// Destination is the one that gets the calls. Defaults to the only one that is
	// enabled and connected to the source.
	Destination string
	// Members yields the IDs of all members, in any order and any number; one that
	// comes twice counts once. See Members and ReadMembers. An error ends the
	// sync, and nothing is changed.
	Members iter.Seq2[string, error]

	// DryRun counts what would be sent, and changes and sends nothing.
	DryRun bool
	// Full also sends what the destination should know from earlier syncs, for one
	// that has lost it.
	Full bool
	// AllowEmpty takes a list without users. Otherwise it is refused: far more
	// often than an audience without members it is a query that went wrong.
	AllowEmpty bool
}

// A TraitSync is the values of a computed trait for all users, for a destination
// that is to know them. [Service.SyncTrait] tells it those that it does not
// know yet: an identify call for each, with the trait SnakeCase(Name). A user
// who has no value any more gets null.
type TraitSync struct {
	// Name is that of the trait, such as "Lifetime Value"; Source and Destination
	// are as in AudienceSync.
	Name        string
	Source      string
	Destination string
	// Values yields the value of every user who has one, in any order and any
	// number; of those of one user the last counts. See Values and ReadValues.
	Values iter.Seq2[TraitValue, error]

	// DryRun, Full and AllowEmpty are as in AudienceSync.
	DryRun, Full, AllowEmpty bool
}

// A TraitValue is the value of a computed trait for one user.
type TraitValue struct {
	UserID string `json:"userId"`
	// Value is any JSON, at most MaxTraitBytes of it. null is as good as no value.
	Value json.RawMessage `json:"value"`
}

// SyncAudience takes the list of an audience's members. When it returns nil, the
// list is as durable as the State of the Config; its calls are made in the
// background, also after a restart, and after those of syncs of this audience
// that came before. The Sync says how far that is; WaitSync waits for it. Its
// calls are delivered as others are, and failed ones are listed as theirs.
//
// Calls of one user can overtake each other on their way to a webhook when one
// is tried again. The one with the highest timestamp counts; the timestamps of
// later syncs are always higher.
//
// The list may be far larger than memory. One goroutine at a time may use
// s.Members; different syncs may run at once.
func (u *Service) SyncAudience(ctx context.Context, s AudienceSync) (Sync, error) {
	if s.Members == nil {
		return Sync{}, &webhook.FieldError{Field: "members", Problem: "is nil", Hint: "use Members or ReadMembers"}
	}
	users := func(yield func(roster.Entry, error) bool) {
		for id, err := range s.Members {
			if err == nil {
				err = checkUserID("a member", id)
			}
			if !yield(roster.Entry{User: id}, err) || err != nil {
				return
			}
		}
	}
	return u.syncs.take(ctx, syncRequest{KindAudience, s.Name, s.Source, s.Destination, users, s.DryRun, s.Full, s.AllowEmpty})
}

// SyncTrait takes the values of a computed trait, as SyncAudience does the
// members of an audience. Values are compared in their canonical form: 1.0 in
// place of 1 is no change.
func (u *Service) SyncTrait(ctx context.Context, s TraitSync) (Sync, error) {
	if s.Values == nil {
		return Sync{}, &webhook.FieldError{Field: "values", Problem: "is nil", Hint: "use Values or ReadValues"}
	}
	values := func(yield func(roster.Entry, error) bool) {
		for v, err := range s.Values {
			e := roster.Entry{User: v.UserID}
			if err == nil {
				e.Value, err = checkValue(fmt.Sprintf("user %q", v.UserID), v)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
	return u.syncs.take(ctx, syncRequest{KindTrait, s.Name, s.Source, s.Destination, values, s.DryRun, s.Full, s.AllowEmpty})
}

// checkUserID returns nil or a [*webhook.FieldError] that names the field.
func checkUserID(field, id string) error {
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
	return &webhook.FieldError{Field: field, Problem: problem, Hint: fmt.Sprintf("give a user ID of 1 to %d bytes of UTF-8", MaxUserIDBytes)}
}

// checkValue returns a value in canonical form, in which it is compared. field
// stands for the line or the user.
func checkValue(field string, v TraitValue) ([]byte, error) {
	if err := checkUserID(field, v.UserID); err != nil {
		return nil, err
	}
	canonical, err := webhook.Canonical(nil, v.Value)
	if err != nil {
		return nil, &webhook.FieldError{Field: field, Problem: "has a value that is no JSON (" + err.Error() + ")", Hint: "give any JSON value"}
	}
	if len(canonical) > MaxTraitBytes {
		return nil, &webhook.FieldError{Field: field, Problem: fmt.Sprintf("has a value of %d bytes", len(canonical)), Hint: fmt.Sprintf("give at most %d bytes of JSON", MaxTraitBytes)}
	}
	return canonical, nil
}

// Members yields user IDs, for AudienceSync.
func Members(userIDs ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range userIDs {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// Values yields a value for each user, for TraitSync.
func Values(values map[string]any) iter.Seq2[TraitValue, error] {
	return func(yield func(TraitValue, error) bool) {
		for _, id := range slices.Sorted(maps.Keys(values)) {
			encoded, err := json.Marshal(values[id])
			if err != nil {
				err = fmt.Errorf("the value of user %q: %w", id, err)
			}
			if !yield(TraitValue{id, encoded}, err) || err != nil {
				return
			}
		}
	}
}

// ReadMembers yields the user IDs in r, one a line. Empty lines count for
// nothing, nor does a carriage return at the end of one or a byte order mark. An
// ID is otherwise taken as it stands, white space included. Errors tell the line.
func ReadMembers(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for line, err := range lines(r, MaxUserIDBytes) {
			id := string(line.text)
			if err == nil {
				err = checkUserID(line.name(), id)
			}
			if !yield(id, err) || err != nil {
				return
			}
		}
	}
}

// ReadValues yields the values in r, one a line, each as {"userId":"u1","value":42}.
// Empty lines count for nothing. Errors tell the line.
func ReadValues(r io.Reader) iter.Seq2[TraitValue, error] {
	return func(yield func(TraitValue, error) bool) {
		// A user ID or a value can be six times as long when all of it is escaped.
		for line, err := range lines(r, 6*(MaxUserIDBytes+MaxTraitBytes)+64) {
			var v TraitValue
			if err == nil {
				v, err = line.value()
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// A line is one of a text, without its end.
type line struct {
	number int // from 1
	text   []byte
}

func (l line) name() string { return fmt.Sprintf("line %d", l.number) }

func (l line) value() (TraitValue, error) {
	var v TraitValue
	in := json.NewDecoder(bytes.NewReader(l.text))
	in.DisallowUnknownFields()
	err := in.Decode(&v)
	_, end := in.Token()
	switch {
	case err != nil:
	case end != io.EOF:
		err = errors.New("it goes on after the object")
	case v.Value == nil:
		err = errors.New("it has no value")
	default:
		_, err := checkValue(l.name(), v)
		return v, err
	}
	return v, &webhook.FieldError{Field: l.name(), Problem: "cannot be read (" + err.Error() + ")", Hint: `write one object such as {"userId":"u1","value":42}`}
}

// lines yields the lines of r that are not empty. They are valid until the next.
func lines(r io.Reader, longest int) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 0, 64<<10), longest+len("\r\n"))
		n := 0
		for in.Scan() {
			n++
			text := in.Bytes()
			if n == 1 {
				text = bytes.TrimPrefix(text, []byte("\uFEFF"))
			}
			if len(text) > 0 && !yield(line{n, text}, nil) {
				return
			}
		}
		switch err := in.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(line{}, &webhook.FieldError{Field: fmt.Sprintf("line %d", n+1), Problem: "is too long", Hint: fmt.Sprintf("keep it to %d bytes", longest)})
		case err != nil:
			yield(line{}, fmt.Errorf("after line %d: %w", n, err))
		}
	}
}
