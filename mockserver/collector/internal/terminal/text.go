package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Width returns the width of text in columns, ignoring escape sequences.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit truncates text to a number of columns and marks truncated text with an ellipsis. It keeps
// escape sequences.
func Fit(s string, columns int) string { return ansi.Truncate(s, max(0, columns), "…") }

// Wrap breaks text into lines of at most the given number of columns.
func Wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(1, columns), ""), "\n")
}
