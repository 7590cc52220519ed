package timeline

import (
	"bytes"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pathdiff"
)

// Traits are those of a user: identify calls set them, and leave those that they do not
// mention as they were.
type Traits struct {
	names     []string // in the order in which they were first set
	keys      map[string][]byte
	values    map[string][]byte
	size      int  // of keys and values, in bytes
	truncated bool // some were left out, as they would take more than maxTraits
}

const (
	// maxTraits bounds the traits of a user, in bytes.
	maxTraits = 64 << 10
	// maxChanges is how many changes of one call are told one by one.
	maxChanges = 50
)

// Changes are what an identify call does to the traits.
type Changes struct {
	Lines  []pathdiff.Line // what it sets that was not there, or was otherwise
	More   int             // how many of these there are beyond
	Equal  int             // how many it sets to what they were
	Traits []byte          // as they stand then, a JSON object
}

// apply sets the traits of an identify call, and returns what that changes.
func (t *Traits) apply(body []byte) *Changes {
	traits := traitsOf(body)
	d, err := pathdiff.Compare(t.current(traits), traits)
	if err != nil {
		return nil // it has no traits
	}
	t.set(traits)
	c := &Changes{Equal: d.Equal, More: d.Differing, Traits: t.JSON()}
	for _, l := range d.Lines {
		if l.Kind != pathdiff.Same && len(c.Lines) < maxChanges {
			c.Lines = append(c.Lines, l)
		}
	}
	c.More -= len(c.Lines)
	return c
}

// set is apply without looking at what changes.
func (t *Traits) set(traits []byte) {
	if t.values == nil {
		t.keys, t.values = map[string][]byte{}, map[string][]byte{}
	}
	for m := range jsonscan.Members(traits) {
		name := string(jsonscan.Unquote(m.Key))
		old, known := t.values[name]
		size := t.size + len(m.Value) - len(old)
		if !known {
			size += len(m.Key)
		}
		if size > maxTraits {
			t.truncated = true
			continue
		}
		if !known {
			t.names = append(t.names, name)
			t.keys[name] = m.Key
		}
		t.values[name], t.size = m.Value, size
	}
}

// standing returns an object of those traits that stand and that others, an object, would
// set.
func (t *Traits) current(others []byte) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	seen := map[string]bool{}
	for m := range jsonscan.Members(others) {
		if name := string(jsonscan.Unquote(m.Key)); !seen[name] {
			seen[name] = true
			t.write(&out, name)
		}
	}
	out.WriteByte('}')
	return out.Bytes()
}

// JSON returns the traits as they stand, an object.
func (t *Traits) JSON() []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for _, name := range t.names {
		t.write(&out, name)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// write adds a trait to an object, if it stands.
func (t *Traits) write(out *bytes.Buffer, name string) {
	value, ok := t.values[name]
	if !ok {
		return
	}
	if out.Len() > 1 {
		out.WriteByte(',')
	}
	out.Write(t.keys[name])
	out.WriteByte(':')
	out.Write(value)
}

// traitsOf returns the traits of a call, an object, or nil.
func traitsOf(body []byte) []byte { return fields.Object(fields.Find(body, fields.Traits)) }
