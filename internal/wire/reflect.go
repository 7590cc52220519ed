package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"unicode/utf8"
)

var (
	anyMapType    = reflect.TypeFor[map[string]interface{}]()
	stringMapType = reflect.TypeFor[map[string]string]()
	anySliceType  = reflect.TypeFor[[]interface{}]()
	stringsType   = reflect.TypeFor[[]string]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func hasMarshaler(t reflect.Type) bool {
	return t.Implements(marshalerType) || t.Implements(textType)
}

// A reflected holds what one use of encoding/json needs.
type reflected struct {
	buffer  bytes.Buffer
	encoder *json.Encoder
}

var reflecteds = sync.Pool{New: func() interface{} {
	r := new(reflected)
	r.encoder = json.NewEncoder(&r.buffer)
	r.encoder.SetEscapeHTML(false)
	return r
}}

// appendReflected appends v as encoding/json writes it. A panic in a method
// of v is an error.
func appendReflected(dst []byte, v interface{}, depth int) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = dst, fmt.Errorf("marshalling a %T panicked: %v", v, p)
		}
	}()
	if err := checkNesting(reflect.ValueOf(v)); err != nil {
		return dst, err
	}
	r := reflecteds.Get().(*reflected)
	r.buffer.Reset()
	if err := r.encoder.Encode(v); err != nil {
		_ = err.Error() // calls a method of v's own error, that may panic as well
		return dst, err
	}
	out, err = appendRaw(dst, r.buffer.Bytes(), depth)
	if r.buffer.Cap() <= 64<<10 {
		reflecteds.Put(r)
	}
	return out, err
}

// appendRawMessage appends m without its white space; nil is null.
func appendRawMessage(dst []byte, m json.RawMessage, depth int) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	if !json.Valid(m) {
		var v json.RawMessage
		return dst, fmt.Errorf("json.RawMessage: %w", json.Unmarshal(m, &v))
	}
	return appendRaw(dst, m, depth)
}

// appendRaw appends raw, which is valid JSON but for invalid UTF-8 in its
// strings, without white space and with U+FFFD for each invalid byte.
func appendRaw(dst, raw []byte, depth int) ([]byte, error) {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			n := quotedLength(raw[i:])
			dst = appendValidUTF8(dst, raw[i:i+n])
			i += n - 1
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return dst, errTooDeep
			}
		case '}', ']':
			depth--
		}
		dst = append(dst, raw[i])
	}
	return dst, nil
}

// quotedLength returns the length of the string literal that raw starts with.
func quotedLength(raw []byte) int {
	for i := 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func appendValidUTF8(dst, s []byte) []byte {
	for !utf8.Valid(s) {
		n := 0
		for r, size := utf8.DecodeRune(s); r != utf8.RuneError || size != 1; r, size = utf8.DecodeRune(s[n:]) {
			n += size
		}
		dst = append(append(dst, s[:n]...), `\ufffd`...)
		s = s[n+1:]
	}
	return append(dst, s...)
}

// checkNesting returns an error for a value that is nested too deep or is too
// large, such as a long linked list. encoding/json would follow it until the stack
// overflows, which ends the program, or memory runs out. Only types that can nest
// without bound are walked.
func checkNesting(v reflect.Value) error {
	if !canNest(v.Type()) {
		return nil
	}
	budget := MaxText / 8
	return nesting(v, 0, &budget)
}

// nesting walks v, which is inside hops other values. A level of JSON takes
// several hops, through pointers and interfaces.
func nesting(v reflect.Value, hops int, budget *int) (err error) {
	const maxHops = 4 * maxDepth
	if *budget--; *budget < 0 {
		return ErrTooLarge
	}
	if hops > maxHops {
		return errTooDeep
	}
	if v.IsValid() && isMarshaled(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			err = nesting(v.Elem(), hops+1, budget)
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && err == nil; i++ {
			err = nesting(v.Index(i), hops+1, budget)
		}
	case reflect.Map:
		for it := v.MapRange(); err == nil && it.Next(); {
			err = nesting(it.Value(), hops+1, budget)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && err == nil; i++ {
			if isWritten(v.Type().Field(i)) {
				err = nesting(v.Field(i), hops+1, budget)
			}
		}
	}
	return err
}

// isWritten reports whether encoding/json looks at a struct's field.
func isWritten(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

// isMarshaled reports whether values of type t have a method that writes them.
func isMarshaled(t reflect.Type) bool {
	return hasMarshaler(t) || t.Kind() != reflect.Interface && hasMarshaler(reflect.PointerTo(t))
}

// nestable caches canNest by reflect.Type.
var nestable sync.Map

// canNest reports whether values of type t can nest without bound, because t
// contains itself or an interface.
func canNest(t reflect.Type) bool {
	if known, ok := nestable.Load(t); ok {
		return known.(bool)
	}
	can := findNesting(t, map[reflect.Type]bool{})
	nestable.Store(t, can)
	return can
}

// findNesting walks the types inside t; around has those that contain t.
func findNesting(t reflect.Type, around map[reflect.Type]bool) bool {
	if isMarshaled(t) {
		return false
	}
	if around[t] || t.Kind() == reflect.Interface {
		return true
	}
	around[t] = true
	defer delete(around, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findNesting(t.Elem(), around)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); isWritten(f) && findNesting(f.Type, around) {
				return true
			}
		}
	}
	return false
}
