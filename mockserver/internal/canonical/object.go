package canonical

import "errors"

// Object is a JSON object in canonical form. Duplicate keys are one member, and
// the members are in canonical order.
type Object struct{ c *canonizer }

// ReadObject reads the JSON object src. The caller must call Release when it no
// longer uses the object and the bytes of its members, and must not change src
// until then. On an error there is nothing to release.
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

// Release gives the object's buffers back.
func (o Object) Release() { o.c.release() }

// Len returns the number of members.
func (o Object) Len() int { return len(o.c.members) }

// Member returns member number i: its key with the quotes and its value, both in
// canonical form, and the value as the source has it.
func (o Object) Member(i int) (key, value, source []byte) {
	m := &o.c.members[i]
	return o.c.text(m.key), o.c.dst[m.value:m.end:m.end], o.c.src[m.from:m.to]
}
