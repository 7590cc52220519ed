package canonical

import (
	"fmt"
	"math"
	"sync"
)

// canonizer turns src into canonical text in one pass. What is canonical as it
// stands is not copied token by token: src[from:pos] is the run that waits to be
// copied, and only something that must change ends the run.
type canonizer struct {
	src  []byte
	pos  int    // next byte of src to read
	from int    // start of the run of src that goes to dst as it is
	dst  []byte // the output up to that run

	members []member // the members of all objects now open, innermost last
	rewrite []byte   // the canonical texts of keys that had to change
	scratch []byte   // an object's text while it is put in another order
	notes   *recorder
}

// member is one member of an object.
type member struct {
	key        span
	index      int64 // the array index that the key is, or notIndex
	value, end int   // in the output, as if the run that waits had been copied
	from, to   int   // the value in the source
}

// span is the canonical text of a key, with its quotes. It is an offset and no
// slice so that what waits in the pool keeps no document alive.
type span struct {
	start, end int
	rewritten  bool // in canonizer.rewrite, else in canonizer.src
}

func (c *canonizer) text(s span) []byte {
	if s.rewritten {
		return c.rewrite[s.start:s.end]
	}
	return c.src[s.start:s.end]
}

// notIndex sorts a key that is no array index behind all that are.
const notIndex = math.MaxInt64

// maxPooled bounds the buffers that wait in the pool for their next use.
const maxPooled = 64 << 10

var canonizers = sync.Pool{New: func() any { return new(canonizer) }}

func newCanonizer(src []byte) *canonizer {
	c := canonizers.Get().(*canonizer)
	c.src, c.pos, c.from = src, 0, 0
	c.dst = c.dst[:0]
	return c
}

func (c *canonizer) release() {
	if cap(c.dst)+cap(c.rewrite)+cap(c.scratch) > maxPooled || cap(c.members) > maxPooled/64 {
		return
	}
	c.members, c.rewrite, c.scratch = c.members[:0], c.rewrite[:0], c.scratch[:0]
	c.src, c.notes = nil, nil
	canonizers.Put(c)
}

func (c *canonizer) fail(problem string) error {
	if c.pos >= len(c.src) {
		return fmt.Errorf("the JSON ends too early, at byte %d", len(c.src))
	}
	return fmt.Errorf("the JSON %s, at byte %d", problem, c.pos)
}

// at is the offset in the output that the next byte read will have if it stays.
func (c *canonizer) at() int { return len(c.dst) + c.pos - c.from }

func (c *canonizer) flush() {
	c.dst = append(c.dst, c.src[c.from:c.pos]...)
	c.from = c.pos
}

// drop reads n bytes that do not go to the output.
func (c *canonizer) drop(n int) {
	c.flush()
	c.pos += n
	c.from = c.pos
}
