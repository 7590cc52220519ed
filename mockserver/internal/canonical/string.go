package canonical

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// plain tells the bytes that a string holds as they are: ASCII without the
// controls, the quote and the backslash.
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
			return c.fail("has a control character that is not escaped")
		default:
			c.multibyte()
		}
	}
}

// multibyte reads one character that is not ASCII.
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

// invalidLen is the length of the invalid sequence that s starts with, for one
// U+FFFD: the longest start of some valid sequence, else one byte. Decoders of
// JavaScript count so; the length that package utf8 gives is always one.
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

// escape reads one escape sequence, a surrogate pair being one.
func (c *canonizer) escape() error {
	if c.pos+1 >= len(c.src) {
		c.pos = len(c.src)
		return c.fail("")
	}
	switch c.src[c.pos+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		c.pos += 2
		return nil
	case '/':
		c.drop(1)
		c.pos++
		return nil
	case 'u':
		return c.unicodeEscape()
	}
	return c.fail("has an unknown escape sequence")
}

func (c *canonizer) unicodeEscape() error {
	r := hex4(c.src[c.pos:])
	if r < 0 {
		return c.fail(`has a \u without four hexadecimal digits`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		pair := utf8.RuneError
		if low := c.src[c.pos+6:]; len(low) >= 6 && low[0] == '\\' && low[1] == 'u' {
			pair = utf16.DecodeRune(r, hex4(low))
		}
		if pair != utf8.RuneError {
			r, n = pair, 12
		} else {
			c.notes.loneSurrogate(c.src[c.pos : c.pos+6])
		}
	}
	var buf [6]byte
	text := appendEscaped(buf[:0], r)
	if bytes.Equal(text, c.src[c.pos:c.pos+n]) {
		c.pos += n
		return nil
	}
	c.drop(n)
	c.dst = append(c.dst, text...)
	return nil
}

// hex4 reads the number of the \uXXXX that s starts with, or gives -1.
func hex4(s []byte) rune {
	if len(s) < 6 {
		return -1
	}
	var r rune
	for _, b := range s[2:6] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(b)
	}
	return r
}

// appendEscaped appends one character (or lone surrogate) of a string.
func appendEscaped(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\b':
		return append(dst, `\b`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\f':
		return append(dst, `\f`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r < ' ' || utf16.IsSurrogate(r):
		return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	return utf8.AppendRune(dst, r)
}
