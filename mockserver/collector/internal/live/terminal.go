package live

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// CanDraw reports whether out is a terminal that can move its cursor.
func CanDraw(out io.Writer) bool {
	kind := os.Getenv("TERM")
	return IsTerminal(out) && kind != "dumb" && (kind != "" || os.PathSeparator == '\\') // Windows does not set TERM
}

// A style is an ANSI style. Its color is one of the 16 colors of the terminal's theme, which are
// readable on light and dark backgrounds.
type style string

const (
	normal  style = ""
	bold    style = "1"
	faint   style = "2"
	reverse style = "7"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	cyan    style = "36"
)

// paint returns text with the escape sequences of the style.
func (s style) paint(text string) string {
	if s == normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// Widths are numbers of columns on the screen, not of bytes or characters.

// fit truncates text to a number of columns and marks truncated text with an ellipsis. It keeps
// escape sequences.
func fit(s string, columns int) string { return ansi.Truncate(s, columns, "…") }

// wrap breaks text into lines of at most the given number of columns.
func wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(1, columns), ""), "\n")
}
