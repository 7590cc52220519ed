package settings

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Settings are what can be changed while a collector runs.
type Settings struct {
	Sources      []tracking.Source
	Destinations []tracking.Destination
}

// Validate returns nil, or one [*webhook.FieldError] for each thing that is
// wrong, joined. Fields are named as in destinations[0].webhooks[1].url.
func (s Settings) Validate() error {
	return errors.Join(append(s.sourceProblems(), s.destinationProblems()...)...)
}

func (s Settings) sourceProblems() (problems []error) {
	add := func(i int, field, problem, hint string) {
		problems = append(problems, &webhook.FieldError{Field: fmt.Sprintf("sources[%d].%s", i, field), Problem: problem, Hint: hint})
	}
	names, keys := map[string]bool{}, map[string]string{}
	for i, source := range s.Sources {
		switch {
		case source.Name == "":
			add(i, "name", "is empty", "give the source a name")
		case names[source.Name]:
			add(i, "name", fmt.Sprintf("is %q again", source.Name), "give each source a name of its own")
		case IsTooLong(source.Name):
			add(i, "name", NameTooLong, "use a shorter one")
		}
		switch other, taken := keys[source.WriteKey]; {
		case source.WriteKey == "":
			add(i, "writeKey", "is empty", "give source "+text.Quote(text.MaxRepeated, source.Name)+" a write key")
		case taken:
			add(i, "writeKey", fmt.Sprintf("is that of source %q too", other), "give each source a write key of its own")
		}
		if source.CallsPerSecond < 0 {
			add(i, "callsPerSecond", fmt.Sprintf("is %d", source.CallsPerSecond), "use a number above 0, or leave it out")
		}
		names[source.Name], keys[source.WriteKey] = true, source.Name
	}
	return problems
}

func (s Settings) destinationProblems() (problems []error) {
	taken := map[string]bool{}
	for i, d := range s.Destinations {
		at := fmt.Sprintf("destinations[%d].", i)
		switch {
		case d.Name == "":
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: "is empty", Hint: "give the destination a name"})
		case taken[d.Name]:
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: fmt.Sprintf("is %q again", d.Name), Hint: "give each destination a name of its own"})
		case IsTooLong(d.Name):
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: NameTooLong, Hint: "use a shorter one"})
		}
		taken[d.Name] = true
		for _, err := range FieldErrors(d.Validate()) {
			err.Field = at + err.Field
			problems = append(problems, err)
		}
	}
	return problems
}

// FieldErrors returns the [*webhook.FieldError]s that err joins or wraps, in their order. They
// are shortened as in [webhook.FieldError.Error].
func FieldErrors(err error) (all []*webhook.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, FieldErrors(e)...)
		}
		return all
	}
	if field := (*webhook.FieldError)(nil); errors.As(err, &field) {
		return []*webhook.FieldError{{Field: text.CutBytes(text.MaxField, field.Field), Problem: text.CutBytes(text.MaxProblem, field.Problem), Hint: field.Hint}}
	}
	return nil
}
