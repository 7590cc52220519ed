package wire

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// keySet contains the keys of a map or of attributes, together with their JSON. The calls of a
// program have few different sets of keys, so these are cached. A map with cached keys is encoded
// without sorting or escaping them. The cache is indexed by the position of the map in the call
// and by the number of keys.
type keySet struct {
	fields []field
}

// field is a key of a keySet.
type field struct {
	key  string
	text string   // `{"key":` for the first key, `,"key":` for others
	head [32]byte // the first bytes of text; copying a constant number of bytes is three times as fast
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
	// The cache contains at most keySetBuckets times keySetWays key sets. It usually uses a
	// few KB, and at most about 1 MB.
	keySetBits    = 7
	keySetBuckets = 1 << keySetBits
	keySetWays    = 4
	// A key set is cached when it occurs twice within a few hundred candidates. If its bucket
	// is full, it replaces another key set with a probability of 1/replaceOdds. So keys that
	// change with every call cost little and rarely displace others.
	keySetCandidates = 512
	replaceOdds      = 64
)

// 1/cacheOdds is the probability that a map with unknown keys becomes a candidate. Frequent key
// sets are still cached soon. Tests set it to 1.
var cacheOdds uint32 = 4

// keySetTable contains key sets, indexed by a hash of their position and number of keys.
type keySetTable [keySetBuckets][keySetWays]atomic.Pointer[keySet]

// keySets is the cache of key sets for the whole process. Reading it does not take a lock.
var keySets struct {
	ofMaps     keySetTable                     // keys of maps, sorted
	ofAttrs    keySetTable                     // keys of attributes, in their order
	candidates [keySetCandidates]atomic.Uint32 // hashes of key sets that have occurred once
	mu         sync.Mutex                      // guards writes to the tables
}

// PathHash is a hash of the position of a value in a call. It depends on the path and on the event
// or name of the call. A collision only costs time.
type PathHash uint64

const noPath PathHash = 0

var pathSeed = maphash.MakeSeed()

// HashPath returns the hash of a path that consists of one key.
func HashPath(path string) PathHash { return PathHash(maphash.String(pathSeed, path)) }

// In returns a hash that combines p with the event or name of a call.
func (p PathHash) In(name string) PathHash {
	if name == "" {
		return p
	}
	return p ^ PathHash(maphash.String(pathSeed, name))
}

// child returns the hash for the i-th value in the object or array at p.
func (p PathHash) child(i int) PathHash { return (p ^ PathHash(i+1)) * 0x9E3779B97F4A7C15 }

// bucket returns the cached key sets for maps at p with n keys.
func (t *keySetTable) bucket(p PathHash, n int) *[keySetWays]atomic.Pointer[keySet] {
	return &t[p.child(n)>>(64-keySetBits)]
}

// lookUp copies the values for fields from m to values. It reports whether m has all of these
// keys.
func lookUp(m map[string]interface{}, fields []field, values []interface{}) (ok bool) {
	for i := range fields {
		if values[i], ok = m[fields[i].key]; !ok {
			return false
		}
	}
	return true
}

// add adds a set of keys at position p to the cache, if this key set has been a candidate before.
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
		case s.has(keys): // another goroutine has added the same keys
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

// newKeySet returns a key set with copies of keys. Without copies, the cache could keep larger
// strings of the caller in memory.
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
