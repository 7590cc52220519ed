package ingest

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// A keySet is a set of keys. It takes about 12 bytes per key, because it stores only half of each
// key: the other half selects the bucket. A key that was not added is therefore found with a
// probability of about one in 10^18.
type keySet struct {
	buckets [][]uint64 // nil if no key was added
	size    int
}

// bucketKeys is the average number of keys in a bucket of a full set. Most buckets of a full set
// then fit into the 32 elements that append allocates.
const bucketKeys = 24

// add adds a key. full is the maximum number of keys.
func (s *keySet) add(k event.Key, full int) {
	if s.buckets == nil {
		s.buckets = make([][]uint64, full/bucketKeys+1)
	}
	b, half := s.bucket(k)
	if !slices.Contains(*b, half) {
		*b = append(*b, half)
		s.size++
	}
}

// has reports whether a key was added.
func (s *keySet) has(k event.Key) bool {
	if s.buckets == nil {
		return false
	}
	b, half := s.bucket(k)
	return slices.Contains(*b, half)
}

// remove removes a key.
func (s *keySet) remove(k event.Key) {
	if s.buckets == nil {
		return
	}
	b, half := s.bucket(k)
	if i := slices.Index(*b, half); i >= 0 {
		*b = slices.Delete(*b, i, i+1)
		s.size--
	}
}

// bucket returns the bucket of a key, and the half of the key that the bucket stores.
func (s *keySet) bucket(k event.Key) (b *[]uint64, half uint64) {
	i, _ := bits.Mul64(binary.LittleEndian.Uint64(k[:8]), uint64(len(s.buckets)))
	return &s.buckets[i], binary.LittleEndian.Uint64(k[8:])
}
