package analytics

import (
	"math/bits"
	"unicode/utf8"
)

// appendString appends s as a quoted JSON string. It escapes what JSON must
// have escaped, and U+2028 and U+2029, which are line ends to JavaScript. Each
// invalid byte becomes \ufffd. '<', '>' and '&' stay as they are.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if n := plainPrefix(s); n < len(s) {
		dst = appendEscaped(append(dst, s[:n]...), s[n:])
	} else {
		dst = append(dst, s...)
	}
	return append(dst, '"')
}

// plainPrefix returns the length of a prefix of s that is printable ASCII
// without quotes and backslashes, and so is its own JSON. It looks at eight
// bytes at a time.
func plainPrefix(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if m := special(w); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if !plain[s[i]] {
			break
		}
	}
	return i
}

// special sets the high bit of each byte of w that is a control character, a
// quote, a backslash or not ASCII. Only the lowest bit set is exact: a borrow
// may set the ones above.
func special(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & high
}

// plain tells which bytes stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendEscaped appends the JSON of s without quotes.
func appendEscaped(dst []byte, s string) []byte {
	start := 0 // s[start:i] is waiting to be copied
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

// appendControl appends the escape of a quote, a backslash or a control
// character.
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
