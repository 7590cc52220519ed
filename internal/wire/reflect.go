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

// reflected is a reusable encoder that uses encoding/json.
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

// appendReflected appends v, encoded with encoding/json. It returns a panic in a method of v as an
// error.
func appendReflected(dst []byte, v interface{}, depth int) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = dst, fmt.Errorf("marshaling a %s panicked: %s", Clip(fmt.Sprintf("%T", v), MaxRepeated/2), Clip(fmt.Sprint(p), MaxRepeated/2))
		}
	}()
	r := reflecteds.Get().(*reflected)
	r.buffer.Reset()
	if err := r.encoder.Encode(v); err != nil {
		_ = err.Error() // test for a panic, because Error may be a method of v
		return dst, err
	}
	out, err = appendRaw(dst, r.buffer.Bytes(), depth)
	if r.buffer.Cap() <= 64<<10 {
		reflecteds.Put(r)
	}
	return out, err
}

// appendRawMessage appends m without white space. A nil m becomes null.
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

// appendRaw appends raw without white space. raw must be valid JSON, except that strings may
// contain invalid UTF-8, which becomes U+FFFD.
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
			if depth++; depth > MaxDepth {
				return dst, ErrTooDeep
			}
		case '}', ']':
			depth--
		}
		dst = append(dst, raw[i])
	}
	return dst, nil
}

// quotedLength returns the length of the quoted string at the start of raw.
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
