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

// ErrRequired is the error of a property that a plan requires, and that is empty.
var ErrRequired = errors.New("is required, and is empty")

// NotOneOf returns the error of a text that is none of those that a plan allows.
func NotOneOf(text string, allowed ...string) error {
	return fmt.Errorf("%.50q is not one of %q", strings.Clone(text), allowed)
}

// An Object is a JSON object that is being written. Members come in the order in which they
// are written, and the same key must not be written twice. After an error nothing more is
// written.
//
// It belongs to the function that it is passed to until that returns, and to one goroutine;
// it must not be kept.
type Object struct {
	buf   []byte
	depth int // of objects and arrays around a member
	index int // of the next element of the innermost array
	err   error
}

// objects holds *Object. What is passed to a function that is not known would be allocated
// for each call otherwise.
var objects = sync.Pool{New: func() interface{} { return new(Object) }}

// Append appends to dst the JSON object that write writes. The error of a value has its
// path, which begins with path; a panic in write is an error as well. With an error, Append
// returns dst unchanged.
func Append(dst []byte, path string, write func(*Object)) (out []byte, err error) {
	o := objects.Get().(*Object) // zero: it goes back as it came, or not at all
	o.buf, o.depth = append(dst, '{'), 1
	defer func() {
		if p := recover(); p != nil { // o may be in use
			out, err = dst, wire.Below(path, fmt.Errorf("writing an object panicked: %s", wire.Clip(fmt.Sprint(p), wire.MaxRepeated)))
		}
	}()
	write(o)
	out = o.buf
	if err = o.err; err != nil {
		return dst, wire.Below(path, err)
	}
	o.buf = nil
	objects.Put(o)
	return append(out, '}'), nil
}

// set makes buf the text. Where it is the same memory, no pointer is stored, which is a part
// of the time while the garbage is collected.
func (o *Object) set(buf []byte) {
	if cap(buf) == cap(o.buf) {
		o.buf = o.buf[:len(buf)]
	} else {
		o.buf = buf
	}
}

func (a *Array) set(buf []byte) { (*Object)(a).set(buf) }

// key returns the text with the beginning of a member, or nil if it is not to be written.
func (o *Object) key(k *Key) []byte {
	if o.err != nil {
		return nil
	}
	if len(o.buf) > wire.MaxText {
		o.err = wire.ErrTooLarge
		return nil
	}
	return k.append(o.buf)
}

// end ends a member whose value may be an error.
func (o *Object) end(k *Key, err error) {
	if err != nil {
		o.err = wire.Below(wire.Segment(k.name), err)
	}
}

// Fail makes err the error of the member k, as if its value could not be written. It does
// nothing if err is nil.
func (o *Object) Fail(k *Key, err error) {
	if o.err == nil {
		o.end(k, err)
	}
}

// String writes a member that is a string.
func (o *Object) String(k *Key, s string) {
	if buf := o.key(k); buf != nil {
		o.set(wire.AppendString(buf, s))
	}
}

// Int writes a member that is a whole number.
func (o *Object) Int(k *Key, n int64) {
	if buf := o.key(k); buf != nil {
		o.set(wire.AppendInt(buf, n))
	}
}

// Float writes a member that is a number. NaN and the infinities are errors.
func (o *Object) Float(k *Key, f float64) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendFloat(buf, f)
		o.set(buf)
		o.end(k, err)
	}
}

// Bool writes a member that is true or false.
func (o *Object) Bool(k *Key, b bool) {
	if buf := o.key(k); buf != nil {
		o.set(strconv.AppendBool(buf, b))
	}
}

// Time writes a member that is a time, in UTC and with milliseconds, such as
// "2006-01-02T15:04:05.000Z". A year that is not of four digits is an error.
func (o *Object) Time(k *Key, t time.Time) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendTimeValue(buf, t)
		o.set(buf)
		o.end(k, err)
	}
}

// Null writes a member that is null.
func (o *Object) Null(k *Key) {
	if buf := o.key(k); buf != nil {
		o.set(append(buf, "null"...))
	}
}

// Any writes a member of any type that properties may have, as the client writes the values
// of maps.
func (o *Object) Any(k *Key, v interface{}) {
	if buf := o.key(k); buf != nil {
		buf, err := wire.AppendValue(buf, v, k.at, o.depth)
		o.set(buf)
		o.end(k, err)
	}
}

// Object writes a member that is an object, whose members write writes.
func (o *Object) Object(k *Key, write func(*Object)) {
	if buf := o.key(k); buf != nil {
		o.set(buf)
		o.nested(write)
		o.end(k, o.err)
	}
}

// Array writes a member that is an array, whose elements write writes.
func (o *Object) Array(k *Key, write func(*Array)) {
	if buf := o.key(k); buf != nil {
		o.set(buf)
		(*Array)(o).nested(write)
		o.end(k, o.err)
	}
}

// nested writes an object inside another one or an array.
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

// An Array is a JSON array that is being written. What holds for [Object] holds for it.
type Array Object

// nested writes an array inside an object or another array.
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

// element begins an element, and reports whether it is to be written.
func (a *Array) element() bool {
	if a.err != nil {
		return false
	}
	if len(a.buf) > wire.MaxText {
		a.err = wire.ErrTooLarge
		return false
	}
	if a.index > 0 {
		a.buf = append(a.buf, ',')
	}
	a.index++
	return true
}

// end ends an element whose value may be an error.
func (a *Array) end(err error) {
	if err != nil {
		a.err = wire.Below("["+strconv.Itoa(a.index-1)+"]", err)
	}
}

// Fail makes err the error of the next element, as if its value could not be written. It
// does nothing if err is nil.
func (a *Array) Fail(err error) {
	if a.err == nil && err != nil {
		a.index++
		a.end(err)
	}
}

// String writes an element that is a string.
func (a *Array) String(s string) {
	if a.element() {
		a.set(wire.AppendString(a.buf, s))
	}
}

// Int writes an element that is a whole number.
func (a *Array) Int(n int64) {
	if a.element() {
		a.set(wire.AppendInt(a.buf, n))
	}
}

// Float writes an element as [Object.Float] does.
func (a *Array) Float(f float64) {
	if a.element() {
		buf, err := wire.AppendFloat(a.buf, f)
		a.set(buf)
		a.end(err)
	}
}

// Bool writes an element that is true or false.
func (a *Array) Bool(b bool) {
	if a.element() {
		a.set(strconv.AppendBool(a.buf, b))
	}
}

// Time writes an element as [Object.Time] does.
func (a *Array) Time(t time.Time) {
	if a.element() {
		buf, err := wire.AppendTimeValue(a.buf, t)
		a.set(buf)
		a.end(err)
	}
}

// Any writes an element as [Object.Any] does.
func (a *Array) Any(v interface{}) {
	if a.element() {
		buf, err := wire.AppendValue(a.buf, v, 0, a.depth)
		a.set(buf)
		a.end(err)
	}
}

// Object writes an element that is an object, whose members write writes.
func (a *Array) Object(write func(*Object)) {
	if a.element() {
		index := a.index
		(*Object)(a).nested(write)
		a.index = index
		a.end(a.err)
	}
}

// Array writes an element that is an array, whose elements write writes.
func (a *Array) Array(write func(*Array)) {
	if a.element() {
		a.nested(write)
		a.end(a.err)
	}
}
