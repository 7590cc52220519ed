package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
)

// Plain makes text harmless that senders chose: a terminal obeys control characters, and
// characters that cannot be seen may turn the order of others round.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u200C' || r == '\u200D': // joiners: scripts and emoji need them
			return r
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Width returns how many columns a text takes, without its colours.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit cuts a text to a number of columns, and shows that it did. Colours are kept.
func Fit(s string, columns int) string { return ansi.Truncate(s, max(0, columns), "…") }

// Wrap breaks a text into lines of a number of columns at most.
func Wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(1, columns), ""), "\n")
}

// PlainJSON writes JSON so that it cannot steer a terminal either: it means the same.
func PlainJSON(data []byte) []byte {
	harmless := func(r rune) bool {
		return r < 0x7f || r == '\u200C' || r == '\u200D' || !unicode.In(r, unicode.Cc, unicode.Cf)
	}
	if bytes.IndexFunc(data, func(r rune) bool { return !harmless(r) }) < 0 {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) { // JSON is UTF-8
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
