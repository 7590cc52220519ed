package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// AppendInt appends n.
func AppendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return strconv.AppendInt(dst, n, 10)
	}
	return AppendUint(dst, uint64(n))
}

// AppendUint appends n. For small numbers it is three times as fast as strconv.
func AppendUint(dst []byte, n uint64) []byte {
	if n >= 10_000 {
		return strconv.AppendUint(dst, n, 10)
	}
	d := uint32(n)
	d1, d2, d3, d4 := byte('0'+d/1000), byte('0'+d/100%10), byte('0'+d/10%10), byte('0'+d%10)
	switch {
	case d < 10:
		return append(dst, d4)
	case d < 100:
		return append(dst, d3, d4)
	case d < 1000:
		return append(dst, d2, d3, d4)
	}
	return append(dst, d1, d2, d3, d4)
}

// AppendFloat appends the shortest decimal that parses as f. For NaN and infinities it returns a
// [json.UnsupportedValueError].
func AppendFloat(dst []byte, f float64) ([]byte, error) { return appendFloat(dst, f, 64) }

// appendFloat is AppendFloat for floats of 32 or 64 bits. Numbers below 1e-6 or from 1e21 on have an
// exponent.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, unsupported(f, bits)
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
		dst[n-2] = dst[n-1] // replace e-09 by e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

// unsupported returns the error of encoding/json for a NaN or an infinity.
func unsupported(f float64, bits int) error {
	return &json.UnsupportedValueError{Value: reflect.ValueOf(f), Str: strconv.FormatFloat(f, 'g', -1, bits)}
}

// appendDecimal appends f if it has at most four decimals, like most prices. Otherwise it reports
// false. It is several times as fast as the general algorithm.
//
// Different decimals of up to 15 digits parse as different float64 values. So if such a decimal
// parses as f, it is the shortest one.
func appendDecimal(dst []byte, f float64) ([]byte, bool) {
	const scale, limit = 1e4, 1e11
	abs := math.Abs(f)
	if abs >= limit || f == 0 && math.Signbit(f) {
		return dst, false
	}
	n := int64(abs*scale + 0.5) // converting to a signed integer is faster
	if float64(n)/scale != abs {
		return dst, false
	}
	if f < 0 {
		dst = append(dst, '-')
	}
	dst = AppendUint(dst, uint64(n/scale))
	if n %= scale; n != 0 {
		dst = append(dst, '.', byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return dst, true
}

// appendNumber appends n unchanged. An empty n becomes 0.
func appendNumber(dst []byte, n json.Number) ([]byte, error) {
	if n == "" {
		return append(dst, '0'), nil
	}
	if !isNumber(n) {
		return dst, fmt.Errorf("json.Number %.40q is not a JSON number", string(n))
	}
	return append(dst, n...), nil
}

// isNumber reports whether n is a valid JSON number.
func isNumber(n json.Number) bool {
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	return (n[0] == '-' || isDigit(n[0])) && isDigit(n[len(n)-1]) && json.Valid([]byte(n))
}
