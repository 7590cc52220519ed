package telemetry

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// Configure sends what is to be sent from now on as config says; nothing where it is nil. What
// was to be sent before goes where it was to. On an error what was stays.
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

// Close sends what is left, as far as that takes a few seconds, and ctx does not end before.
// It sends nothing from then on.
func (t *Telemetry) Close(ctx context.Context) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.config = nil
	if before := t.now.Swap(nil); before != nil {
		t.ending.Go(func() { t.end(ctx, before) })
	}
	t.ending.Wait()
}

// end sends what is left, until ctx ends.
func (t *Telemetry) end(ctx context.Context, p *providers) {
	var both sync.WaitGroup
	if p.traces != nil {
		both.Go(func() { t.ended("traces", p.traces.Shutdown(ctx)) }) // see bounded.Shutdown
	}
	if p.metrics != nil {
		both.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, flushTimeout)
			defer cancel()
			t.ended("metrics", p.metrics.Shutdown(ctx))
		})
	}
	both.Wait()
}

func (t *Telemetry) ended(signal string, err error) {
	if err != nil {
		t.log.Warn("not all that was left could be sent by OTLP", "signal", signal, "error", err)
	}
}

// open makes the providers of a configuration; nil where nothing is sent.
func (t *Telemetry) open(ctx context.Context, config *Config) (p *providers, err error) {
	if config == nil || disabled() {
		return nil, nil
	}
	about, err := describe(ctx, t.version)
	if err != nil {
		return nil, err
	}
	p = &providers{}
	if !config.NoTraces {
		if p.traces, err = t.newTraces(ctx, config, about); err != nil {
			return nil, err
		}
		p.tracer = p.traces.Tracer(scope, trace.WithInstrumentationVersion(t.version))
	}
	if !config.NoMetrics {
		p.metrics, err = t.newMetrics(ctx, config, about)
	}
	if err != nil {
		t.end(ctx, p)
		return nil, err
	}
	return p, nil
}
