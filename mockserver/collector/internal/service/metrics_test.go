package service

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestSourceLabelsAreLimited checks that the number of series is limited even if any write key
// creates a source, and that all calls are counted.
func TestSourceLabelsAreLimited(t *testing.T) {
	m := newMeter("test")
	for range 2 {
		for i := range maxLabels + 50 {
			m.Observe(event.Accepted{Batch: event.Batch{Source: fmt.Sprint("s", i), Calls: make([]tracking.Call, 2)}})
		}
	}
	families, err := m.registry.Gather()
	require.NoError(t, err)
	accepted := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "collector_calls_accepted_total" {
			for _, series := range family.GetMetric() {
				accepted[series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
			}
		}
	}
	assert.Len(t, accepted, maxLabels+1)
	assert.EqualValues(t, 4, accepted["s0"])
	assert.EqualValues(t, 200, accepted[otherLabel])
}

// TestEventLabelsAreLimited checks that the number of series is limited even if each reloaded
// plan has different events.
func TestEventLabelsAreLimited(t *testing.T) {
	m := newMeter("test")
	violating := func(event string) tracking.Call {
		return tracking.Call{Violations: []tracking.Violation{{Kind: "wrong type", Event: event}, {Kind: "missing property", Event: event}}}
	}
	for i := range maxLabels + 50 {
		m.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{violating(fmt.Sprint("e", i)), {}}}})
	}
	m.Observe(tracking.Rejection{Source: "s", Code: tracking.CodeNotAsPlanned, Violations: []tracking.Violation{{Kind: "unplanned event"}}})
	families, err := m.registry.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "collector_plan_violations_total" {
			for _, series := range family.GetMetric() {
				counted[series.GetLabel()[0].GetValue()+", "+series.GetLabel()[1].GetValue()] = series.GetCounter().GetValue()
			}
		}
	}
	assert.Len(t, counted, 2*maxLabels+3)
	assert.EqualValues(t, 1, counted["e0, wrong type"])
	assert.EqualValues(t, 50, counted[otherLabel+", wrong type"])
	assert.EqualValues(t, 1, counted[otherLabel+", unplanned event"])
}

// TestDocumentedMetricsExist checks that the metrics in the documentation exist.
func TestDocumentedMetricsExist(t *testing.T) {
	document, err := os.ReadFile(filepath.FromSlash("../../../../docs/operating.md"))
	require.NoError(t, err)
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`collector_[a-z_]+`).FindAllString(string(document), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, string(source), `"`+name+`"`)
	}
}

// TestBatchIsOneAttempt checks that the attempts of a batch's calls count as one request.
func TestBatchIsOneAttempt(t *testing.T) {
	m := newMeter("test")
	for i := range 100 {
		m.Observe(tracking.Attempt{Destination: "d", Attempt: webhook.Attempt{Verdict: webhook.Success, Calls: 100, Shared: i > 0}})
	}
	families, err := m.registry.Gather()
	require.NoError(t, err)
	counts := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			counts[family.GetName()] += series.GetCounter().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	assert.EqualValues(t, 1, counts["collector_attempts_total"])
	assert.EqualValues(t, 1, counts["collector_attempt_duration_seconds"])
}
