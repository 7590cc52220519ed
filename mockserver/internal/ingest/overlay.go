package ingest

import (
	"bytes"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// An overlay is an object of a batch that lies beneath that of each call: of
// members with the same key the call's own is taken.
type overlay struct {
	raw   []byte         // the object, or nil
	index map[string]int // of each key its place in texts; nil until it is needed
	texts [][]byte       // the members, key and value
	has   []bool         // which of them the call at hand has itself
	keys  [][]byte       // their keys in quotes, without escapes
}

// merge writes a call's own object, which may be nil, with the members of the
// overlay that it lacks.
func (o *overlay) merge(dst, own []byte) []byte {
	if own == nil {
		return append(dst, o.raw...)
	}
	if o.index == nil {
		o.split()
	}
	if o.disjoint(own) {
		dst = append(append(dst, o.raw[:len(o.raw)-1]...), ',')
		return append(dst, own[1:]...)
	}
	start := len(dst)
	dst = append(dst, '{')
	clear(o.has)
	for m := range jsonscan.Members(own) {
		if i, ok := o.index[string(jsonscan.Unquote(m.Key))]; ok {
			o.has[i] = true
		}
		dst = append(append(dst, m.Text...), ',')
	}
	for i, text := range o.texts {
		if !o.has[i] {
			dst = append(append(dst, text...), ',')
		}
	}
	if len(dst) == start+1 {
		return append(dst, '}')
	}
	dst[len(dst)-1] = '}' // in place of the last comma
	return dst
}

// disjoint reports at a glance that a call's own object has none of the overlay's
// keys, and that neither is empty. It may say no though it is so.
func (o *overlay) disjoint(own []byte) bool {
	if len(o.keys) == 0 || len(o.keys) > 8 || bytes.IndexByte(own, '\\') >= 0 || bytes.IndexByte(own, '"') < 0 {
		return false
	}
	for _, key := range o.keys {
		if bytes.Contains(own, key) {
			return false
		}
	}
	return true
}

// split reads the members. Of duplicate keys the last counts.
func (o *overlay) split() {
	o.index = map[string]int{}
	for m := range jsonscan.Members(o.raw) {
		name := string(jsonscan.Unquote(m.Key))
		if i, ok := o.index[name]; ok {
			o.texts[i] = m.Text
			continue
		}
		o.index[name] = len(o.texts)
		o.texts = append(o.texts, m.Text)
		o.keys = append(o.keys, fields.AppendString(nil, name))
	}
	o.has = make([]bool, len(o.texts))
}
