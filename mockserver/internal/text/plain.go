package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// isInvisible reports whether r is a control or format character or a line separator. Such
// characters could manipulate a terminal, reorder text or hide it. The joiners are not among them,
// because some scripts and emoji need them.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200C' && r != '\u200D'
}

// Plain replaces invisible characters and invalid UTF-8.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// PlainJSON escapes invisible characters in JSON, except white space between tokens.
func PlainJSON(data []byte) []byte {
	escaped := func(r rune) bool { return r >= ' ' && isInvisible(r) }
	if bytes.IndexFunc(data, escaped) < 0 {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) { // JSON is valid UTF-8
		if !escaped(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}
