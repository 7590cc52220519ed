package canonical

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// Append appends the canonical form of the JSON document src to dst. Input that is already
// canonical is checked in one pass and copied at once. dst and src must not overlap. The error
// contains the offset in src; dst is then unchanged. Append is safe for concurrent use.
func Append(dst, src []byte) ([]byte, error) {
	c := newCanonizer(src)
	defer c.release()
	own := c.dst
	defer func() { c.dst = own }() // the pool must not retain dst, which belongs to the caller
	c.dst = dst
	if err := c.document(); err != nil {
		return dst, err
	}
	return c.dst, nil
}

// Changes returns the values of the JSON document src that its canonical form does not
// preserve, at most 100. A number that is only written differently, such as 1.0 instead of 1, is not
// a change. For invalid JSON, Changes returns nil.
func Changes(src []byte) []Change {
	c := newCanonizer(src)
	defer c.release()
	c.notes = new(recorder)
	notes := c.notes
	if err := c.document(); err != nil {
		return nil
	}
	return notes.changes
}

// document reads one value. If it is an object, its fields remain in c.members.
func (c *canonizer) document() error {
	c.space()
	if err := c.value(0); err != nil {
		return err
	}
	c.space()
	if c.pos < len(c.src) {
		return c.fail("text after the value")
	}
	c.flush()
	return nil
}

func (c *canonizer) space() {
	n := c.pos
	for n < len(c.src) && (c.src[n] == ' ' || c.src[n] == '\n' || c.src[n] == '\r' || c.src[n] == '\t') {
		n++
	}
	if n > c.pos {
		c.drop(n - c.pos)
	}
}

func (c *canonizer) value(depth int) error {
	if c.pos >= len(c.src) {
		return c.fail("")
	}
	switch b := c.src[c.pos]; b {
	case '"':
		return c.str()
	case '{', '[':
		if depth == jsonscan.MaxDepth {
			return c.fail("nested deeper than " + strconv.Itoa(jsonscan.MaxDepth))
		}
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		return c.number()
	}
}

func (c *canonizer) literal(word string) error {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return c.fail("expected " + word)
	}
	c.pos += len(word)
	return nil
}

func (c *canonizer) array(depth int) error {
	c.pos++
	c.space()
	if c.next(']') {
		return nil
	}
	for i := 0; ; i++ {
		mark := c.notes.enterIndex(i)
		if err := c.value(depth); err != nil {
			return err
		}
		c.notes.leave(mark)
		c.space()
		if c.next(']') {
			return nil
		}
		if !c.next(',') {
			return c.fail("expected a comma or ']'")
		}
		c.space()
	}
}

