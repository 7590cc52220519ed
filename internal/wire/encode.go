package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	// maxDepth is less than the 1,000 levels that collectors read: a value is
	// inside a call inside a batch.
	maxDepth = 990
	// MaxText bounds the JSON of one value. It is far more than a call may have,
	// and stops a value that would fill the memory.
	MaxText = 16 << 20
)

var (
	errTooDeep  = fmt.Errorf("nested deeper than %d levels, perhaps a cycle", maxDepth)
	ErrTooLarge = fmt.Errorf("more than %d MB of JSON", MaxText>>20)
)

// AppendMap appends m as a JSON object with sorted keys; a nil map is null.
// An error is a *ValueError with the path of the value that caused it, which
// starts with path. With an error, AppendMap returns dst unchanged.
func AppendMap(dst []byte, m map[string]interface{}, path string) ([]byte, error) {
	return AppendMapAt(dst, m, path, HashPath(path))
}

// AppendMapAt is AppendMap for a caller that has the hash of path.
func AppendMapAt(dst []byte, m map[string]interface{}, path string, at PathHash) ([]byte, error) {
	out, err := appendObject(dst, m, at, 1)
	if err != nil {
		return dst, below(path, err)
	}
	return out, nil
}

// appendValue appends v, whose path hashes to at, inside depth containers.
func appendValue(dst []byte, v interface{}, at PathHash, depth int) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return AppendString(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case nil:
		return append(dst, "null"...), nil
	case float64:
		return appendFloat(dst, v, 64)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case json.Number:
		return appendNumber(dst, v)
	case time.Time:
		return appendJSONTime(dst, v)
	case map[string]interface{}:
		return appendObject(dst, v, at, depth+1)
	case []interface{}:
		return appendArray(dst, v, at, depth+1, appendValue)
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case int8, int16, int32, time.Duration:
		return appendInt(dst, v), nil
	case uint, uint8, uint16, uint32, uint64, uintptr:
		return appendUint(dst, v), nil
	case *string, *bool, *int, *int64, *float64, *time.Time:
		return appendPointer(dst, v)
	}
	return appendTyped(dst, v, at, depth)
}

// appendTyped appends the maps and slices of one type of element.
func appendTyped(dst []byte, v interface{}, at PathHash, depth int) ([]byte, error) {
	switch v := v.(type) {
	case []string:
		return appendArray(dst, v, at, depth+1, appendStringValue)
	case map[string]string:
		return appendSorted(dst, v, noPath, depth+1, appendStringValue)
	case []map[string]interface{}:
		return appendArray(dst, v, at, depth+1, appendMapValue)
	case []int:
		return appendArray(dst, v, at, depth+1, appendIntValue)
	case []int64:
		return appendArray(dst, v, at, depth+1, appendIntValue)
	case []float64:
		return appendArray(dst, v, at, depth+1, appendFloatValue)
	case []bool:
		return appendArray(dst, v, at, depth+1, appendBoolValue)
	case map[string]int:
		return appendSorted(dst, v, noPath, depth+1, appendIntValue)
	case map[string]int64:
		return appendSorted(dst, v, noPath, depth+1, appendIntValue)
	case map[string]float64:
		return appendSorted(dst, v, noPath, depth+1, appendFloatValue)
	case map[string]bool:
		return appendSorted(dst, v, noPath, depth+1, appendBoolValue)
	case []byte:
		return appendBase64(dst, v), nil
	case json.RawMessage:
		return appendRawMessage(dst, v, depth)
	}
	return appendOther(dst, v, at, depth)
}

func appendStringValue(dst []byte, s string, _ PathHash, _ int) ([]byte, error) {
	return AppendString(dst, s), nil
}

func appendMapValue(dst []byte, m map[string]interface{}, at PathHash, depth int) ([]byte, error) {
	return appendObject(dst, m, at, depth+1)
}

func appendIntValue[T int | int64](dst []byte, n T, _ PathHash, _ int) ([]byte, error) {
	return strconv.AppendInt(dst, int64(n), 10), nil
}

func appendFloatValue(dst []byte, f float64, _ PathHash, _ int) ([]byte, error) {
	return appendFloat(dst, f, 64)
}

func appendBoolValue(dst []byte, b bool, _ PathHash, _ int) ([]byte, error) {
	return strconv.AppendBool(dst, b), nil
}

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

func appendPointer(dst []byte, v interface{}) ([]byte, error) {
	switch v := v.(type) {
	case *string:
		if v != nil {
			return AppendString(dst, *v), nil
		}
	case *bool:
		if v != nil {
			return strconv.AppendBool(dst, *v), nil
		}
	case *int:
		if v != nil {
			return strconv.AppendInt(dst, int64(*v), 10), nil
		}
	case *int64:
		if v != nil {
			return strconv.AppendInt(dst, *v, 10), nil
		}
	case *float64:
		if v != nil {
			return appendFloat(dst, *v, 64)
		}
	case *time.Time:
		if v != nil {
			return appendJSONTime(dst, *v)
		}
	}
	return append(dst, "null"...), nil
}

// appendArray appends a as a JSON array; a nil slice is null.
func appendArray[E any](dst []byte, a []E, at PathHash, depth int,
	value func([]byte, E, PathHash, int) ([]byte, error)) ([]byte, error) {
	if a == nil {
		return append(dst, "null"...), nil
	}
	if depth > maxDepth {
		return dst, errTooDeep
	}
	dst = append(dst, '[')
	for i, e := range a {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		// Elements tend to have the same keys, so they share one hash.
		if dst, err = value(dst, e, at.child(0), depth); err != nil {
			return dst, below("["+strconv.Itoa(i)+"]", err)
		}
		if len(dst) > MaxText {
			return dst, ErrTooLarge
		}
	}
	return append(dst, ']'), nil
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

// appendJSONTime appends t as its MarshalJSON would: RFC 3339, up to
// nanoseconds, in its own zone.
func appendJSONTime(dst []byte, t time.Time) ([]byte, error) {
	out, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return dst, err
	}
	return append(out, '"'), nil
}

func appendBase64(dst []byte, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

// AppendTime appends t in the form the service reads, ISO 8601 in UTC with
// milliseconds, such as 2006-01-02T15:04:05.000Z. It does not quote it.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	hour, minute, second := t.Clock()
	milli := t.Nanosecond() / 1e6
	dst = append(appendPair(appendPair(dst, year/100), year%100), '-')
	dst = append(appendPair(dst, int(month)), '-')
	dst = append(appendPair(dst, day), 'T')
	dst = append(appendPair(dst, hour), ':')
	dst = append(appendPair(dst, minute), ':')
	dst = append(appendPair(dst, second), '.', byte('0'+milli/100))
	return append(appendPair(dst, milli%100), 'Z')
}

// appendPair appends n, from 0 to 99, as two digits.
func appendPair(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10))
}
