package jsondiff

import (
	"bytes"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Kind is the result of a comparison at a path.
type Kind string

const (
	Same    Kind = "same"
	Changed Kind = "changed" // both documents have a value
	Added   Kind = "added"   // only the second document has a value
	Removed Kind = "removed" // only the first document has a value
)

// A Line is a path with the values of both documents. Values are scalars, empty objects and arrays,
// and values of different types. A value is the original JSON, truncated to about 4 KB. It is empty
// if the document has no value at the path.
type Line struct {
	Path   string `json:"path"` // path such as properties.items[2]["unit price"]; empty for the whole document
	Kind   Kind   `json:"kind"`
	First  string `json:"before,omitempty"`
	Second string `json:"after,omitempty"`
}

// A Difference is the result of ComparePaths.
type Difference struct {
	Lines      []Line // at most maxLines lines, in the order of the first document
	Differing  int    // number of differing paths
	Equal      int    // number of equal paths
	Incomplete bool   // whether Lines was truncated
}

// Changes returns the first differing lines, up to limit lines.
func (d *Difference) Changes(limit int) (changes []Line) {
	for _, l := range d.Lines {
		if l.Kind != Same && len(changes) < limit {
			changes = append(changes, l)
		}
	}
	return changes
}

const (
	maxLines = 2000
	maxValue = 4 << 10
	maxPath  = 1 << 10
)

// ComparePaths compares two documents by path. It ignores the order of keys and the format of
// numbers and strings. If a key occurs twice, the last value applies. It fails if a
// document is not valid JSON.
func ComparePaths(first, second []byte) (Difference, error) {
	a, err := parse(first)
	if err != nil {
		return Difference{}, err
	}
	b, err := parse(second)
	if err != nil {
		return Difference{}, err
	}
	var c comparison
	c.compare(a, b)
	return c.Difference, nil
}

// A node is a parsed value.
type node struct {
	text     []byte
	keys     [][]byte // quoted keys of an object
	members  []*node  // values in an object or array
	position map[string]int
}

// missing represents a value that a document does not have.
var missing = &node{}

func parse(doc []byte) (*node, error) {
	s := jsonscan.New(doc)
	n, err := read(s, doc)
	if err == nil {
		err = s.End()
	}
	return n, err
}

func read(s *jsonscan.Scanner, doc []byte) (*node, error) {
	n := &node{}
	kind := s.Kind()
	start := s.Offset()
	var err error
	switch kind {
	case '{':
		n.position = map[string]int{}
		err = s.Object(func(key []byte) error {
			member, err := read(s, doc)
			if err != nil {
				return err
			}
			name := string(jsonscan.Unquote(key))
			if i, again := n.position[name]; again {
				n.members[i] = member
				return nil
			}
			n.position[name] = len(n.members)
			n.keys, n.members = append(n.keys, key), append(n.members, member)
			return nil
		})
	case '[':
		err = s.Array(func() error {
			member, err := read(s, doc)
			n.members = append(n.members, member)
			return err
		})
	default:
		_, err = s.Value()
	}
	n.text = doc[start:s.Offset()]
	return n, err
}

// kind returns the kind of the value; see [jsonscan.Scanner.Kind].
func (n *node) kind() byte { return jsonscan.New(n.text).Kind() }

// A comparison is the state of Compare.
type comparison struct {
	Difference
	path []byte
}

func (c *comparison) compare(a, b *node) {
	kind := a.kind()
	if a == missing {
		kind = b.kind()
	}
	isParent := len(a.members)+len(b.members) > 0
	switch {
	case a != missing && b != missing && a.kind() != b.kind():
		c.line(Changed, a, b)
	case isParent && kind == '{':
		c.objects(a, b)
	case isParent && kind == '[':
		for i := range max(len(a.members), len(b.members)) {
			c.at(canonical.AppendIndex(c.path, i), element(a, i), element(b, i))
		}
	case a == missing:
		c.line(Added, a, b)
	case b == missing:
		c.line(Removed, a, b)
	case same(a, b):
		c.line(Same, a, b)
	default:
		c.line(Changed, a, b)
	}
}

// at compares two values at a path that extends the current path.
func (c *comparison) at(path []byte, a, b *node) {
	here := len(c.path)
	c.path = path
	c.compare(a, b)
	c.path = c.path[:here]
}

func (c *comparison) objects(a, b *node) {
	for i, key := range a.keys {
		other := missing
		if j, ok := b.position[string(jsonscan.Unquote(key))]; ok {
			other = b.members[j]
		}
		c.at(canonical.AppendKey(c.path, key), a.members[i], other)
	}
	for j, key := range b.keys {
		if _, ok := a.position[string(jsonscan.Unquote(key))]; !ok {
			c.at(canonical.AppendKey(c.path, key), missing, b.members[j])
		}
	}
}

func element(n *node, i int) *node {
	if i < len(n.members) {
		return n.members[i]
	}
	return missing
}

func same(a, b *node) bool {
	switch a.kind() {
	case '"':
		return bytes.Equal(jsonscan.Unquote(a.text), jsonscan.Unquote(b.text))
	case '0':
		return canonical.SameNumber(a.text, b.text)
	case '{', '[':
		return true // both are empty
	}
	return bytes.Equal(a.text, b.text)
}

func (c *comparison) line(kind Kind, a, b *node) {
	if kind == Same {
		c.Equal++
	} else {
		c.Differing++
	}
	if len(c.Lines) == maxLines {
		c.Incomplete = true
		return
	}
	c.Lines = append(c.Lines, Line{Path: text.CutBytes(maxPath, string(c.path)), Kind: kind, First: text.CutBytes(maxValue, string(a.text)), Second: text.CutBytes(maxValue, string(b.text))})
}
