package otelanalytics

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-45eadc4a/analytics-go"
)

// StatsSource is what Observe reports: an *analytics.Client.
type StatsSource interface {
	Stats() analytics.Stats
}

// Observe reports the counts of a client, as the package comment lists them, whenever a
// reader of the meter provider collects. It goes on after the client is closed, so that the
// last counts are not missed, and keeps the client in memory: a program that makes clients
// time and again ends it by Unregister. Like Stats, it opens the Spool of the client, if
// it has one.
//
// The error is that of the meter provider.
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

// value is one number that is observed.
type value struct {
	instrument metric.Int64Observable
	attributes metric.MeasurementOption
	get        func(*analytics.Stats) int64
}

// gauge is a metric that is read from Stats.
type gauge struct {
	name, unit, description string
	falls                   bool // the number can fall
	values                  []reading
}

// reading is a number of a gauge: the only one, or that of an error.type.
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

// only is the readings of a gauge that has one.
func only(get func(*analytics.Stats) int64) []reading { return []reading{{"", get}} }

// gauges are the metrics of a client. Together they have every number of Stats.
var gauges = []gauge{
	{
		name: "analytics.client.call.accepted", unit: "{call}",
		description: "Calls that were accepted, those of an earlier process in the spool included.",
		values:      only(func(s *analytics.Stats) int64 { return s.Accepted }),
	}, {
		name: "analytics.client.call.delivered", unit: "{call}",
		description: "Accepted calls that the collector has taken.",
		values:      only(func(s *analytics.Stats) int64 { return s.Delivered }),
	}, {
		name: "analytics.client.call.dropped", unit: "{call}",
		description: "Accepted calls that were given up, by reason.",
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
		description: "Calls that returned an error and were not accepted, by its kind.",
		values: []reading{
			{"invalid", func(s *analytics.Stats) int64 { return s.Rejected.Invalid }},
			{"too_large", func(s *analytics.Stats) int64 { return s.Rejected.TooLarge }},
			{"queue_full", func(s *analytics.Stats) int64 { return s.Rejected.QueueFull }},
			{"spool", func(s *analytics.Stats) int64 { return s.Rejected.Spool }},
			{"closed", func(s *analytics.Stats) int64 { return s.Rejected.Closed }},
		},
	}, {
		name: "analytics.client.call.recovered", unit: "{call}",
		description: "Accepted calls that an earlier process left in the spool.",
		values:      only(func(s *analytics.Stats) int64 { return s.Recovered }),
	}, {
		name: "analytics.client.call.pending", unit: "{call}", falls: true,
		description: "Accepted calls that are queued, being sent or to be sent again.",
		values:      only(func(s *analytics.Stats) int64 { return s.Pending }),
	}, {
		name: "analytics.client.batch.made", unit: "{batch}",
		description: "Batches that were made, parts of refused ones included.",
		values:      only(func(s *analytics.Stats) int64 { return s.Batches }),
	}, {
		name: "analytics.client.request.made", unit: "{request}",
		description: "Requests that were made and have ended.",
		values:      only(func(s *analytics.Stats) int64 { return s.Attempts }),
	}, {
		name: "analytics.client.memory.usage", unit: "By", falls: true,
		description: "Memory that counts towards Config.MaxBytes.",
		values:      only(func(s *analytics.Stats) int64 { return s.Bytes }),
	}, {
		name: "analytics.client.spool.usage", unit: "By", falls: true,
		description: "Space on the disk that counts towards Config.SpoolMaxBytes.",
		values:      only(func(s *analytics.Stats) int64 { return s.SpoolBytes }),
	},
}
