package offheap

import "slices"

// segmentSize is the unit in which a store takes memory, in bytes.
const segmentSize = 256 << 10

// Store keeps strings of bytes. They are laid one behind the other into segments, across
// the ends of segments as well. A segment is free when all bytes in it are: a store is
// meant for strings that leave it in about the order in which they came.
//
// The zero Store is empty. Its methods, and those of its strings, must not be called at
// the same time.
type Store struct {
	segments []segment // those that positions from first on refer to
	first    int64     // the number of the first of segments
	end      int64     // the position behind all strings
	free     [][]byte  // memory for segments to come
	taken    int64     // bytes of memory, that of free included
	used     int64     // bytes of strings
}

// segment is a part of the memory of a store. The byte at position p is in the segment
// with the number p/segmentSize.
type segment struct {
	memory []byte // nil once all is freed
	used   int    // bytes of strings that are not freed
}

// String is bytes in a store. The zero String is none.
type String struct {
	store *Store
	at    int64
	n     int
}

// Len is the number of bytes.
func (s String) Len() int { return s.n }

// Used is the number of bytes of all strings.
func (s *Store) Used() int64 { return s.used }

// Idle is how much memory, in bytes, the store has taken besides that of its strings.
func (s *Store) Idle() int64 { return s.taken - s.used }

// Spare is how much of Idle, in bytes, Trim can give back.
func (s *Store) Spare() int64 { return int64(len(s.free)) * segmentSize }

// Needs is how much memory, in bytes, the store takes if n bytes are put into it.
func (s *Store) Needs(n int) int64 {
	return int64(max(0, s.missing(n)-len(s.free))) * segmentSize
}

// missing is how many segments have to be added for n bytes.
func (s *Store) missing(n int) int {
	end := (s.end + int64(n) + segmentSize - 1) / segmentSize
	return max(0, int(end-s.first)-len(s.segments))
}

// Put copies bytes into the store. It reports false if the system gives no memory.
func (s *Store) Put(data []byte) (String, bool) {
	for missing := s.missing(len(data)); len(s.free) < missing; {
		memory := newMemory(segmentSize)
		if memory == nil {
			return String{}, false
		}
		s.free = append(s.free, memory)
		s.taken += segmentSize
	}
	for s.missing(len(data)) > 0 {
		last := len(s.free) - 1
		s.segments = append(s.segments, segment{memory: s.free[last]})
		s.free = s.free[:last]
	}
	str := String{s, s.end, len(data)}
	s.end += int64(len(data))
	s.used += int64(len(data))
	str.each(func(g *segment, from, to int) {
		data = data[copy(g.memory[from:to], data):]
		g.used += to - from
	})
	return str, true
}

// each calls do with each segment that has a part of the string, and where in it.
func (s String) each(do func(g *segment, from, to int)) {
	for at, left := s.at, s.n; left > 0; {
		from := int(at % segmentSize)
		to := min(segmentSize, from+left)
		do(&s.store.segments[at/segmentSize-s.store.first], from, to)
		at += int64(to - from)
		left -= to - from
	}
}

// AppendTo appends the bytes to dst.
func (s String) AppendTo(dst []byte) []byte {
	s.each(func(g *segment, from, to int) { dst = append(dst, g.memory[from:to]...) })
	return dst
}

// Free takes the bytes out of the store. The string must not be used again.
func (s String) Free() {
	store := s.store
	if store == nil {
		return
	}
	store.used -= int64(s.n)
	s.each(func(g *segment, from, to int) {
		if g.used -= to - from; g.used == 0 && !store.isLast(g) {
			store.free = append(store.free, g.memory)
			g.memory = nil
		}
	})
	store.forget()
}

// isLast reports whether the segment has room for the next string.
func (s *Store) isLast(g *segment) bool {
	return g == &s.segments[len(s.segments)-1] && s.end%segmentSize > 0
}

// forget removes the segments at the start that are free. An empty store begins anew.
func (s *Store) forget() {
	n := slices.IndexFunc(s.segments, func(g segment) bool { return g.memory != nil })
	if n < 0 {
		n = len(s.segments)
	}
	s.segments = slices.Delete(s.segments, 0, n)
	s.first += int64(n)
	if s.used == 0 {
		for _, g := range s.segments { // the last one
			s.free = append(s.free, g.memory)
		}
		s.segments, s.first, s.end = s.segments[:0], 0, 0
	}
}

// Trim gives spare memory back to the system until no more than keep bytes are left, and
// returns how much it was.
func (s *Store) Trim(keep int64) (given int64) {
	before := s.taken
	for len(s.free) > 0 && s.Spare() > keep {
		last := len(s.free) - 1
		freeMemory(s.free[last])
		s.free[last] = nil
		s.free = s.free[:last]
		s.taken -= segmentSize
	}
	return before - s.taken
}
