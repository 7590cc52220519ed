package wire

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A shape is the sorted keys of a map with their JSON. A program's calls have
// few of them, so they are remembered by where the map sits and how many keys
// it has: a later map that has those keys is written by looking them up,
// without sorting or escaping. A map that has others fails a look-up and is
// written the long way.
type shape struct {
	fields []field
}

type field struct {
	key  string
	text string   // `{"key":` for the first, `,"key":` for the others
	head [32]byte // text, or its start: a copy of known size takes a third of the time
}

func (f *field) append(dst []byte) []byte {
	n := len(dst)
	if len(f.text) > len(f.head) || cap(dst)-n < len(f.head) {
		return append(dst, f.text...)
	}
	*(*[len(f.head)]byte)(dst[n : n+len(f.head)]) = f.head
	return dst[:n+len(f.text)]
}

const (
	// maxShapeKeys is how many keys a map may have to get a shape.
	maxShapeKeys = 32
	// maxShapeText bounds the JSON of a shape's keys, in bytes.
	maxShapeText = 1 << 10
	// shapeSets times shapeWays is how many shapes are remembered: about 1 MB
	// at worst, usually a few KB.
	shapeBits = 7
	shapeSets = 1 << shapeBits
	shapeWays = 4
	// A new shape must come back once within the next few hundred looked at to
	// be remembered, and where the set is full one in replaceOdds replaces
	// another, so that ever new keys cost little and drive nothing out.
	shapeGuests = 512
	replaceOdds = 64
)

// learnOdds is of how many maps without a shape one is looked at. What comes
// often is soon learnt, and what does not costs little. Tests set it to 1.
var learnOdds uint32 = 4

// shapes is shared by all clients of the process. Readers take no lock.
var shapes struct {
	sets   [shapeSets][shapeWays]atomic.Pointer[shape]
	guests [shapeGuests]atomic.Uint32 // hashes of the shapes seen once
	mu     sync.Mutex                 // held to change sets
}

// A PathHash tells where in a call of which sort a value sits: the keys that lead
// there, hashed. It only chooses which shapes to try, so a collision costs time and
// nothing else.
type PathHash uint64

const noPlace PathHash = 0

var placeSeed = maphash.MakeSeed()

func HashPath(path string) PathHash { return PathHash(maphash.String(placeSeed, path)) }

// Of is p in a call of a sort, such as one of the same event.
func (p PathHash) Of(sort string) PathHash {
	if sort == "" {
		return p
	}
	return p ^ PathHash(maphash.String(placeSeed, sort))
}

// child is the PathHash of the i-th value in a container at p.
func (p PathHash) child(i int) PathHash { return (p ^ PathHash(i+1)) * 0x9E3779B97F4A7C15 }

// set returns the shapes to try for a map of n keys at p.
func (p PathHash) set(n int) *[shapeWays]atomic.Pointer[shape] {
	return &shapes.sets[p.child(n)>>(64-shapeBits)]
}

// appendObject appends m as a JSON object with sorted keys; a nil map is null.
func appendObject(dst []byte, m map[string]interface{}, at PathHash, depth int) ([]byte, error) {
	if len(m) == 0 || len(m) > maxShapeKeys || depth > maxDepth {
		return appendSorted(dst, m, at, depth, appendValue)
	}
	var few [8]interface{}
	values := few[:]
	if len(m) > len(few) {
		values = make([]interface{}, maxShapeKeys)
	}
	set := at.set(len(m))
	for i := range set {
		s := set[i].Load()
		if s == nil {
			break
		}
		if len(s.fields) == len(m) && lookUp(m, s.fields, values) {
			return appendFields(dst, s.fields, values, at, depth)
		}
	}
	return appendSorted(dst, m, at, depth, appendValue)
}

// lookUp fills values from m and tells whether m has every key of fields.
func lookUp(m map[string]interface{}, fields []field, values []interface{}) (ok bool) {
	for i := range fields {
		if values[i], ok = m[fields[i].key]; !ok {
			return false
		}
	}
	return true
}

func appendFields(dst []byte, fields []field, values []interface{}, at PathHash, depth int) ([]byte, error) {
	var err error
	for i := range fields {
		f := &fields[i]
		dst = f.append(dst)
		if dst, err = appendValue(dst, values[i], at.child(i), depth); err != nil {
			return dst, below(segment(f.key), err)
		}
		if len(dst) > MaxText {
			return dst, ErrTooLarge
		}
	}
	return append(dst, '}'), nil
}

// sortBuffers holds the keys of maps that have no shape, as *[]string.
var sortBuffers = sync.Pool{New: func() interface{} { return new([]string) }}

// appendSorted is appendObject for a map of any type of values, and for one
// without a shape, which it may learn if there is a PathHash.
func appendSorted[V any](dst []byte, m map[string]V, at PathHash, depth int,
	value func([]byte, V, PathHash, int) ([]byte, error)) ([]byte, error) {
	switch {
	case m == nil:
		return append(dst, "null"...), nil
	case depth > maxDepth:
		return dst, errTooDeep
	case len(m) == 0:
		return append(dst, "{}"...), nil
	}
	buffer := sortBuffers.Get().(*[]string)
	keys := (*buffer)[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if at != noPlace && rand.Uint32N(learnOdds) == 0 {
		learnShape(keys, at)
	}
	lead := byte('{')
	var err error
	for i, k := range keys {
		dst = append(AppendString(append(dst, lead), k), ':')
		if dst, err = value(dst, m[k], at.child(i), depth); err != nil {
			err = below(segment(k), err)
			break
		}
		if len(dst) > MaxText {
			err = ErrTooLarge
			break
		}
		lead = ','
	}
	clear(keys) // the keys are the caller's memory
	if cap(keys) <= 1<<10 {
		*buffer = keys
		sortBuffers.Put(buffer)
	}
	return append(dst, '}'), err
}

// learnShape remembers the sorted keys of a map at p, if they have been seen
// before.
func learnShape(keys []string, p PathHash) {
	if len(keys) > maxShapeKeys {
		return
	}
	hash, size := p, 0
	for _, k := range keys {
		hash = hash.child(int(maphash.String(placeSeed, k)))
		size += len(k) + len(`,"":`)
	}
	guest := &shapes.guests[hash%shapeGuests]
	if tag := uint32(hash >> 32); guest.Swap(tag) != tag || size > maxShapeText {
		return
	}
	shapes.mu.Lock()
	defer shapes.mu.Unlock()
	set := p.set(len(keys))
	for i := range set {
		switch s := set[i].Load(); {
		case s == nil:
			set[i].Store(newShape(keys))
			return
		case s.has(keys): // another goroutine was faster
			return
		}
	}
	if rand.N(replaceOdds) == 0 {
		set[rand.N(shapeWays)].Store(newShape(keys))
	}
}

func (s *shape) has(keys []string) bool {
	return slices.EqualFunc(s.fields, keys, func(f field, k string) bool { return f.key == k })
}

// newShape copies the keys, so that no larger string of the caller's that one
// was cut from stays in memory.
func newShape(keys []string) *shape {
	s := &shape{fields: make([]field, len(keys))}
	lead := byte('{')
	for i, k := range keys {
		text := append(AppendString([]byte{lead}, k), ':')
		s.fields[i] = field{key: strings.Clone(k), text: string(text)}
		copy(s.fields[i].head[:], text)
		lead = ','
	}
	return s
}
