// Package jsonscan scans JSON without building values. The collector uses it to read a few
// fields of each call and to keep the other fields as raw bytes.
package jsonscan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth limits the nesting of objects and arrays.
const MaxDepth = 1000

// A SyntaxError describes invalid JSON.
type SyntaxError struct {
	Offset  int // bytes from the start
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Problem)
}

// A Scanner reads one JSON text from start to end. It validates each byte against RFC 8259, but
// accepts invalid UTF-8 in strings.
type Scanner struct {
	data  []byte
	pos   int
	depth int

	keyStart, keyEnd int // the position of the last key
}

// New returns a Scanner at the start of data. data must not change while the Scanner is used.
func New(data []byte) *Scanner { return &Scanner{data: data} }

// Offset returns the current position in bytes.
func (s *Scanner) Offset() int { return s.pos }

// KeyOffset returns the position of the last key.
func (s *Scanner) KeyOffset() int { return s.keyStart }

// Kind skips white space and returns the kind of the next value: one of { [ " t f n, or 0 for
// a number. At the end of the text it returns 'e'. If no value follows, it returns the next byte,
// or '?' if that byte is e.
func (s *Scanner) Kind() byte {
	s.space()
	if s.pos >= len(s.data) {
		return 'e'
	}
	c := s.data[s.pos]
	switch {
	case c == '-' || (c >= '0' && c <= '9'):
		return '0'
	case c == 'e':
		return '?'
	}
	return c
}

// End returns an error unless only white space follows.
func (s *Scanner) End() error {
	if s.Kind() != 'e' {
		return s.fail("text after the value")
	}
	return nil
}

// Value skips a value and returns its bytes, which are a slice of the text.
func (s *Scanner) Value() ([]byte, error) {
	s.space()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.data[start:s.pos:s.pos], nil
}

// Object skips an object. It calls member with the quoted key of each field, at the start of the
// field's value. member must skip the value. If member is nil, Object skips all values.
func (s *Scanner) Object(member func(key []byte) error) error {
	return s.each('{', '}', "an object", func() error {
		if err := s.skipKey(); err != nil {
			return err
		}
		s.space()
		if member == nil {
			return s.skip()
		}
		return member(s.data[s.keyStart:s.keyEnd:s.keyEnd])
	})
}

// A Member is a field of an object. Key is the quoted key, and Text contains both key and value.
type Member struct{ Key, Value, Text []byte }

// Members iterates over the fields of an object. It stops at the first syntax error.
func Members(object []byte) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		s := New(object)
		_ = s.Object(func(key []byte) error {
			start := s.keyStart
			value, err := s.Value()
			if err == nil && !yield(Member{Key: key, Value: value, Text: object[start:s.pos]}) {
				err = errEnough
			}
			return err
		})
	}
}

// AppendWithout appends an object. It omits each field for which drop returns true.
func AppendWithout(dst, object []byte, drop func(Member) bool) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for m := range Members(object) {
		if drop(m) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, m.Text...)
	}
	return append(dst, '}')
}

// Elements iterates over the elements of an array. It stops at the first syntax error.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := New(array)
		_ = s.Array(func() error {
			value, err := s.Value()
			if err == nil && !yield(value) {
				err = errEnough
			}
			return err
		})
	}
}

// errEnough stops a scan that needs no more input.
var errEnough = errors.New("enough")

// Array skips an array. It calls element at the start of each element. element must skip the
// element. If element is nil, Array skips all elements.
func (s *Scanner) Array(element func() error) error {
	if element == nil {
		element = s.skip
	}
	return s.each('[', ']', "an array", element)
}

// each skips an object or an array, and calls item at the start of each field or element. If the value is
// of another kind, the error contains the parameter what as the expected kind.
func (s *Scanner) each(start, end byte, what string, item func() error) error {
	if s.Kind() != start {
		return s.fail("expected " + what)
	}
	if s.depth++; s.depth > MaxDepth {
		return s.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	s.pos++
	for next := s.Kind(); next != end; {
		if err := item(); err != nil {
			return err
		}
		if next = s.Kind(); next == ',' {
			s.pos++
			s.space()
		} else if next != end {
			return s.fail(fmt.Sprintf("expected a comma or %q", end))
		}
	}
	s.pos++
	s.depth--
	return nil
}

// skip skips one value.
func (s *Scanner) skip() error {
	switch c := s.Kind(); c {
	case '{':
		return s.Object(nil)
	case '[':
		return s.Array(nil)
	default:
		return s.skipScalar(c)
	}
}

// skipKey skips a key and its colon.
func (s *Scanner) skipKey() error {
	if s.Kind() != '"' {
		return s.fail("expected a key in double quotes")
	}
	s.keyStart = s.pos
	if err := s.skipString(); err != nil {
		return err
	}
	s.keyEnd = s.pos
	if s.Kind() != ':' {
		return s.fail("expected a colon after the key")
	}
	s.pos++
	return nil
}

// skipScalar skips a string, number or literal. c is its first byte, as returned by Kind.
func (s *Scanner) skipScalar(c byte) error {
	switch c {
	case '"':
		return s.skipString()
	case '0':
		return s.skipNumber()
	case 't':
		return s.skipWord("true")
	case 'f':
		return s.skipWord("false")
	case 'n':
		return s.skipWord("null")
	case 'e':
		return s.fail("unexpected end of text")
	default:
		return s.fail("expected a value")
	}
}

func (s *Scanner) skipWord(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail("expected " + word)
	}
	s.pos += len(word)
	return nil
}

