package wire

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Appender is a value that encodes itself in the format of encoding/json. Only packages of this
// module can implement it, because other programs cannot refer to Buffer.
type Appender interface {
	AppendTo(dst Buffer) (Buffer, error)
}

// Buffer is the buffer of an Appender.
type Buffer []byte

// AppendMap appends m as a JSON object with sorted keys. A nil map becomes null. The error is a
// *ValueError that contains the path of the invalid value. This path starts with path. After an
// error, AppendMap returns dst unchanged.
func AppendMap(dst []byte, m map[string]interface{}, path string) ([]byte, error) {
	return AppendMapAt(dst, m, path, HashPath(path))
}

// AppendMapAt is like AppendMap, except that the caller provides the hash of path in at.
func AppendMapAt(dst []byte, m map[string]interface{}, path string, at PathHash) ([]byte, error) {
	out, err := appendObject(dst, m, at, 1)
	if err != nil {
		return dst, Below(path, err)
	}
	return out, nil
}

// AppendValue appends v. depth is the number of objects and arrays that contain v, and at is the
// hash of its path, or 0. After an error, the returned bytes are invalid.
func AppendValue(dst []byte, v interface{}, at PathHash, depth int) ([]byte, error) {
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
		return appendArray(dst, v, at, depth+1, AppendValue)
	case int:
		return AppendInt(dst, int64(v)), nil
	case int64:
		return AppendInt(dst, v), nil
	case int32:
		return AppendInt(dst, int64(v)), nil
	case time.Duration:
		return AppendInt(dst, int64(v)), nil
	case uint:
		return AppendUint(dst, uint64(v)), nil
	case uint32:
		return AppendUint(dst, uint64(v)), nil
	case uint64:
		return AppendUint(dst, v), nil
	}
	return appendTyped(dst, v, at, depth)
}

// appendTyped appends maps and slices whose elements have a common basic type.
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
	return AppendInt(dst, int64(n)), nil
}

func appendFloatValue(dst []byte, f float64, _ PathHash, _ int) ([]byte, error) {
	return appendFloat(dst, f, 64)
}

func appendBoolValue(dst []byte, b bool, _ PathHash, _ int) ([]byte, error) {
	return strconv.AppendBool(dst, b), nil
}

// appendArray appends a as a JSON array. A nil slice becomes null.
func appendArray[E any](dst []byte, a []E, at PathHash, depth int,
	value func([]byte, E, PathHash, int) ([]byte, error)) ([]byte, error) {
	if a == nil {
		return append(dst, "null"...), nil
	}
	if depth > MaxDepth {
		return dst, ErrTooDeep
	}
	dst = append(dst, '[')
	for i, e := range a {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		// Elements of an array usually have the same keys, so they use the same hash.
		if dst, err = value(dst, e, at.child(0), depth); err != nil {
			return dst, Below("["+strconv.Itoa(i)+"]", err)
		}
		if len(dst) > MaxText {
			return dst, ErrTooLarge
		}
	}
	return append(dst, ']'), nil
}

// appendObject appends m as a JSON object with sorted keys. A nil map becomes null.
func appendObject(dst []byte, m map[string]interface{}, at PathHash, depth int) ([]byte, error) {
	if len(m) == 0 || len(m) > maxKeys || depth > MaxDepth {
		return appendSorted(dst, m, at, depth, AppendValue)
	}
	var few [8]interface{}
	values := few[:]
	if len(m) > len(few) {
		values = make([]interface{}, maxKeys)
	}
	bucket := keySets.ofMaps.bucket(at, len(m))
	for i := range bucket {
		s := bucket[i].Load()
		if s == nil {
			break
		}
		if len(s.fields) == len(m) && lookUp(m, s.fields, values) {
			return appendFields(dst, s.fields, values, at, depth)
		}
	}
	return appendSorted(dst, m, at, depth, AppendValue)
}

func appendFields(dst []byte, fields []field, values []interface{}, at PathHash, depth int) ([]byte, error) {
	var err error
	for i := range fields {
		f := &fields[i]
		dst = f.append(dst)
		if dst, err = AppendValue(dst, values[i], at.child(i), depth); err != nil {
			return dst, Below(Segment(f.key), err)
		}
		if len(dst) > MaxText {
			return dst, ErrTooLarge
		}
	}
	return append(dst, '}'), nil
}

// sortBuffers reuses buffers for sorting keys. It contains values of type *[]string.
var sortBuffers = sync.Pool{New: func() interface{} { return new([]string) }}

// appendSorted appends a map with any type of values like appendObject, but does not use cached
// key sets. Unless at is noPath, it may add the keys to the cache.
func appendSorted[V any](dst []byte, m map[string]V, at PathHash, depth int,
	value func([]byte, V, PathHash, int) ([]byte, error)) ([]byte, error) {
	switch {
	case m == nil:
		return append(dst, "null"...), nil
	case depth > MaxDepth:
		return dst, ErrTooDeep
	case len(m) == 0:
		return append(dst, "{}"...), nil
	}
	buffer := sortBuffers.Get().(*[]string)
	keys := (*buffer)[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if at != noPath && rand.Uint32N(cacheOdds) == 0 {
		keySets.ofMaps.add(keys, at)
	}
	lead := byte('{')
	var err error
	for i, k := range keys {
		dst = append(AppendString(append(dst, lead), k), ':')
		if dst, err = value(dst, m[k], at.child(i), depth); err != nil {
			err = Below(Segment(k), err)
			break
		}
		if len(dst) > MaxText {
			err = ErrTooLarge
			break
		}
		lead = ','
	}
	clear(keys) // the pool must not keep the caller's strings in memory
	if cap(keys) <= 1<<10 {
		*buffer = keys
		sortBuffers.Put(buffer)
	}
	return append(dst, '}'), err
}

// appendOther appends a value of any other type. It encodes a named string, number, map or slice
// like its underlying type.
func appendOther(dst []byte, v interface{}, at PathHash, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, ErrTooDeep
	}
	if a, ok := v.(Appender); ok {
		return a.AppendTo(dst)
	}
	rv := reflect.ValueOf(v)
	if hasMarshaler(rv.Type()) {
		return appendReflected(dst, v, depth)
	}
	switch rv.Kind() {
	case reflect.String:
		return AppendString(dst, rv.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, rv.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return AppendInt(dst, rv.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return AppendUint(dst, rv.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, rv.Float(), rv.Type().Bits())
	case reflect.Map:
		if rv.CanConvert(anyMapType) {
			return AppendValue(dst, rv.Convert(anyMapType).Interface(), at, depth)
		}
		if rv.CanConvert(stringMapType) {
			return appendTyped(dst, rv.Convert(stringMapType).Interface(), at, depth)
		}
	case reflect.Slice:
		if rv.CanConvert(anySliceType) {
			return AppendValue(dst, rv.Convert(anySliceType).Interface(), at, depth)
		}
		if rv.CanConvert(stringsType) {
			return appendTyped(dst, rv.Convert(stringsType).Interface(), at, depth)
		}
	case reflect.Pointer:
		// encoding/json calls a MarshalJSON method with a pointer receiver only if it can take the
		// address of the value. So for a pointer to a struct or an array, pass the pointer and not
		// the value.
		if rv.IsNil() {
			return append(dst, "null"...), nil
		}
		if k := rv.Elem().Kind(); k != reflect.Struct && k != reflect.Array {
			return AppendValue(dst, rv.Elem().Interface(), at.child(0), depth+1)
		}
	}
	return appendReflected(dst, v, depth)
}
