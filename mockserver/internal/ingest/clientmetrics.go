package ingest

import (
	"maps"
	"sync"
)

const (
	// manyMetrics is how many names of metrics are kept apart; anyone can send more.
	manyMetrics = 256
	// otherMetrics counts those beyond.
	otherMetrics = "other"
	// maxMetricName bounds a name, in bytes.
	maxMetricName = 128
)

// clientMetrics are what the browser's library reports of itself.
type clientMetrics struct {
	mu     sync.Mutex // guards counts
	counts map[string]float64
}

func (m *clientMetrics) add(name string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]float64{}
	}
	if _, known := m.counts[name]; !known && (len(m.counts) >= manyMetrics || len(name) > maxMetricName) {
		name = otherMetrics
	}
	m.counts[name] += value
}

// Clone returns the counters by name, as they are now.
func (m *clientMetrics) Clone() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}
