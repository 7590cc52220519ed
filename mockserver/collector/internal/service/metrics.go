package service

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// scrapeTimeout limits the requests to the queue during a scrape.
const scrapeTimeout = 5 * time.Second

// A meter exposes metrics to Prometheus. It is an event.Observer that counts events. It reads all other
// values from the service at each scrape.
type meter struct {
	registry *prometheus.Registry
	watched  atomic.Pointer[Service] // nil until the service is started

	mu              sync.Mutex // guards the fields below
	sources, events map[string]bool

	accepted, repeated         *prometheus.CounterVec
	retried                    *prometheus.CounterVec
	rejected, refused          *prometheus.CounterVec
	violations                 *prometheus.CounterVec
	attempts, deliveries       *prometheus.CounterVec
	filtered, alerts           *prometheus.CounterVec
	telemetry                  *prometheus.CounterVec
	attemptSeconds, lagSeconds *prometheus.HistogramVec
}

// maxLabels limits the number of values of the labels source and event. Further values are
// reported as otherLabel. A limit is necessary, because senders can create sources if any write
// key is accepted, and reloaded plans can contain new events.
const (
	maxLabels  = 1000
	otherLabel = "(other)"
)

// newMeter returns the metrics of a collector with the given version.
func newMeter(version string) *meter {
	m := &meter{registry: prometheus.NewRegistry(), sources: map[string]bool{}, events: map[string]bool{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"destination"})
		m.registry.MustRegister(h)
		return h
	}
	m.accepted = counter("collector_calls_accepted_total", "Calls stored.", "source")
	m.repeated = counter("collector_calls_repeated_total", "Duplicate calls, which are not stored again.", "source")
	m.retried = counter("collector_calls_retried_total", "Stored and duplicate calls in requests with an X-Retry-Count above 0.", "source")
	m.rejected = counter("collector_calls_rejected_total", "Rejected calls of accepted requests, by error code.", "code")
	m.refused = counter("collector_requests_refused_total", "Rejected requests, by error code.", "code")
	m.violations = counter("collector_plan_violations_total", "Violations of tracking plans, by event of the plan and kind. The event is (other) if it is not in the plan.", "source", "event", "kind")
	m.attempts = counter("collector_attempts_total", "Requests to webhooks.", "destination", "verdict", "reason")
	m.deliveries = counter("collector_deliveries_total", "Outcomes of attempts, by result: delivered, failed, filtered, or pending, which means that the call is retried.", "destination", "result")
	m.filtered = counter("collector_calls_filtered_total", "Calls that a destination does not receive, by reason.", "destination", "reason")
	m.alerts = counter("collector_alerts_total", "Alerts by result: sent, failed (and retried), or dropped.", "kind", "result")
	m.telemetry = counter("collector_telemetry_total", "OpenTelemetry spans and metric exports by result: sent, failed, or dropped because the queue was full.", "signal", "result")
	m.attemptSeconds = histogram("collector_attempt_duration_seconds", "Duration of requests to webhooks.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	m.lagSeconds = histogram("collector_delivery_latency_seconds", "Time from the acceptance of a call to its delivery.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 7200, 14400})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "collector_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(build, prometheus.CollectorFunc(m.collect),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// source returns the label value for a source.
func (m *meter) source(name string) string { return m.label(m.sources, name) }

// event returns the label value for an event of a plan. An empty name is otherLabel.
func (m *meter) event(name string) string { return m.label(m.events, name) }

// label returns name if it is one of the first maxLabels names, and otherLabel otherwise.
func (m *meter) label(seen map[string]bool, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" || !seen[name] && len(seen) == maxLabels {
		return otherLabel
	}
	seen[name] = true
	return name
}

func (m *meter) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Observe implements event.Observer.
func (m *meter) Observe(e event.Event) {
	switch e := e.(type) {
	case event.Accepted:
		m.accepted.WithLabelValues(m.source(e.Source)).Add(float64(len(e.Calls)))
		m.countRetried(e.Batch)
		for i := range e.Calls {
			m.countViolations(e.Source, e.Calls[i].Violations)
		}
	case event.Repeated:
		m.repeated.WithLabelValues(m.source(e.Source)).Add(float64(len(e.Calls)))
		m.countRetried(e.Batch)
	case tracking.Rejection:
		m.rejected.WithLabelValues(string(e.Code)).Inc()
		m.countViolations(e.Source, e.Violations)
	case event.Refusal:
		m.refused.WithLabelValues(string(e.Code)).Inc()
	case tracking.Attempt:
		if e.Shared {
			return
		}
		m.attempts.WithLabelValues(e.Destination, e.Verdict.String(), string(e.Reason)).Inc()
		m.attemptSeconds.WithLabelValues(e.Destination).Observe(e.Duration.Seconds())
	case tracking.Ended:
		m.ended(e)
	}
}

// countAlert counts an attempt to send an alert.
func (m *meter) countAlert(kind, result string) { m.alerts.WithLabelValues(kind, result).Inc() }

