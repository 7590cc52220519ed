package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
)

// Plain replaces control characters and invisible characters, because they could manipulate the
// terminal or reorder text.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u200C' || r == '\u200D': // some scripts and emoji need these joiners
			return r
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Width returns the width of text in columns, ignoring escape sequences.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit truncates text to a number of columns and marks truncated text with an ellipsis. It keeps
// escape sequences.
func Fit(s string, columns int) string { return ansi.Truncate(s, max(0, columns), "…") }

// Wrap breaks text into lines of at most the given number of columns.
func Wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(1, columns), ""), "\n")
}

// PlainJSON escapes control and invisible characters in JSON.
func PlainJSON(data []byte) []byte {
	harmless := func(r rune) bool {
		return r < 0x7f || r == '\u200C' || r == '\u200D' || !unicode.In(r, unicode.Cc, unicode.Cf)
	}
	if bytes.IndexFunc(data, func(r rune) bool { return !harmless(r) }) < 0 {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) { // JSON is valid UTF-8
		switch high, low := utf16.EncodeRune(r); {
		case harmless(r):
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
