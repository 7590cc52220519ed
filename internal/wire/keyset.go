package wire

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A keySet is the keys of a map, sorted, or of attributes, with their JSON. The calls of a program
// have few key sets, so they are remembered by the position of the map in the
// call and the number of its keys. A later map with the same keys is written by
// looking them up, without sorting or escaping. A map with other keys fails a
// look-up and is sorted.
type keySet struct {
	fields []field
}

// field is one key of a keySet.
type field struct {
	key  string
	text string   // `{"key":` for the first, `,"key":` for the others
	head [32]byte // text, or its start: a copy of constant size takes a third of the time
}

// append appends the text of f.
func (f *field) append(dst []byte) []byte {
	n := len(dst)
	if len(f.text) > len(f.head) || cap(dst)-n < len(f.head) {
		return append(dst, f.text...)
	}
	*(*[len(f.head)]byte)(dst[n : n+len(f.head)]) = f.head
	return dst[:n+len(f.text)]
}

const (
	// maxKeys is the largest number of keys in a key set.
	maxKeys = 32
	// maxKeysText bounds the JSON of the keys of a key set, in bytes.
	maxKeysText = 1 << 10
	// At most keySetBuckets times keySetWays key sets are remembered: about 1 MB
	// at worst, usually a few KB.
	keySetBits    = 7
	keySetBuckets = 1 << keySetBits
	keySetWays    = 4
	// A key set is remembered when it is seen twice within a few hundred
	// candidates. In a full bucket, one in replaceOdds replaces another. So keys
	// that change with every call cost little and displace nothing.
	keySetCandidates = 512
	replaceOdds      = 64
)

// rememberOdds: one of so many maps without a key set becomes a candidate. Key
// sets that are frequent are soon remembered; rare ones cost little. Tests set it
// to 1.
var rememberOdds uint32 = 4

// A keySetTable has key sets by the hash of a path and of a number of keys.
type keySetTable [keySetBuckets][keySetWays]atomic.Pointer[keySet]

// keySets is shared by all clients of the process. Readers take no lock.
var keySets struct {
	ofMaps     keySetTable                     // sorted
	ofAttrs    keySetTable                     // as attributes come
	candidates [keySetCandidates]atomic.Uint32 // hashes of the key sets seen once
	mu         sync.Mutex                      // guards writes to the tables
}

// A PathHash is a hash of the position of a value in a call: of the keys that
// lead to it, and of the event or name of the call. It selects the key sets that
// are tried, so a collision costs time and nothing else.
type PathHash uint64

const noPath PathHash = 0

var pathSeed = maphash.MakeSeed()

// HashPath returns the hash of a path of one key.
func HashPath(path string) PathHash { return PathHash(maphash.String(pathSeed, path)) }

// In returns the hash of p in calls of the given name, such as those of one
// event.
func (p PathHash) In(name string) PathHash {
	if name == "" {
		return p
	}
	return p ^ PathHash(maphash.String(pathSeed, name))
}

// child returns the hash of the i-th value in a container at p.
func (p PathHash) child(i int) PathHash { return (p ^ PathHash(i+1)) * 0x9E3779B97F4A7C15 }

// bucket returns the key sets to try for n keys at p.
func (t *keySetTable) bucket(p PathHash, n int) *[keySetWays]atomic.Pointer[keySet] {
	return &t[p.child(n)>>(64-keySetBits)]
}

// lookUp fills values from m and reports whether m has every key of fields.
func lookUp(m map[string]interface{}, fields []field, values []interface{}) (ok bool) {
	for i := range fields {
		if values[i], ok = m[fields[i].key]; !ok {
			return false
		}
	}
	return true
}

// remember stores the keys of a map or of attributes at p as a key set, if they have been a
// candidate before.
func (t *keySetTable) remember(keys []string, p PathHash) {
	if len(keys) > maxKeys {
		return
	}
	hash, size := p, 0
	for _, k := range keys {
		hash = hash.child(int(maphash.String(pathSeed, k)))
		size += len(k) + len(`,"":`)
	}
	candidate := &keySets.candidates[hash%keySetCandidates]
	if tag := uint32(hash >> 32); candidate.Swap(tag) != tag || size > maxKeysText {
		return
	}
	keySets.mu.Lock()
	defer keySets.mu.Unlock()
	bucket := t.bucket(p, len(keys))
	for i := range bucket {
		switch s := bucket[i].Load(); {
		case s == nil:
			bucket[i].Store(newKeySet(keys))
			return
		case s.has(keys): // another goroutine stored it
			return
		}
	}
	if rand.N(replaceOdds) == 0 {
		bucket[rand.N(keySetWays)].Store(newKeySet(keys))
	}
}

// has reports whether s consists of keys.
func (s *keySet) has(keys []string) bool {
	return slices.EqualFunc(s.fields, keys, func(f field, k string) bool { return f.key == k })
}

// newKeySet returns a key set with copies of keys: a key may be a part of a larger
// string of the caller's, which must not stay in memory.
func newKeySet(keys []string) *keySet {
	s := &keySet{fields: make([]field, len(keys))}
	lead := byte('{')
	for i, k := range keys {
		text := append(AppendString([]byte{lead}, k), ':')
		s.fields[i] = field{key: strings.Clone(k), text: string(text)}
		copy(s.fields[i].head[:], text)
		lead = ','
	}
	return s
}
