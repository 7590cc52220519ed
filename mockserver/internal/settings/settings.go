package settings

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Settings can be changed while a collector runs.
type Settings struct {
	Sources      []tracking.Source
	Destinations []tracking.Destination
}

// Source returns the source with a name, or nil. The caller must not change it.
func (s Settings) Source(name string) *tracking.Source { return find(s.Sources, SourceNamed(name)) }

// Destination returns the destination with a name, or nil. The caller must not change it.
func (s Settings) Destination(name string) *tracking.Destination {
	return find(s.Destinations, DestinationNamed(name))
}

func find[T any](all []T, named func(T) bool) *T {
	if i := slices.IndexFunc(all, named); i >= 0 {
		return &all[i]
	}
	return nil
}

// SourceNames returns the names of the sources.
func (s Settings) SourceNames() (names []string) {
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	return names
}

// DestinationNames returns the names of the destinations.
func (s Settings) DestinationNames() (names []string) {
	for _, d := range s.Destinations {
		names = append(names, d.Name)
	}
	return names
}

// Validate returns nil, or one [*webhook.FieldError] per problem, joined. Field names have
// the format destinations[0].webhooks[1].url.
func (s Settings) Validate() error {
	return errors.Join(append(s.sourceProblems(), s.destinationProblems()...)...)
}

// HashProblems returns a [*webhook.FieldError] for each redaction that hashes values without a key.
func (s Settings) HashProblems(key []byte) (problems []error) {
	add := func(at string, r tracking.Redaction) {
		if problem := HashProblem(r, key); problem != nil {
			problem.Field = at + "." + problem.Field
			problems = append(problems, problem)
		}
	}
	for i, source := range s.Sources {
		add(fmt.Sprintf("sources[%d]", i), source.Redact)
	}
	for i, d := range s.Destinations {
		add(fmt.Sprintf("destinations[%d]", i), d.Redact)
	}
	return problems
}

// HashProblem returns the problem of a redaction that hashes values without a key, or nil.
func HashProblem(r tracking.Redaction, key []byte) *webhook.FieldError {
	if len(r.Hash) == 0 || len(key) > 0 {
		return nil
	}
	return &webhook.FieldError{Field: "redact.hash", Problem: "requires a key", Hint: "set redactKey in the configuration file"}
}

func (s Settings) sourceProblems() (problems []error) {
	add := func(i int, field, problem, hint string) {
		problems = append(problems, &webhook.FieldError{Field: fmt.Sprintf("sources[%d].%s", i, field), Problem: problem, Hint: hint})
	}
	names, keys := map[string]bool{}, map[string]string{}
	for i, source := range s.Sources {
		if problem, hint := nameProblem("source", source.Name, names); problem != "" {
			add(i, "name", problem, hint)
		}
		switch other, taken := keys[source.WriteKey]; {
		case source.WriteKey == "":
			add(i, "writeKey", "is empty", "give source "+text.Quote(text.MaxRepeated, source.Name)+" a write key")
		case taken:
			add(i, "writeKey", fmt.Sprintf("duplicates the write key of source %q", other), "give each source its own write key")
		}
		if source.CallsPerSecond < 0 {
			add(i, "callsPerSecond", fmt.Sprintf("is %d", source.CallsPerSecond), "use a positive number, or omit it")
		}
		for _, err := range FieldErrors(errors.Join(source.Redact.Problems()...)) {
			add(i, err.Field, err.Problem, err.Hint)
		}
		keys[source.WriteKey] = source.Name
	}
	return problems
}

func (s Settings) destinationProblems() (problems []error) {
	taken := map[string]bool{}
	for i, d := range s.Destinations {
		at := fmt.Sprintf("destinations[%d].", i)
		if problem, hint := nameProblem("destination", d.Name, taken); problem != "" {
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: problem, Hint: hint})
		}
		for _, err := range FieldErrors(d.Validate()) {
			err.Field = at + err.Field
			problems = append(problems, err)
		}
	}
	return problems
}

// nameProblem checks the name of a source or destination, and adds it to the taken names.
func nameProblem(kind, name string, taken map[string]bool) (problem, hint string) {
	defer func() { taken[name] = true }()
	switch {
	case name == "":
		return "is empty", "give the " + kind + " a name"
	case taken[name]:
		return fmt.Sprintf("duplicates %q", name), "give each " + kind + " a unique name"
	case isTooLong(name):
		return nameTooLong, "use a shorter name"
	}
	return "", ""
}

// FieldErrors returns the [*webhook.FieldError]s that err joins or wraps, in order. They are
// shortened like in [webhook.FieldError.Error].
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
