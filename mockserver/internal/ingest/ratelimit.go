package ingest

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// maxBuckets is how many sources are remembered before those that are idle are
// forgotten: where any write key is taken, anyone can make sources.
const maxBuckets = 1024

// rates bounds how many calls a second each source sends.
type rates struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]bucket
}

// A bucket holds up to one second's calls. It may be overdrawn, so that a batch
// larger than that passes too, and then has to be refilled first: the rate holds
// on average.
type bucket struct {
	limit int       // a second
	full  time.Time // when it is full again
}

func newRates() *rates { return &rates{buckets: map[string]bucket{}} }

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
		} else if wait := r.bucket(b.Source, limit, now).wait(now); wait > 0 {
			return b.Source, wait
		}
	}
	for _, b := range batches {
		if bucket, ok := r.buckets[b.Source]; ok {
			bucket.full = bucket.full.Add(time.Duration(len(b.Calls)) * time.Second / time.Duration(bucket.limit))
			r.buckets[b.Source] = bucket
		}
	}
	return "", 0
}

// bucket returns the bucket of a source, full no earlier than now. The lock is held.
func (r *rates) bucket(source string, limit int, now time.Time) bucket {
	b, ok := r.buckets[source]
	if !ok && len(r.buckets) >= maxBuckets {
		maps.DeleteFunc(r.buckets, func(_ string, b bucket) bool { return !b.full.After(now) })
	}
	if b.limit != limit || b.full.Before(now) {
		b = bucket{limit: limit, full: now}
		r.buckets[source] = b
	}
	return b
}

// wait returns how long until one call may pass, in whole seconds.
func (b bucket) wait(now time.Time) time.Duration {
	wait := b.full.Sub(now) - time.Second + time.Second/time.Duration(b.limit)
	return time.Duration(math.Ceil(max(0, wait.Seconds()))) * time.Second
}
