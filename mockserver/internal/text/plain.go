package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// IsInvisible reports whether r is invisible, but could manipulate a terminal, reorder text or hide
// it: control and format characters, line separators and fillers. It excludes joiners, because some
// scripts and emoji need them.
func IsInvisible(r rune) bool {
	switch r {
	case '\u200C', '\u200D':
		return false
	case '\u034F', '\u115F', '\u1160', '\u3164', '\uFFA0':
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Plain replaces invisible characters and invalid UTF-8.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if IsInvisible(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// PlainJSON escapes invisible characters in JSON, except white space between tokens.
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
