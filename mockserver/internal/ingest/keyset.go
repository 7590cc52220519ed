package ingest

import (
	"hash/maphash"
	"math/bits"
)

// A key identifies a call in duplicate detection. Calls of different sources or with different
// messageIds have different keys, except with a negligible probability.
type key [2]uint64

// seeds are random, so that a sender cannot find messageIds that have the same key.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func keyOf(source, id string) key {
	var short [192]byte // avoids an allocation
	text := append(append(append(short[:0], source...), 0), id...)
	return key{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
}

// A keySet is a set of keys. It takes about 12 bytes per key when it is full, because it stores only
// half of each key: the other half selects the segment. Different keys of a segment can have the same
// stored half. A full set therefore finds a key that was not added with a probability of about 4 in 10^17.
type keySet struct {
	segments []segment // nil if no key was added
	size     int
}

// A segment is a hash table with linear probing. A slot contains half of a key, or 0. The number of
// slots is a power of two, or 0, and at least a quarter of the slots are empty.
type segment struct {
	slots []uint64
	used  int
}

// segmentKeys is the average number of keys in a segment of a full set. Nearly all segments of a full
// set then have 1024 slots.
const segmentKeys = 680

// add adds a key. full is the maximum number of keys.
func (s *keySet) add(k key, full int) {
	if s.segments == nil {
		s.segments = make([]segment, full/segmentKeys+1)
	}
	g, half := s.segment(k)
	if 4*(g.used+1) > 3*len(g.slots) {
		g.grow()
	}
	if i := g.find(half); g.slots[i] == 0 {
		g.slots[i] = half
		g.used++
		s.size++
	}
}

// has reports whether a key was added.
func (s *keySet) has(k key) bool {
	g, half := s.segment(k)
	return g != nil && g.used > 0 && g.slots[g.find(half)] != 0
}

// remove removes a key.
func (s *keySet) remove(k key) {
	if !s.has(k) {
		return
	}
	g, half := s.segment(k)
	i, mask := g.find(half), len(g.slots)-1
	for j := (i + 1) & mask; g.slots[j] != 0; j = (j + 1) & mask { // close the gap
		if home := int(g.slots[j]) & mask; (j-home)&mask >= (j-i)&mask {
			g.slots[i], i = g.slots[j], j
		}
	}
	g.slots[i] = 0
	g.used--
	s.size--
}

// segment returns the segment of a key, or nil, and the half of the key that the segment stores.
func (s *keySet) segment(k key) (g *segment, half uint64) {
	if s.segments == nil {
		return nil, 0
	}
	i, _ := bits.Mul64(k[0], uint64(len(s.segments)))
	return &s.segments[i], max(1, k[1])
}

// find returns the index of a slot that contains half, or of the empty slot where it belongs.
func (g *segment) find(half uint64) int {
	mask := len(g.slots) - 1
	i := int(half) & mask
	for g.slots[i] != half && g.slots[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

// grow doubles the number of slots.
func (g *segment) grow() {
	old := g.slots
	g.slots = make([]uint64, max(8, 2*len(old)))
	for _, half := range old {
		if half != 0 {
			g.slots[g.find(half)] = half
		}
	}
}
