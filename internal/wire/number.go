package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

func appendInt(dst []byte, v interface{}) []byte {
	var n int64
	switch v := v.(type) {
	case int8:
		n = int64(v)
	case int16:
		n = int64(v)
	case int32:
		n = int64(v)
	case time.Duration:
		n = int64(v)
	}
	return strconv.AppendInt(dst, n, 10)
}

func appendUint(dst []byte, v interface{}) []byte {
	var n uint64
	switch v := v.(type) {
	case uint:
		n = uint64(v)
	case uint8:
		n = uint64(v)
	case uint16:
		n = uint64(v)
	case uint32:
		n = uint64(v)
	case uint64:
		n = v
	case uintptr:
		n = uint64(v)
	}
	return strconv.AppendUint(dst, n, 10)
}

// appendFloat appends f in the shortest form that reads back as f, with an
// exponent below 1e-6 and from 1e21 on. bits is the size of f's type.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, errors.New(strconv.FormatFloat(f, 'g', -1, 64) + " is not a JSON number")
	}
	if bits == 64 {
		if out, ok := appendDecimal(dst, f); ok {
			return out, nil
		}
	}
	abs := math.Abs(f)
	format := byte('f')
	if abs != 0 {
		if bits == 64 && (abs < 1e-6 || abs >= 1e21) ||
			bits == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is written e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

// appendDecimal appends f if it is a number of at most four decimals, as
// prices and counts are, several times faster than the general algorithm.
//
// No two decimals of up to 15 digits read as the same float64, so the one of
// at most four decimals that reads as f is f's shortest form.
func appendDecimal(dst []byte, f float64) ([]byte, bool) {
	const scale, limit = 1e4, 1e11
	abs := math.Abs(f)
	if abs >= limit || f == 0 && math.Signbit(f) {
		return dst, false
	}
	n := uint64(abs*scale + 0.5)
	if float64(n)/scale != abs {
		return dst, false
	}
	if f < 0 {
		dst = append(dst, '-')
	}
	dst = strconv.AppendUint(dst, n/scale, 10)
	if n %= scale; n != 0 {
		dst = append(dst, '.', byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return dst, true
}

// appendNumber appends the digits as they are; an empty one is 0.
func appendNumber(dst []byte, n json.Number) ([]byte, error) {
	if n == "" {
		return append(dst, '0'), nil
	}
	if !isNumber(string(n)) {
		return dst, fmt.Errorf("json.Number %.40q is not a JSON number", string(n))
	}
	return append(dst, n...), nil
}

// isNumber reports whether s is a number by the grammar of RFC 8259, section 6.
func isNumber(s string) bool {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	whole := digits(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	if s = s[whole:]; s != "" && s[0] == '.' {
		n := digits(s[1:])
		if n == 0 {
			return false
		}
		s = s[1+n:]
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		n := digits(s)
		return n > 0 && n == len(s)
	}
	return s == ""
}

// digits returns how many decimal digits s starts with.
func digits(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
