package settings

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxNameChars bounds the name of a source or a destination, which journals use as
// part of a subject or a path.
const maxNameChars = 100

var nameTooLong = fmt.Sprintf("has more than %d characters", maxNameChars)

func isTooLong(name string) bool { return utf8.RuneCountInString(name) > maxNameChars }

// CheckName holds a new name against what fits a path and a line of text.
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

// SourceNamed returns a function that picks the source of a name, for package slices.
func SourceNamed(name string) func(tracking.Source) bool {
	return func(s tracking.Source) bool { return s.Name == name }
}

// DestinationNamed returns a function that picks the destination of a name.
func DestinationNamed(name string) func(tracking.Destination) bool {
	return func(d tracking.Destination) bool { return d.Name == name }
}
