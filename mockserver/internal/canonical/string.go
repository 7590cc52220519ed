package canonical

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// plain contains the bytes that are copied unchanged in strings: ASCII without control
// characters, quotes and backslashes.
var plain = func() (t [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

func (c *canonizer) str() error {
	c.pos++
	for {
		src, n := c.src, c.pos
		for n < len(src) && plain[src[n]] {
			n++
		}
		c.pos = n
		if n == len(src) {
			return c.fail("")
		}
		switch b := src[n]; {
		case b == '"':
			c.pos++
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.fail("unescaped control character in a string")
		default:
			c.multibyte()
		}
	}
}

// multibyte reads one non-ASCII character.
func (c *canonizer) multibyte() {
	r, n := utf8.DecodeRune(c.src[c.pos:])
	if r != utf8.RuneError || n > 1 {
		c.pos += n
		return
	}
	n = invalidLen(c.src[c.pos:])
	c.notes.invalidUTF8(c.src[c.pos : c.pos+n])
	c.drop(n)
	c.dst = append(c.dst, "\uFFFD"...)
}

// invalidLen returns the length of the invalid UTF-8 sequence at the start of s. Like JavaScript, it
// returns the length of the longest prefix of a valid sequence, or one byte. Package utf8 always
// uses one byte.
func invalidLen(s []byte) int {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch b := s[0]; {
	case b >= 0xC2 && b <= 0xDF:
		need = 1
	case b >= 0xE0 && b <= 0xEF:
		need = 2
	case b >= 0xF0 && b <= 0xF4:
		need = 3
	}
	switch s[0] {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n <= need && n < len(s) && s[n] >= low && s[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}

// escape reads one escape sequence, or a surrogate pair.
func (c *canonizer) escape() error {
	r, n := jsonscan.Escape(c.src[c.pos:])
	if n == 0 {
		return c.fail("invalid escape sequence")
	}
	text := c.src[c.pos : c.pos+n]
	if utf16.IsSurrogate(r) {
		c.notes.note(ChangeLoneSurrogate, text, nil)
	}
	var buf [6]byte
	written := appendEscaped(buf[:0], r)
	if bytes.Equal(written, text) {
		c.pos += n
		return nil
	}
	c.drop(n)
	c.dst = append(c.dst, written...)
	return nil
}

// appendEscaped appends one character or lone surrogate.
func appendEscaped(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r < ' ' && shortEscapes[r] != 0:
		return append(dst, '\\', shortEscapes[r])
	case r < ' ' || utf16.IsSurrogate(r):
		return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// shortEscapes contains the letters of the short escapes for control characters.
var shortEscapes = [' ']byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}
