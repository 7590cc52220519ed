package ingest

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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

// countMetrics takes the metrics of a library. They belong to no source: the
// libraries send them without a write key.
func (h *Handler) countMetrics(r *http.Request) *requestError {
	body := requestBodies.Get().(*requestBody)
	defer body.release()
	if refused := body.read(r, h.config.Limits.BodyBytes); refused != nil {
		return refused
	}
	var report struct {
		Series []struct {
			Metric string  `json:"metric"`
			Value  float64 `json:"value"`
		} `json:"series"`
	}
	if err := json.Unmarshal(body.bytes, &report); err != nil {
		return refuse(http.StatusBadRequest, tracking.CodeInvalidJSON, "metrics are sent as {\"series\":[{\"metric\":…,\"value\":…}]}: %v", err)
	}
	for _, s := range report.Series {
		h.Metrics.add(s.Metric, s.Value)
	}
	return nil
}
