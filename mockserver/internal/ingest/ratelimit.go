package ingest

import (
	"math"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// manyBuckets is how many sources are remembered before those that are idle are
// forgotten: where any write key is taken, anyone can make sources.
const manyBuckets = 1024

// rates bounds how many calls a second each source sends.
type rates struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]*bucket
}

// A bucket holds up to one second's calls. It may be overdrawn, so that a batch
// larger than that passes too, and then has to be refilled first: the rate holds
// on average.
type bucket struct {
	tokens float64
	limit  float64 // a second
	filled time.Time
}

func newRates() *rates { return &rates{buckets: map[string]*bucket{}} }

// admit takes the batches of one request, or none of them. If a source is over
// its limit, it returns its name and how long to wait. A limit of 0 is none.
func (r *rates) admit(batches []event.Batch, limitOf func(source string) int) (source string, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, b := range batches {
		limit := limitOf(b.Source)
		if limit <= 0 {
			delete(r.buckets, b.Source) // it may have had a limit before
		} else if wait := r.fill(b.Source, float64(limit), now).wait(); wait > 0 {
			return b.Source, wait
		}
	}
	for _, b := range batches {
		if bucket := r.buckets[b.Source]; bucket != nil {
			bucket.tokens -= float64(len(b.Calls))
		}
	}
	return "", 0
}

// fill brings the bucket of a source to now. The lock is held.
func (r *rates) fill(source string, limit float64, now time.Time) *bucket {
	b := r.buckets[source]
	if b == nil || b.limit != limit {
		if len(r.buckets) >= manyBuckets {
			r.forgetIdle(now)
		}
		b = &bucket{tokens: limit, limit: limit, filled: now}
		r.buckets[source] = b
	}
	b.refill(now)
	return b
}

func (r *rates) forgetIdle(now time.Time) {
	for source, b := range r.buckets {
		if b.refill(now); b.tokens == b.limit {
			delete(r.buckets, source)
		}
	}
}

func (b *bucket) refill(now time.Time) {
	if passed := now.Sub(b.filled); passed > 0 {
		b.tokens = min(b.limit, b.tokens+passed.Seconds()*b.limit)
		b.filled = now
	}
}

// wait returns how long until one call may pass, in whole seconds.
func (b *bucket) wait() time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1-b.tokens)/b.limit)) * time.Second
}
