package admin

import "sync"

// maxResets is how many sources may have been reset by themselves.
const maxResets = 10_000

// resets remember up to where tests are shown nothing any more. Items are counted by their
// Order.
type resets struct {
	mu      sync.Mutex       // guards what follows
	all     int64            // of any source
	sources map[string]int64 // of a source
}

// of returns the last item of a source that is not shown.
func (rs *resets) of(source string) int64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return max(rs.all, rs.sources[source])
}

// set hides what came up to an item, of a source or, where it is empty, of all. It reports
// whether there was room to remember that.
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
