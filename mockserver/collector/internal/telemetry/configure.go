package telemetry

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// Configure replaces the settings. A nil config stops all exports. The previous settings are used
// to export the spans that have ended, and the last metrics. Spans in progress are counted as
// dropped. If Configure returns an error, the previous settings stay in effect.
func (t *Telemetry) Configure(ctx context.Context, config *Config) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	if reflect.DeepEqual(config, t.config) {
		return nil
	}
	next, err := t.open(ctx, config)
	if err != nil {
		return fmt.Errorf("telemetry.otlp: %w", err)
	}
	t.config = config
	if before := t.now.Swap(next); before != nil {
		t.ending.Go(func() { t.end(context.WithoutCancel(ctx), before) })
	}
	return nil
}

// Close exports the remaining spans and metrics, and stops all exports. It returns after
// flushTimeout, or when ctx ends, at the latest.
func (t *Telemetry) Close(ctx context.Context) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.config = nil
	if before := t.now.Swap(nil); before != nil {
		t.ending.Go(func() { t.end(ctx, before) })
	}
	t.ending.Wait()
}

// end exports the remaining spans and metrics, and shuts the providers down. It takes at most
// flushTimeout.
func (t *Telemetry) end(ctx context.Context, p *providers) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var both sync.WaitGroup
	if p.traces != nil {
		both.Go(func() { t.ended("traces", p.traces.Shutdown(ctx)) })
	}
	if p.metrics != nil {
		both.Go(func() { t.ended("metrics", p.metrics.Shutdown(ctx)) })
	}
	both.Wait()
}

func (t *Telemetry) ended(signal string, err error) {
	if err != nil {
		t.log.Warn("OTLP: the last export is incomplete", "signal", signal, "error", err)
	}
}

// open creates the providers for a configuration. It returns nil if there is nothing to export.
func (t *Telemetry) open(ctx context.Context, config *Config) (p *providers, err error) {
	if config == nil || disabled() {
		return nil, nil
	}
	about, err := describe(ctx, t.version)
	if err != nil {
		return nil, err
	}
	p = &providers{}
	if isOn(config.Traces.Enabled) {
		if p.traces, err = t.newTraces(ctx, config, about); err != nil {
			return nil, err
		}
		p.tracer = p.traces.Tracer(scope, trace.WithInstrumentationVersion(t.version))
	}
	if isOn(config.Metrics.Enabled) {
		p.metrics, err = t.newMetrics(ctx, config, about)
	}
	if err != nil {
		t.end(ctx, p)
		return nil, err
	}
	return p, nil
}
