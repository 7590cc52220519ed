package canonical

import (
	"bytes"
	"math"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

func (c *canonizer) number() error {
	n, _ := jsonscan.Number(c.src[c.pos:])
	if n == 0 {
		return c.fail("expected a value")
	}
	text := c.src[c.pos : c.pos+n]
	if isPlain(text) {
		c.pos += n
		return nil
	}
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

// isPlain is a fast check that a number is canonical. It returns true only for numbers without an
// exponent and with at most 15 digits, which a double can represent. It may return false for other
// canonical numbers.
func isPlain(text []byte) bool {
	first, point := text[0], len(text)
	for i, b := range text {
		switch b {
		case '.':
			point = i
		case 'e', 'E':
			return false
		}
	}
	switch {
	case len(text) > 15:
		return false
	case point == len(text):
		return first != '-' || text[1] != '0' // -0 becomes 0
	}
	// ECMAScript writes numbers below 1e-6 with an exponent.
	return text[len(text)-1] != '0' && (first >= '1' || len(text)-point <= 7)
}

// appendNumber appends the double that is nearest to a number, in ECMAScript's format.
func appendNumber(dst, text []byte) []byte {
	f, _ := strconv.ParseFloat(string(text), 64) // the only possible error is the range, and f is then infinite
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
	// Go writes at least two digits of an exponent; ECMAScript removes the leading zero.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
