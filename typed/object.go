package typed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// ErrRequired is the error for a required property that is empty.
var ErrRequired = errors.New("is required but empty")

// errUnfinished is the error if a caller's function recovers the panic of a nested function.
var errUnfinished = errors.New("an object or an array was not written to its end")

var errZeroKey = errors.New("a typed.Key is the zero value: use typed.NewKey")

// NotOneOf returns an error that reports that text is not one of the allowed values.
func NotOneOf(text string, allowed ...string) error {
	return fmt.Errorf("%.50q is not one of %q", strings.Clone(text), allowed)
}

// An Object writes the fields of a JSON object in the order of the calls. The caller must
// not write a key twice. After an error, the methods do nothing.
//
// An Object is valid only during the function call that receives it, and not safe for
// concurrent use.
type Object struct {
	buf   []byte
	depth int // number of open objects and arrays
	index int // index of the next element in the innermost array
	err   error
}

// objects is a pool of Objects. Without it each call would allocate one, because the argument of
// write escapes to the heap.
var objects = sync.Pool{New: func() interface{} { return new(Object) }}

// Append appends a JSON object to dst and calls write to write its fields. Errors include
// the path of the value, which begins with path. A panic in write becomes an error. On
// error, Append returns dst unchanged.
func Append(dst []byte, path string, write func(*Object)) (out []byte, err error) {
	o := objects.Get().(*Object) // has the zero value
	o.buf, o.depth = append(dst, '{'), 1
	defer func() {
		if p := recover(); p != nil { // do not reuse o, because the function that panicked may still use it
			out, err = dst, wire.Below(path, fmt.Errorf("writing an object panicked: %s", wire.Clip(fmt.Sprint(p), wire.MaxRepeated)))
		}
	}()
	write(o)
	out = o.buf
	if err = o.err; err == nil && o.depth != 1 {
		err = errUnfinished
	}
	if err != nil {
		return dst, wire.Below(path, err)
	}
	o.buf = nil
	objects.Put(o)
	return append(out, '}'), nil
}

// set stores the buffer. If the buffer has not moved, set changes only its length. This avoids
// the write barrier during garbage collection.
func (o *Object) set(buf []byte) {
	if cap(buf) == cap(o.buf) {
		o.buf = o.buf[:len(buf)]
	} else {
		o.buf = buf
	}
}

// key appends the key and returns the buffer. After an error it returns nil.
func (o *Object) key(k *Key) []byte {
	if o.err != nil {
		return nil
	}
	if len(o.buf) > wire.MaxText {
		o.err = wire.ErrTooLarge
		return nil
	}
	if k.text != "" {
		return k.append(o.buf)
	}
	if k != element {
		o.err = errZeroKey
		return nil
	}
	return o.comma()
}

// element stands for the key of an array element.
var element = new(Key)

// comma appends the separator before the next element and returns the buffer.
func (o *Object) comma() []byte {
	o.index++
	if o.index == 1 {
		return o.buf
	}
	return append(o.buf, ',')
}

// end records the error of a field, if err is not nil.
func (o *Object) end(k *Key, err error) {
	switch {
	case err == nil:
	case k == element:
		o.err = wire.Below("["+strconv.Itoa(o.index-1)+"]", err)
	default:
		o.err = wire.Below(wire.Segment(k.name), err)
	}
}

// Fail reports err as the error of the field k. It does nothing if err is nil.
func (o *Object) Fail(k *Key, err error) {
	if o.err == nil {
		o.end(k, err)
	}
}

// String writes field k as a string.
func (o *Object) String(k *Key, s string) {
	if buf := o.key(k); buf != nil {
		o.set(wire.AppendString(buf, s))
	}
}

// Int writes field k as an integer.
func (o *Object) Int(k *Key, n int64) {
	if buf := o.key(k); buf != nil {
		o.set(wire.AppendInt(buf, n))
	}
}

// Float writes field k as a number. NaN and infinities are errors.
func (o *Object) Float(k *Key, f float64) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendFloat(buf, f)
		o.set(buf)
		o.end(k, err)
	}
}

// Bool writes field k as a boolean.
func (o *Object) Bool(k *Key, b bool) {
	if buf := o.key(k); buf != nil {
		o.set(strconv.AppendBool(buf, b))
	}
}

// Time writes field k as a time in UTC with milliseconds, such as
// "2006-01-02T15:04:05.000Z". A year outside 0 to 9999 is an error.
func (o *Object) Time(k *Key, t time.Time) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendTimeValue(buf, t)
		o.set(buf)
		o.end(k, err)
	}
}

// Null writes field k as null.
func (o *Object) Null(k *Key) {
	if buf := o.key(k); buf != nil {
		o.set(append(buf, "null"...))
	}
}

// Any writes field k with a value of any type that the client supports in properties.
func (o *Object) Any(k *Key, v interface{}) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendValue(buf, v, k.at, o.depth)
		o.set(buf)
		o.end(k, err)
	}
}

// Object writes field k as an object. It calls write to write the object's fields.
func (o *Object) Object(k *Key, write func(*Object)) {
	if buf := o.key(k); buf != nil {
		o.set(buf)
		o.nested(write)
		o.end(k, o.err)
	}
}

// Array writes field k as an array. It calls write to write the elements.
func (o *Object) Array(k *Key, write func(*Array)) {
	if buf := o.key(k); buf != nil {
		o.set(buf)
		(*Array)(o).nested(write)
		o.end(k, o.err)
	}
}

// nested writes an object inside the current object or array.
func (o *Object) nested(write func(*Object)) {
	if o.depth++; o.depth > wire.MaxDepth {
		o.err = wire.ErrTooDeep
		return
	}
	o.buf = append(o.buf, '{')
	write(o)
	o.buf = append(o.buf, '}')
	o.depth--
}

// An Array writes the elements of a JSON array. It has the same restrictions as [Object].
type Array Object

// nested writes an array inside the current object or array.
func (a *Array) nested(write func(*Array)) {
	if a.depth++; a.depth > wire.MaxDepth {
		a.err = wire.ErrTooDeep
		return
	}
	index := a.index
	a.index = 0
	a.buf = append(a.buf, '[')
	write(a)
	a.buf = append(a.buf, ']')
	a.index = index
	a.depth--
}

// Fail reports err as the error of the next element. It does nothing if err is nil.
func (a *Array) Fail(err error) {
	if a.err == nil && err != nil {
		a.index++
		(*Object)(a).end(element, err)
	}
}

// String writes a string.
func (a *Array) String(s string) { (*Object)(a).String(element, s) }

// Int writes an integer.
func (a *Array) Int(n int64) { (*Object)(a).Int(element, n) }

// Float writes a number; see [Object.Float].
func (a *Array) Float(f float64) { (*Object)(a).Float(element, f) }

// Bool writes a boolean.
func (a *Array) Bool(b bool) { (*Object)(a).Bool(element, b) }

// Time writes a time; see [Object.Time].
func (a *Array) Time(t time.Time) { (*Object)(a).Time(element, t) }

// Any writes a value of any type; see [Object.Any].
func (a *Array) Any(v interface{}) { (*Object)(a).Any(element, v) }

// Object writes an object. It calls write to write the object's fields.
func (a *Array) Object(write func(*Object)) { (*Object)(a).Object(element, write) }

// Array writes an array. It calls write to write the elements.
func (a *Array) Array(write func(*Array)) { (*Object)(a).Array(element, write) }
