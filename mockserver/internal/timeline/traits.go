package timeline

import (
	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

// Traits are the traits of a user. An identify call changes some traits and keeps the others.
type Traits struct {
	names     []string // trait names, in order of their first assignment
	members   map[string]jsonscan.Member
	size      int  // size of keys and values in bytes
	truncated bool // some traits were omitted because of maxTraits
}

const (
	// maxTraits is the maximum size of a user's traits in bytes.
	maxTraits = 64 << 10
	// maxChanges is the maximum number of listed changes of one call.
	maxChanges = 50
)

// Changes are the effects of an identify call on the traits.
type Changes struct {
	Lines  []jsondiff.Line // new and changed traits
	More   int             // number of further changes
	Equal  int             // number of unchanged traits
	Traits []byte          // resulting traits as a JSON object
}

// apply sets the traits of an identify call and returns the changes.
func (t *Traits) apply(body []byte) *Changes {
	traits := traitsOf(body)
	d, err := jsondiff.ComparePaths(t.current(traits), traits)
	if err != nil {
		return nil // the call has no traits
	}
	t.set(traits)
	lines := d.Changes(maxChanges)
	return &Changes{Lines: lines, More: d.Differing - len(lines), Equal: d.Equal, Traits: t.JSON()}
}

// set is like apply, but does not return the changes.
func (t *Traits) set(traits []byte) {
	if t.members == nil {
		t.members = map[string]jsonscan.Member{}
	}
	for m := range jsonscan.Members(traits) {
		name := string(jsonscan.Unquote(m.Key))
		old, known := t.members[name]
		if known {
			m.Key = old.Key // the first spelling
		}
		size := t.size + len(m.Key) + len(m.Value) - len(old.Key) - len(old.Value)
		if size > maxTraits {
			t.truncated = true
			continue
		}
		if !known {
			t.names = append(t.names, name)
		}
		t.members[name], t.size = m, size
	}
}

// current returns the current values of the traits whose names are also in others, as a JSON object.
func (t *Traits) current(others []byte) []byte {
	var names []string
	seen := map[string]bool{} // a call can repeat a name, and the current value can be long
	for m := range jsonscan.Members(others) {
		if name := string(jsonscan.Unquote(m.Key)); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return t.object(names)
}

// JSON returns all traits as a JSON object.
func (t *Traits) JSON() []byte { return t.object(t.names) }

// object returns the traits in names that are set, as a JSON object.
func (t *Traits) object(names []string) []byte {
	out := []byte{'{'}
	for _, name := range names {
		m, ok := t.members[name]
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key...), ':'), m.Value...)
	}
	return append(out, '}')
}

// traitsOf returns the traits of a call, or nil if they are not an object.
func traitsOf(body []byte) []byte { return fields.Object(fields.Find(body, fields.Traits)) }