// countTelemetry counts n spans, or n exports of metrics.
func (m *meter) countTelemetry(signal, result string, n int) {
	m.telemetry.WithLabelValues(signal, result).Add(float64(n))
}

func (m *meter) countRetried(b event.Batch) {
	if b.RetryCount > 0 {
		m.retried.WithLabelValues(m.source(b.Source)).Add(float64(len(b.Calls)))
	}
}

func (m *meter) countViolations(source string, violations []tracking.Violation) {
	for _, v := range violations {
		m.violations.WithLabelValues(m.source(source), m.event(v.Event), v.Kind).Inc()
	}
}

func (m *meter) ended(e tracking.Ended) {
	if e.Attempt == 0 {
		return // a replay scheduled the call, and there was no attempt
	}
	m.deliveries.WithLabelValues(e.Destination, e.State.String()).Inc()
	switch e.State {
	case tracking.StateFiltered:
		m.filtered.WithLabelValues(e.Destination, e.Reason).Inc()
	case tracking.StateDelivered:
		m.lagSeconds.WithLabelValues(e.Destination).Observe(max(0, e.At.Sub(e.ReceivedAt).Seconds())) // the clock may have been set back
	}
}

// collect sends the values that are read at each scrape. Before the service is started, it
// sends nothing. The metrics are therefore not described, and can vary between scrapes.
func (m *meter) collect(out chan<- prometheus.Metric) {
	s := m.watched.Load()
	if s == nil {
		return
	}
	c := s.collector
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	send := func(kind prometheus.ValueType, name, help string, v float64, labels prometheus.Labels) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), kind, v)
	}
	gauge := func(name, help string, v float64, labels prometheus.Labels) {
		send(prometheus.GaugeValue, name, help, v, labels)
	}
	counter := func(name, help string, v float64) { send(prometheus.CounterValue, name, help, v, nil) }

	gauge("collector_ready", "Whether calls can be stored: 1 or 0.", one(c.Ready(ctx) == nil), nil)
	counter("collector_attempt_records_dropped_total", "Attempts that could not be stored for the inspector and the admin API.", float64(s.queue.Attempts().Dropped()))
	health, _ := c.Health(ctx)
	gauge("collector_queue_bytes", "Size of the queue.", float64(health.Bytes), nil)
	gauge("collector_queue_limit_bytes", "Limit of the queue; 0 for none.", float64(health.LimitBytes), nil)
	if free, size, _ := datadir.DiskSpace(s.options.Config.Data); size > 0 {
		gauge("collector_disk_free_bytes", "Free space of the data directory's file system.", float64(free), nil)
		gauge("collector_disk_size_bytes", "Size of the data directory's file system.", float64(size), nil)
	}
	counter("collector_scrub_bytes_total", "Stored data read by checks for corruption.", float64(health.Scrub.Bytes))
	counter("collector_scrub_rounds_total", "Completed checks of all stored data for corruption.", float64(health.Scrub.Rounds))
	gauge("collector_scrub_damage", "Corruptions found by the last complete check.", float64(len(health.Scrub.Damage)), nil)
	gauge("collector_cluster_replicas_unhealthy", "Replicas of streams in the cluster that are missing or behind.", float64(len(health.Replicas)), nil)
	for _, server := range health.Servers {
		gauge("collector_cluster_server", "A server of the cluster that stores the queue. The label sync reports whether it syncs calls to disk before it acknowledges them: always, lazy or unknown. Always 1.",
			1, prometheus.Labels{"server": server.Name, "version": server.Version, "sync": server.Sync})
	}
	for _, d := range c.Status() {
		label := prometheus.Labels{"destination": d.Destination}
		gauge("collector_destination_down", "Whether attempts are reduced after consecutive failures: 1 or 0.", one(d.Down), label)
		gauge("collector_destination_paused", "Whether an operator paused the destination: 1 or 0.", one(d.Paused), label)
		gauge("collector_destination_held", "Whether a response of the receiver delays attempts: 1 or 0.", one(!d.HeldUntil.IsZero()), label)
		gauge("collector_destination_gone", "Whether deliveries stopped because the webhooks responded with 410: 1 or 0.", one(!d.GoneSince.IsZero()), label)
		gauge("collector_destination_failures", "Consecutive failed calls.", float64(d.Failures), label)
	}
	ledgers, err := c.Ledger(ctx)
	if err != nil {
		return // collector_ready reports the problem
	}
	for _, l := range ledgers {
		for state, n := range map[string]int64{"accepted": l.Accepted, "delivered": l.Delivered, "failed": l.Failed, "filtered": l.Filtered, "pending": l.Pending, "lost": l.Lost} {
			gauge("collector_ledger_calls", "The ledger of each destination: accepted = delivered + failed + filtered + pending + lost.",
				float64(n), prometheus.Labels{"destination": l.Destination, "state": state})
		}
		age := 0.0
		if !l.OldestPending.IsZero() {
			age = max(0, time.Since(l.OldestPending).Seconds())
		}
		gauge("collector_oldest_pending_seconds", "Time since the oldest pending call was accepted; 0 if none is pending.", age, prometheus.Labels{"destination": l.Destination})
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
