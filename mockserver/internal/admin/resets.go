package admin

import "sync"

// maxResets limits the number of sources that can be reset separately.
const maxResets = 10_000

// resets stores the order of the last hidden item, for all sources and for single sources.
type resets struct {
	mu      sync.Mutex       // guards the fields below
	all     int64            // applies to every source
	sources map[string]int64 // keyed by source
}

// of returns the order of the last hidden item of a source.
func (rs *resets) of(source string) int64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return max(rs.all, rs.sources[source])
}

// set hides the items of a source up to an order. An empty source means all sources. It
// returns false if the limit of maxResets is reached.
func (rs *resets) set(source string, order int64) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if source == "" {
		rs.all, rs.sources = order, nil
		return true
	}
	if _, known := rs.sources[source]; !known && len(rs.sources) == maxResets {
		return false
	}
	if rs.sources == nil {
		rs.sources = map[string]int64{}
	}
	rs.sources[source] = order
	return true
}
