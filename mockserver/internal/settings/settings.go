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

// located returns the problems that check finds in the elements of a list, such as sources. It adds
// the index of the element to the field names.
func located[T any](list string, all []T, check func(T) error) (problems []error) {
	for i, one := range all {
		for _, problem := range FieldErrors(check(one)) {
			problem.Field = fmt.Sprintf("%s[%d].%s", list, i, problem.Field)
			problems = append(problems, problem)
		}
	}
	return problems
}

// HashProblems returns a [*webhook.FieldError] for each redaction that hashes values without a key.
func (s Settings) HashProblems(key []byte) []error {
	return append(
		located("sources", s.Sources, func(source tracking.Source) error { return HashProblem(source.Redact, key) }),
		located("destinations", s.Destinations, func(d tracking.Destination) error { return HashProblem(d.Redact, key) })...)
}

// HashProblem returns the [*webhook.FieldError] of a redaction that hashes values without a key, or
// nil.
func HashProblem(r tracking.Redaction, key []byte) error {
	if len(r.Hash) == 0 || len(key) > 0 {
		return nil
	}
	return &webhook.FieldError{Field: "redact.hash", Problem: "requires a key", Hint: "set redactKey in the configuration file"}
}

func (s Settings) sourceProblems() []error {
	names, keys := map[string]bool{}, map[string]string{}
	return located("sources", s.Sources, func(source tracking.Source) error {
		problems := []error{nameProblem("source", source.Name, names)}
		add := func(field, problem, hint string) {
			problems = append(problems, &webhook.FieldError{Field: field, Problem: problem, Hint: hint})
		}
		switch other, taken := keys[source.WriteKey]; {
		case source.WriteKey == "":
			add("writeKey", "is empty", "give source "+text.Quote(text.MaxRepeated, source.Name)+" a write key")
		case taken:
			add("writeKey", fmt.Sprintf("duplicates the write key of source %q", other), "give each source its own write key")
		}
		if source.CallsPerSecond < 0 {
			add("callsPerSecond", fmt.Sprintf("is %d", source.CallsPerSecond), "use a positive number, or omit it")
		}
		keys[source.WriteKey] = source.Name
		return errors.Join(append(problems, source.Redact.Problems()...)...)
	})
}

func (s Settings) destinationProblems() []error {
	taken := map[string]bool{}
	return located("destinations", s.Destinations, func(d tracking.Destination) error {
		return errors.Join(nameProblem("destination", d.Name, taken), d.Validate())
	})
}

// nameProblem checks the name of a source or destination, and adds it to the taken names.
func nameProblem(kind, name string, taken map[string]bool) error {
	err := CheckName(name)
	if err == nil && taken[name] {
		err = &webhook.FieldError{Field: "name", Problem: fmt.Sprintf("duplicates %q", name), Hint: "give each " + kind + " a unique name"}
	}
	taken[name] = true
	return err
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
