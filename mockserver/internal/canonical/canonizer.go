package canonical

import (
	"math"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A canonizer converts src to canonical JSON in one pass. Canonical parts are not copied one
// by one: src[from:pos] is pending, and is copied when something must change.
type canonizer struct {
	src  []byte
	pos  int    // next byte of src
	from int    // start of the pending part of src
	dst  []byte // output before the pending part

	members []member // fields of all open objects, innermost last
	rewrite []byte   // canonical text of changed keys
	scratch []byte   // text of an object that is being reordered
	notes   *recorder
}

// member is a field of an object.
type member struct {
	key        span
	index      int64 // array index of the key, or notIndex
	value, end int   // in the output, including the pending part
	from, to   int   // value in src
}

// span is the location of a key's canonical text, with quotes. It has offsets instead of a
// slice, so that the pool retains no documents.
type span struct {
	start, end int
	rewritten  bool // in canonizer.rewrite, otherwise in canonizer.src
}

func (c *canonizer) text(s span) []byte {
	if s.rewritten {
		return c.rewrite[s.start:s.end]
	}
	return c.src[s.start:s.end]
}

// notIndex is greater than all array indices.
const notIndex = math.MaxInt64

// maxPooled limits the size of pooled buffers.
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
		problem = "unexpected end of text"
	}
	return &jsonscan.SyntaxError{Offset: c.pos, Problem: problem}
}

// at returns the output offset of the next byte, if it is unchanged.
func (c *canonizer) at() int { return len(c.dst) + c.pos - c.from }

func (c *canonizer) flush() {
	c.dst = append(c.dst, c.src[c.from:c.pos]...)
	c.from = c.pos
}

// drop skips n bytes.
func (c *canonizer) drop(n int) {
	c.flush()
	c.pos += n
	c.from = c.pos
}
