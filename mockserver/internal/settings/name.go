package settings

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxNameChars limits the names of sources and destinations, which journals use in subjects
// and paths.
const maxNameChars = 100

var nameTooLong = fmt.Sprintf("has more than %d characters", maxNameChars)

func isTooLong(name string) bool { return utf8.RuneCountInString(name) > maxNameChars }

// CheckName reports whether a new name is valid in paths and in a line of text.
func CheckName(name string) error {
	problem := ""
	switch {
	case strings.TrimSpace(name) == "":
		problem = "is empty"
	case isTooLong(name):
		problem = nameTooLong
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(name) != name:
		problem = "has a character that cannot be seen"
	default:
		return nil
	}
	return &webhook.FieldError{Field: "name", Problem: problem, Hint: fmt.Sprintf("use 1 to %d printable characters", maxNameChars)}
}

// SourceNamed returns a function for package slices that selects the source with a name.
func SourceNamed(name string) func(tracking.Source) bool {
	return func(s tracking.Source) bool { return s.Name == name }
}

// DestinationNamed is SourceNamed for destinations.
func DestinationNamed(name string) func(tracking.Destination) bool {
	return func(d tracking.Destination) bool { return d.Name == name }
}
