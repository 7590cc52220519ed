package wire

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// AppendString appends s as a quoted JSON string. It escapes only the characters that JSON
// requires, and U+2028 and U+2029, which are line breaks in JavaScript. Each invalid byte becomes
// \ufffd.
//
// Printable ASCII without quotes and backslashes is checked and copied eight bytes at a time.
// The last eight bytes may overlap the previous ones.
func AppendString(dst []byte, s string) []byte {
	n := len(dst)
	if cap(dst)-n < len(s)+2 {
		dst = slices.Grow(dst, len(s)+2)
	}
	text := dst[n : n+len(s)+2]
	text[0], text[len(text)-1] = '"', '"'
	var found uint64
	switch {
	case len(s) >= 8:
		last := len(s) - 8
		for i := 0; i < last; i += 8 {
			w := word(s[i:])
			found |= special(w)
			binary.LittleEndian.PutUint64(text[1+i:], w)
		}
		w := word(s[last:])
		found |= special(w)
		binary.LittleEndian.PutUint64(text[1+last:], w)
	case len(s) >= 4:
		first, last := halfWord(s), halfWord(s[len(s)-4:])
		found = special(uint64(first) | uint64(last)<<32)
		binary.LittleEndian.PutUint32(text[1:], first)
		binary.LittleEndian.PutUint32(text[len(s)-3:], last)
	default:
		for i := range len(s) {
			if !plain[s[i]] {
				found = 1
			}
			text[1+i] = s[i]
		}
	}
	if found == 0 {
		return dst[:n+len(text)]
	}
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// word returns the first eight bytes of s.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// halfWord returns the first four bytes of s.
func halfWord(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// special returns 0 if each byte of w is printable ASCII and not a quote or a backslash.
func special(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & high
}

// plain contains true for each byte that is not escaped in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendEscaped appends s as a JSON string without quotes.
func appendEscaped(dst []byte, s string) []byte {
	start := 0 // s[start:i] has not been appended yet
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = appendControl(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + n
		} else if r == '\u2028' || r == '\u2029' {
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + n
		}
		i += n
	}
	return append(dst, s[start:]...)
}

// appendControl appends the escape sequence for a quote, a backslash or a control character.
func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

const hexDigits = "0123456789abcdef"

func appendBase64(dst []byte, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}
