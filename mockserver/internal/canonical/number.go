package canonical

import (
	"bytes"
	"math"
	"strconv"
)

func (c *canonizer) number() error {
	n, simple := scanNumber(c.src[c.pos:])
	if n == 0 {
		return c.fail("has a malformed value")
	}
	if simple {
		c.pos += n
		return nil
	}
	text := c.src[c.pos : c.pos+n]
	var buf [32]byte
	out := appendNumber(buf[:0], text)
	c.notes.number(text, out)
	if bytes.Equal(out, text) {
		c.pos += n
		return nil
	}
	c.drop(n)
	c.dst = append(c.dst, out...)
	return nil
}

// scanNumber returns the length of the JSON number that s starts with, 0 when
// there is none, and whether it is plain to see that it is canonical: at most 15
// significant digits, all of which a double keeps, and no exponent.
func scanNumber(s []byte) (n int, simple bool) {
	if n < len(s) && s[n] == '-' {
		n++
	}
	whole := digits(s[n:])
	if whole == 0 || whole > 1 && s[n] == '0' {
		return 0, false
	}
	zero := s[n] == '0'
	n += whole
	if n == len(s) || s[n] != '.' && s[n] != 'e' && s[n] != 'E' {
		return n, whole <= 15 && (!zero || s[0] != '-')
	}
	if s[n] == '.' {
		fraction := digits(s[n+1:])
		if fraction == 0 {
			return 0, false
		}
		n += 1 + fraction
		// Below 1e-6 ECMAScript writes an exponent.
		simple = whole+fraction <= 15 && s[n-1] != '0' && (!zero || fraction <= 6)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		exponent := digits(s[n:])
		if exponent == 0 {
			return 0, false
		}
		return n + exponent, false
	}
	return n, simple
}

func digits(s []byte) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// appendNumber appends a JSON number as ECMAScript writes the nearest double.
func appendNumber(dst, text []byte) []byte {
	f, _ := strconv.ParseFloat(string(text), 64) // the only error is the range: ±Inf
	abs := math.Abs(f)
	switch {
	case math.IsInf(f, 0):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0')
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of the exponent, ECMAScript does not.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
