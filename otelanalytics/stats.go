package otelanalytics

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-45eadc4a/analytics-go"
)

// A StatsSource provides the counts for Observe. *analytics.Client implements it.
type StatsSource interface {
	Stats() analytics.Stats
}

// Observe reports a client's counts at each collection of the meter provider. The package
// documentation lists the metrics. Observe opens the client's spool, if it has one, as Stats
// does.
//
// Observe keeps the client in memory. It continues after the client is closed, so that the
// final counts are collected. Programs that create many clients must call Unregister.
//
// The error comes from the meter provider.
func Observe(client StatsSource, opts ...Option) (metric.Registration, error) {
	o := newOptions(opts)
	m := o.meter()
	var values []value
	var instruments []metric.Observable
	var errs []error
	for _, g := range gauges {
		instrument, err := g.instrument(m)
		errs = append(errs, err)
		instruments = append(instruments, instrument)
		for _, v := range g.values {
			attributes := slices.Clone(o.attributes)
			if v.errorType != "" {
				attributes = append(attributes, attribute.String("error.type", v.errorType))
			}
			values = append(values, value{instrument, metric.WithAttributeSet(attribute.NewSet(attributes...)), v.get})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := client.Stats()
		for _, v := range values {
			to.ObserveInt64(v.instrument, v.get(&s), v.attributes)
		}
		return nil
	}, instruments...)
}

// value is one observed number.
type value struct {
	instrument metric.Int64Observable
	attributes metric.MeasurementOption
	get        func(*analytics.Stats) int64
}

// gauge is a metric whose values come from Stats.
type gauge struct {
	name, unit, description string
	falls                   bool // the value can decrease
	values                  []reading
}

// reading is one value of a gauge, with an optional error.type.
type reading struct {
	errorType string
	get       func(*analytics.Stats) int64
}

func (g *gauge) instrument(m metric.Meter) (metric.Int64Observable, error) {
	if g.falls {
		return m.Int64ObservableUpDownCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
	}
	return m.Int64ObservableCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
}

// singleReading returns the reading of a gauge that has a single value.
func singleReading(get func(*analytics.Stats) int64) []reading { return []reading{{"", get}} }

// gauges contains a metric for each field of Stats.
var gauges = []gauge{
	{
		name: "analytics.client.call.accepted", unit: "{call}",
		description: "Accepted calls, including those recovered from the spool.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Accepted }),
	}, {
		name: "analytics.client.call.delivered", unit: "{call}",
		description: "Accepted calls that were delivered to the collector.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Delivered }),
	}, {
		name: "analytics.client.call.dropped", unit: "{call}",
		description: "Accepted calls that were dropped, by reason.",
		values: []reading{
			{string(analytics.DropRefused), func(s *analytics.Stats) int64 { return s.Dropped.Refused }},
			{string(analytics.DropAttempts), func(s *analytics.Stats) int64 { return s.Dropped.Attempts }},
			{string(analytics.DropExpired), func(s *analytics.Stats) int64 { return s.Dropped.Expired }},
			{string(analytics.DropOverflow), func(s *analytics.Stats) int64 { return s.Dropped.Overflow }},
			{string(analytics.DropShutdown), func(s *analytics.Stats) int64 { return s.Dropped.Shutdown }},
			{string(analytics.DropDamaged), func(s *analytics.Stats) int64 { return s.Dropped.Damaged }},
		},
	}, {
		name: "analytics.client.call.rejected", unit: "{call}",
		description: "Calls that were not accepted, by error type.",
		values: []reading{
			{"invalid", func(s *analytics.Stats) int64 { return s.Rejected.Invalid }},
			{"too_large", func(s *analytics.Stats) int64 { return s.Rejected.TooLarge }},
			{"queue_full", func(s *analytics.Stats) int64 { return s.Rejected.QueueFull }},
			{"spool", func(s *analytics.Stats) int64 { return s.Rejected.Spool }},
			{"closed", func(s *analytics.Stats) int64 { return s.Rejected.Closed }},
		},
	}, {
		name: "analytics.client.call.recovered", unit: "{call}",
		description: "Accepted calls that a previous process left in the spool.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Recovered }),
	}, {
		name: "analytics.client.call.pending", unit: "{call}", falls: true,
		description: "Accepted calls that are queued, in flight or waiting for a retry.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Pending }),
	}, {
		name: "analytics.client.batch.made", unit: "{batch}",
		description: "Batches created, including the parts of split batches.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Batches }),
	}, {
		name: "analytics.client.request.made", unit: "{request}",
		description: "Completed requests.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Attempts }),
	}, {
		name: "analytics.client.memory.usage", unit: "By", falls: true,
		description: "Memory that counts toward Config.MaxBytes.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.Bytes }),
	}, {
		name: "analytics.client.spool.usage", unit: "By", falls: true,
		description: "Disk space that counts toward Config.SpoolMaxBytes.",
		values:      singleReading(func(s *analytics.Stats) int64 { return s.SpoolBytes }),
	},
}
