package telemetry

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A producer reads the metrics that Prometheus is told, each time they are to be sent: there
// is one account of what happens.
type producer struct {
	gather prometheus.Gatherer
	began  time.Time
}

// others are the metrics of the process, by their names in the semantic conventions. What the
// library for Prometheus has beside is not sent.
var others = map[string][2]string{
	"go_goroutines":                 {"go.goroutine.count", "{goroutine}"},
	"process_cpu_seconds_total":     {"process.cpu.time", "s"},
	"process_resident_memory_bytes": {"process.memory.usage", "By"},
	"process_open_fds":              {"process.unix.file_descriptor.count", "{file_descriptor}"},
}

// units are what names end in that say a unit.
var units = []struct{ suffix, unit string }{{"_seconds", "s"}, {"_bytes", "By"}}

// nameOf returns the name and the unit of a metric of Prometheus in OpenTelemetry: with dots
// for its underscores, and without what says that it is a counter, and its unit. What makes
// metrics for Prometheus of it again gives it the name that it had. It is not ok for those
// that are not sent.
func nameOf(name string) (otel, unit string, ok bool) {
	if other, ok := others[name]; ok {
		return other[0], other[1], true
	}
	if !strings.HasPrefix(name, "collector_") {
		return "", "", false
	}
	name = strings.TrimSuffix(name, "_total")
	for _, u := range units {
		if short, found := strings.CutSuffix(name, u.suffix); found {
			name, unit = short, u.unit
		}
	}
	return strings.ReplaceAll(name, "_", "."), unit, true
}

// Produce implements metric.Producer.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	families, err := p.gather.Gather() // what could be read comes beside an error
	now := time.Now()
	var all []metricdata.Metrics
	for _, f := range families {
		name, unit, ok := nameOf(f.GetName())
		if !ok {
			continue
		}
		if data := p.dataOf(f, now); data != nil {
			all = append(all, metricdata.Metrics{Name: name, Description: f.GetHelp(), Unit: unit, Data: data})
		}
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: all}}, err
}

// dataOf returns the values of a family; nil for a kind that the collector has none of.
func (p *producer) dataOf(f *dto.MetricFamily, now time.Time) metricdata.Aggregation {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		sum := metricdata.Sum[float64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		for _, m := range f.GetMetric() {
			sum.DataPoints = append(sum.DataPoints, metricdata.DataPoint[float64]{
				Attributes: attributesOf(m), StartTime: p.began, Time: now, Value: m.GetCounter().GetValue(),
			})
		}
		return sum
	case dto.MetricType_GAUGE:
		var gauge metricdata.Gauge[float64]
		for _, m := range f.GetMetric() {
			gauge.DataPoints = append(gauge.DataPoints, metricdata.DataPoint[float64]{Attributes: attributesOf(m), Time: now, Value: m.GetGauge().GetValue()})
		}
		return gauge
	case dto.MetricType_HISTOGRAM:
		histogram := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, m := range f.GetMetric() {
			point := histogramOf(m.GetHistogram())
			point.Attributes, point.StartTime, point.Time = attributesOf(m), p.began, now
			histogram.DataPoints = append(histogram.DataPoints, point)
		}
		return histogram
	}
	return nil
}

// histogramOf returns a histogram whose buckets do not have what is in those before.
func histogramOf(h *dto.Histogram) metricdata.HistogramDataPoint[float64] {
	point := metricdata.HistogramDataPoint[float64]{Count: h.GetSampleCount(), Sum: h.GetSampleSum()}
	before := uint64(0)
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		point.Bounds = append(point.Bounds, b.GetUpperBound())
		point.BucketCounts = append(point.BucketCounts, b.GetCumulativeCount()-before)
		before = b.GetCumulativeCount()
	}
	point.BucketCounts = append(point.BucketCounts, point.Count-before)
	return point
}

func attributesOf(m *dto.Metric) attribute.Set {
	all := make([]attribute.KeyValue, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		all = append(all, attribute.String(l.GetName(), l.GetValue()))
	}
	return attribute.NewSet(all...)
}