func (s *Scanner) skipString() error {
	for i := s.pos + 1; ; {
		i = plainEnd(s.data, i)
		if i == len(s.data) {
			break
		}
		switch s.data[i] {
		case '"':
			s.pos = i + 1
			return nil
		case '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.pos = i
				return s.fail("invalid escape sequence")
			}
			i += n
		default:
			s.pos = i
			return s.fail("unescaped control character in a string")
		}
	}
	s.pos = len(s.data)
	return s.fail("unterminated string")
}

// plainEnd returns the index of the first quote, backslash or control character at or after
// i. It checks eight bytes at a time. For a word x and a mask low with the lowest bit of each
// byte, (x-low) &^ x sets the high bit of each zero byte. It may also set bits above the first
// zero byte, but the lowest bit that it sets is correct.
func plainEnd(data []byte, i int) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		quote, backslash := x^low*'"', x^low*'\\'
		found := ((quote-low)&^quote | (backslash-low)&^backslash | (x-low*' ')&^x) & high
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(data) && data[i] != '"' && data[i] != '\\' && data[i] >= ' ' {
		i++
	}
	return i
}

// escapeLen returns the length of the escape at the start of b, or 0 if it is invalid.
func escapeLen(b []byte) int {
	switch {
	case len(b) < 2 || b[0] != '\\':
		return 0
	case unescape[b[1]] != 0:
		return 2
	case len(b) >= 6 && b[1] == 'u' && hex4(b[2:]) >= 0:
		return 6
	}
	return 0
}

func (s *Scanner) skipNumber() error {
	n, problem := Number(s.data[s.pos:])
	if n == 0 {
		return s.fail(problem)
	}
	s.pos += n
	return nil
}

// Number returns the length of the number at the start of b. If the number is invalid, it returns
// 0 and the problem.
func Number(b []byte) (n int, problem string) {
	if b[0] == '-' {
		n++
	}
	switch whole := digits(b[n:]); {
	case whole == 0:
		return 0, "missing digits after the minus sign"
	case b[n] == '0':
		n++
	default:
		n += whole
	}
	if n < len(b) && b[n] == '.' {
		fraction := digits(b[n+1:])
		if fraction == 0 {
			return 0, "missing digits after the decimal point"
		}
		n += 1 + fraction
	}
	if n < len(b) && (b[n] == 'e' || b[n] == 'E') {
		n++
		if n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
		exponent := digits(b[n:])
		if exponent == 0 {
			return 0, "missing digits in the exponent"
		}
		n += exponent
	}
	return n, ""
}

// digits returns the number of digits at the start of b.
func digits(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *Scanner) fail(problem string) error {
	return &SyntaxError{Offset: s.pos, Problem: problem}
}

// Unquote returns the content of a valid quoted string. If the string has no escapes, the result
// is a slice of raw. A lone surrogate becomes U+FFFD.
func Unquote(raw []byte) []byte {
	in := raw[1 : len(raw)-1]
	i := 0
	for i < len(in) && in[i] != '\\' {
		i++
	}
	if i == len(in) {
		return in
	}
	out := append(make([]byte, 0, len(in)), in[:i]...)
	for i < len(in) {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		r, n := Escape(in[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}

// Escape decodes the escape sequence at the start of b. It returns the character and the length of
// the sequence, or length 0 if the sequence is invalid. It decodes a surrogate pair as one
// character and returns a lone surrogate unchanged.
func Escape(b []byte) (r rune, n int) {
	switch n = escapeLen(b); n {
	case 2:
		r = rune(unescape[b[1]])
	case 6:
		r = hex4(b[2:])
	}
	if utf16.IsSurrogate(r) && escapeLen(b[6:]) == 6 {
		if pair := utf16.DecodeRune(r, hex4(b[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, n
}

var unescape = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// hex4 parses four hexadecimal digits. It returns -1 if they are invalid.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
