package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A producer reads the Prometheus metrics at each export and renames them. Both systems therefore
// report the same numbers.
type producer struct{ prometheus metric.Producer }

// processMetrics maps the names of exported process metrics to their names and units in the
// semantic conventions.
var processMetrics = map[string][2]string{
	"go_goroutines":                 {"go.goroutine.count", "{goroutine}"},
	"process_cpu_seconds_total":     {"process.cpu.time", "s"},
	"process_resident_memory_bytes": {"process.memory.usage", "By"},
	"process_open_fds":              {"process.unix.file_descriptor.count", "{file_descriptor}"},
}

// unitSuffixes maps suffixes of Prometheus names to units.
var unitSuffixes = []struct{ suffix, unit string }{{"_seconds", "s"}, {"_bytes", "By"}}

// nameOf returns the OpenTelemetry name and unit of a Prometheus metric. It replaces underscores
// by dots, and removes the suffixes for counters and units. The standard translation to Prometheus
// restores the original name of a collector metric. nameOf returns false if the metric is not
// exported.
func nameOf(name string) (otel, unit string, ok bool) {
	if process, ok := processMetrics[name]; ok {
		return process[0], process[1], true
	}
	if !strings.HasPrefix(name, "collector_") {
		return "", "", false
	}
	name = strings.TrimSuffix(name, "_total")
	for _, u := range unitSuffixes {
		if short, found := strings.CutSuffix(name, u.suffix); found {
			name, unit = short, u.unit
		}
	}
	return strings.ReplaceAll(name, "_", "."), unit, true
}

// Produce implements metric.Producer.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.prometheus.Produce(ctx)
	var renamed []metricdata.Metrics
	for _, s := range scopes {
		for _, m := range s.Metrics {
			var ok bool
			if m.Name, m.Unit, ok = nameOf(m.Name); ok {
				renamed = append(renamed, m)
			}
		}
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: renamed}}, err
}