// next skips the next byte if it is b, and reports whether it was.
func (c *canonizer) next(b byte) bool {
	if c.pos < len(c.src) && c.src[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

func (c *canonizer) object(depth int) error {
	o := openObject{base: len(c.members), start: c.at(), last: -1}
	c.pos++
	c.space()
	if c.next('}') {
		return nil
	}
	for {
		if err := c.member(&o, depth); err != nil {
			return err
		}
		c.space()
		if c.next('}') {
			break
		}
		if !c.next(',') {
			return c.fail("expected a comma or '}'")
		}
		c.space()
	}
	if o.unordered {
		c.notes.note(ChangeOrder, nil, nil)
	}
	if o.unordered || o.repeated {
		c.rearrange(&o)
	}
	if depth > 1 {
		c.members = c.members[:o.base]
	}
	return nil
}

func (c *canonizer) member(o *openObject, depth int) error {
	span, err := c.key()
	if err != nil {
		return err
	}
	key := c.text(span)
	c.space()
	if !c.next(':') {
		return c.fail("expected a colon after the key")
	}
	c.space()
	m := member{key: span, index: arrayIndex(key), value: c.at(), from: c.pos}
	mark := c.notes.enterKey(key)
	if err := c.value(depth); err != nil {
		return err
	}
	m.end, m.to = c.at(), c.pos
	o.add(c, m)
	c.notes.leave(mark)
	return nil
}

func (c *canonizer) key() (span, error) {
	if c.pos >= len(c.src) || c.src[c.pos] != '"' {
		return span{}, c.fail("expected a key in double quotes")
	}
	start, out, from := c.pos, c.at(), c.from
	if err := c.str(); err != nil {
		return span{}, err
	}
	if c.from == from {
		return span{start: start, end: c.pos}, nil
	}
	c.flush()
	start = len(c.rewrite)
	c.rewrite = append(c.rewrite, c.dst[out:]...)
	return span{start: start, end: len(c.rewrite), rewritten: true}, nil
}

// openObject is the state of an object while its fields are read.
type openObject struct {
	base      int            // index of the object's first field in canonizer.members
	start     int            // offset in the output
	filter    uint64         // has a bit for each key; a key without its bit is new
	byKey     map[string]int // index of the field by key, if the object has many fields
	last      int64          // array index of the last key, or notIndex
	unordered bool           // whether an array index follows a greater one or a name
	repeated  bool           // whether a key occurred twice
}

// minMapMembers is the number of fields at which a map becomes faster than a linear search.
const minMapMembers = 32

// add adds a field that has just been read.
func (o *openObject) add(c *canonizer, m member) {
	key := c.text(m.key)
	if i := o.find(c, key); i >= 0 {
		old := &c.members[i]
		if c.notes != nil {
			c.flush()
			c.notes.note(ChangeDuplicate, c.dst[old.value:old.end], nil)
		}
		old.value, old.end, old.from, old.to = m.value, m.end, m.from, m.to
		o.repeated = true
		return
	}
	o.unordered = o.unordered || m.index < o.last
	o.last = m.index
	c.members = append(c.members, m)
	if o.byKey != nil {
		o.byKey[string(key)] = len(c.members) - 1
	}
}

// find returns the index in c.members of the field with a key, or -1.
func (o *openObject) find(c *canonizer, key []byte) int {
	bit := uint64(1) << ((uint(len(key)) + 5*uint(key[1]) + 11*uint(key[len(key)/2])) % 64)
	seen := o.filter&bit != 0
	o.filter |= bit
	if o.byKey == nil && len(c.members)-o.base >= minMapMembers {
		o.byKey = make(map[string]int, 2*minMapMembers)
		for i := o.base; i < len(c.members); i++ {
			o.byKey[string(c.text(c.members[i].key))] = i
		}
	}
	if !seen {
		return -1
	}
	if o.byKey != nil {
		if i, ok := o.byKey[string(key)]; ok {
			return i
		}
		return -1
	}
	for i := o.base; i < len(c.members); i++ {
		if bytes.Equal(c.text(c.members[i].key), key) {
			return i
		}
	}
	return -1
}

// rearrange rewrites an object with its fields in canonical order.
func (c *canonizer) rearrange(o *openObject) {
	c.flush()
	c.scratch = append(c.scratch[:0], c.dst[o.start:]...)
	c.dst = c.dst[:o.start]
	members := c.members[o.base:]
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	for i := range members {
		m := &members[i]
		lead := byte(',')
		if i == 0 {
			lead = '{'
		}
		c.dst = append(c.dst, lead)
		c.dst = append(c.dst, c.text(m.key)...)
		c.dst = append(c.dst, ':')
		value := c.scratch[m.value-o.start : m.end-o.start]
		m.value = len(c.dst)
		c.dst = append(c.dst, value...)
		m.end = len(c.dst)
	}
	c.dst = append(c.dst, '}')
}

// arrayIndex returns the value of a quoted key if the key is an array index: a decimal number from 0
// to 2^32-2 without leading zeros. For other keys it returns notIndex.
func arrayIndex(key []byte) int64 {
	digits := key[1 : len(key)-1]
	if len(digits) == 0 || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
		return notIndex
	}
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' {
			return notIndex
		}
		n = n*10 + int64(b-'0')
	}
	if n > math.MaxUint32-1 {
		return notIndex
	}
	return n
}

// An Object is a JSON object in canonical form. Duplicate keys are merged, and the fields are
// in canonical order.
type Object struct{ c *canonizer }

// ReadObject reads the JSON object src. The caller must call Release after the last use of the
// object and its fields, and must not change src until then. On an error there is nothing to
// release.
func ReadObject(src []byte) (Object, error) {
	c := newCanonizer(src)
	err := c.document()
	if err == nil && c.dst[0] != '{' {
		err = errors.New("the JSON is not an object")
	}
	if err != nil {
		c.release()
		return Object{}, err
	}
	return Object{c}, nil
}

// Release returns the object's buffers to the pool.
func (o Object) Release() { o.c.release() }

// Len returns the number of fields.
func (o Object) Len() int { return len(o.c.members) }

// Member returns the quoted key and the canonical value of field i. source is the original value.
func (o Object) Member(i int) (key, value, source []byte) {
	m := &o.c.members[i]
	return o.c.text(m.key), o.c.dst[m.value:m.end:m.end], o.c.src[m.from:m.to]
}
