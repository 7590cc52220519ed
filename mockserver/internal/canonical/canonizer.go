package canonical

import (
	"math"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A canonizer converts src to canonical JSON in one pass. Canonical input is copied in large parts:
// src[from:pos] is pending, and is copied when a byte after it must change.
type canonizer struct {
	src  []byte
	pos  int    // offset of the next byte in src
	from int    // offset of the pending part of src
	dst  []byte // output before the pending part

	members []member // fields of all open objects; those of the innermost object are last
	rewrite []byte   // canonical text of changed keys
	scratch []byte   // text of an object that is being reordered
	notes   *recorder
}

// member is a field of an object.
type member struct {
	key        span
	index      int64 // array index of the key, or notIndex
	value, end int   // offsets of the value in the output, including the pending part
	from, to   int   // offsets of the value in src
}

// span is the location of a key's canonical text, including quotes. It consists of offsets, because a
// slice in the pool would retain the document.
type span struct {
	start, end int
	rewritten  bool // the text is in canonizer.rewrite instead of canonizer.src
}

func (c *canonizer) text(s span) []byte {
	if s.rewritten {
		return c.rewrite[s.start:s.end]
	}
	return c.src[s.start:s.end]
}

// notIndex is greater than every array index.
const notIndex = math.MaxInt64

// maxPooled is the maximum size of a pooled buffer.
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

// at returns the offset that the next byte of src will have in the output if it is copied.
func (c *canonizer) at() int { return len(c.dst) + c.pos - c.from }

func (c *canonizer) flush() {
	c.dst = append(c.dst, c.src[c.from:c.pos]...)
	c.from = c.pos
}

// drop skips n bytes of src.
func (c *canonizer) drop(n int) {
	c.flush()
	c.pos += n
	c.from = c.pos
}
