package ingest

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// maxBuckets is the number of buckets above which unused buckets are removed. It is necessary
// because anyone can create sources if any write key is accepted.
const maxBuckets = 1024

// rates limits the calls per second of each source.
type rates struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]bucket
}

// A bucket contains up to one second's calls. A larger batch may overdraw the bucket, which must
// then be refilled before the next batch. The limit therefore applies to the average rate.
type bucket struct {
	limit int       // calls per second
	full  time.Time // time when the bucket will be full
}

func newRates() *rates { return &rates{buckets: map[string]bucket{}} }

// admit admits or rejects all batches of a request. If a source exceeds its limit, admit returns
// the source and the time to wait. A limit of 0 means no limit.
func (r *rates) admit(batches []event.Batch, limitOf func(source string) int) (source string, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, b := range batches {
		limit := limitOf(b.Source)
		if limit <= 0 {
			delete(r.buckets, b.Source) // left over if the source had a limit before
		} else if wait := r.bucket(b.Source, limit, now).wait(now); wait > 0 {
			return b.Source, wait
		}
	}
	for _, b := range batches {
		if limit := limitOf(b.Source); limit > 0 {
			bucket := r.bucket(b.Source, limit, now)
			bucket.full = bucket.full.Add(time.Duration(len(b.Calls)) * time.Second / time.Duration(limit))
			r.buckets[b.Source] = bucket
		}
	}
	if len(r.buckets) > maxBuckets {
		maps.DeleteFunc(r.buckets, func(_ string, b bucket) bool { return !b.full.After(now) })
	}
	return "", 0
}

// bucket returns the bucket of a source, or a new bucket, which the caller must store. The bucket's time
// full is not before now. The lock must be held.
func (r *rates) bucket(source string, limit int, now time.Time) bucket {
	b := r.buckets[source]
	if b.limit != limit || b.full.Before(now) {
		b = bucket{limit: limit, full: now}
	}
	return b
}

// wait returns the time until one call is admitted, rounded up to seconds.
func (b bucket) wait(now time.Time) time.Duration {
	wait := b.full.Sub(now) - time.Second + time.Second/time.Duration(b.limit)
	return time.Duration(math.Ceil(max(0, wait.Seconds()))) * time.Second
}
