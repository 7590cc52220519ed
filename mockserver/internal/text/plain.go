package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// IsInvisible reports whether r is an invisible character that could control a terminal, or reorder or
// hide text: a control or format character, a line separator or a filler. Joiners are not included,
// because some scripts and emoji need them.
func IsInvisible(r rune) bool {
	switch r {
	case '\u200C', '\u200D':
		return false
	case '\u034F', '\u115F', '\u1160', '\u3164', '\uFFA0':
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Valid replaces each run of invalid UTF-8 with U+FFFD.
func Valid[T string | []byte](s T) string { return strings.ToValidUTF8(string(s), "\uFFFD") }

// Plain replaces invisible characters and invalid UTF-8 with U+FFFD.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if IsInvisible(r) {
			return '\uFFFD'
		}
		return r
	}, Valid(s))
}

// PlainJSON escapes invisible characters in JSON, except tabs and line breaks between tokens.
func PlainJSON(data []byte) []byte {
	escaped := func(r rune) bool { return r >= ' ' && IsInvisible(r) }
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
