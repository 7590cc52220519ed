package wire

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// keySet contains the keys of a map or of attributes with their JSON. The calls of a program
// have few different key sets, so they are cached by the position of the map in the call and
// the number of keys. A later map with the same keys is encoded without sorting or escaping
// them.
type keySet struct {
	fields []field
}

// field is a key of a keySet.
type field struct {
	key  string
	text string   // `{"key":` for the first key, `,"key":` for others
	head [32]byte // the start of text: copying a constant size takes a third of the time
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
	// maxKeys is the maximum number of keys in a key set.
	maxKeys = 32
	// maxKeysText limits the JSON of the keys of a key set, in bytes.
	maxKeysText = 1 << 10
	// At most keySetBuckets times keySetWays key sets are cached: usually a few KB, and at
	// most about 1 MB.
	keySetBits    = 7
	keySetBuckets = 1 << keySetBits
	keySetWays    = 4
	// A key set is cached when it occurs twice within a few hundred candidates. In a full
	// bucket, one in replaceOdds candidates replaces another. So keys that change with every
	// call are cheap and do not displace others.
	keySetCandidates = 512
	replaceOdds      = 64
)

// cacheOdds is the inverse probability that a map without a cached key set becomes a candidate.
// Frequent key sets are cached soon. Tests set it to 1.
var cacheOdds uint32 = 4

// keySetTable contains key sets by a hash of their path and number of keys.
type keySetTable [keySetBuckets][keySetWays]atomic.Pointer[keySet]

// keySets is the cache of the process. Reading it takes no lock.
var keySets struct {
	ofMaps     keySetTable                     // sorted
	ofAttrs    keySetTable                     // in the order of the attributes
	candidates [keySetCandidates]atomic.Uint32 // hashes of key sets that occurred once
	mu         sync.Mutex                      // guards writes to the tables
}

// PathHash is a hash of the position of a value in a call: of its path, and of the event or
// name of the call. It selects the key sets to try. A collision only costs time.
type PathHash uint64

const noPath PathHash = 0

var pathSeed = maphash.MakeSeed()

// HashPath returns the hash of a path with one key.
func HashPath(path string) PathHash { return PathHash(maphash.String(pathSeed, path)) }

// In returns the hash of p in calls with the given event or name.
func (p PathHash) In(name string) PathHash {
	if name == "" {
		return p
	}
	return p ^ PathHash(maphash.String(pathSeed, name))
}

// child returns the hash of the i-th value in the container p.
func (p PathHash) child(i int) PathHash { return (p ^ PathHash(i+1)) * 0x9E3779B97F4A7C15 }

// bucket returns the key sets to try for n keys at p.
func (t *keySetTable) bucket(p PathHash, n int) *[keySetWays]atomic.Pointer[keySet] {
	return &t[p.child(n)>>(64-keySetBits)]
}

// lookUp sets values from m, and reports whether m contains all keys of fields.
func lookUp(m map[string]interface{}, fields []field, values []interface{}) (ok bool) {
	for i := range fields {
		if values[i], ok = m[fields[i].key]; !ok {
			return false
		}
	}
	return true
}

// add caches the keys of a map or of attributes at p, if they were a candidate before.
func (t *keySetTable) add(keys []string, p PathHash) {
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
		case s.has(keys): // another goroutine added it
			return
		}
	}
	if rand.N(replaceOdds) == 0 {
		bucket[rand.N(keySetWays)].Store(newKeySet(keys))
	}
}

// has reports whether s has exactly the given keys.
func (s *keySet) has(keys []string) bool {
	return slices.EqualFunc(s.fields, keys, func(f field, k string) bool { return f.key == k })
}

// newKeySet returns a key set with copies of keys. A key may be part of a larger string of the
// caller, which must not stay in memory.
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
