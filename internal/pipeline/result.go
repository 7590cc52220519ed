package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// result reports the outcome of a batch to the callback and the log, or contains a log entry.
type result struct {
	batch *batch // an empty batch if entry is set
	why   *Drop  // nil if the batch was delivered
	entry *entry // nil if this is the result of a batch
}

// dispatcher passes results to the callback and the log, one at a time and in order. It has its
// own goroutine, so that the caller's code does not block the loop. The goroutine runs only
// while there are results.
type dispatcher struct {
	log      *logger
	callback func(CallID, *Drop) // may be nil
	release  func(*batch)        // called without mu when a result has been delivered

	goroutine sync.WaitGroup // waits for run

	mu      sync.Mutex // guards the following fields; acquired after the pipeline's mu
	results []result   // queued results
	running bool       // the goroutine is running
}

// dispatch queues a result.
func (d *dispatcher) dispatch(r result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, r)
	if !d.running {
		d.running = true
		d.goroutine.Go(d.run)
	}
}

// note queues a log entry. The dispatcher's goroutine writes the log, because the log's writer may
// be the caller's code.
func (d *dispatcher) note(e entry) {
	if d.log.wants(e) {
		d.dispatch(result{batch: &batch{}, entry: &e})
	}
}

// wait waits until all results are delivered. The caller must not dispatch more results.
func (d *dispatcher) wait() { d.goroutine.Wait() }

// run delivers results until the queue is empty.
func (d *dispatcher) run() {
	for results := d.take(); len(results) > 0; results = d.take() {
		for _, r := range results {
			d.deliver(r)
			d.release(r.batch)
		}
	}
}

// take removes and returns all queued results. If there are none, it marks the goroutine as
// stopped.
func (d *dispatcher) take() []result {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := d.results
	d.results = nil
	d.running = len(results) > 0
	return results
}

// deliver passes a result to the callback and the log.
func (d *dispatcher) deliver(r result) {
	if r.entry != nil {
		d.log.log(context.Background(), *r.entry)
	}
	if r.why != nil {
		d.log.log(context.Background(), lost(r.batch.calls, r.why))
	}
	if d.callback == nil {
		return
	}
	for _, id := range r.batch.ids {
		d.call(id, r.why)
	}
}

// call calls the callback and recovers a panic in it. The panic is logged.
func (d *dispatcher) call(ended CallID, why *Drop) {
	defer func() {
		if v := recover(); v != nil {
			id, said := wire.Clip(ended.ID, wire.MaxRepeated/2), wire.Clip(d.log.secrets.redact(fmt.Sprint(v)), wire.MaxRepeated/2)
			d.log.log(context.Background(), entry{
				slog.LevelError, "callback panicked",
				[]slog.Attr{slog.String("type", ended.Kind), slog.String("messageId", id), slog.String("panic", said)},
				fmt.Sprintf("the callback panicked on %s %q: %s", ended.Kind, id, said),
			})
		}
	}()
	d.callback(ended, why)
}

// lost returns the log entry for dropped calls.
func lost(calls int, why *Drop) entry {
	attrs := []slog.Attr{slog.Int("calls", calls), slog.String("reason", string(why.Reason)), slog.Int("attempts", why.Attempts)}
	if why.Status != 0 {
		attrs = append(attrs, slog.Int("status", why.Status))
	}
	if why.Err != nil {
		attrs = append(attrs, errorAttr(why.Err))
	}
	return entry{slog.LevelError, "calls lost", attrs, fmt.Sprintf("lost %s: %s", CountCalls(int64(calls)), why)}
}

// refusal returns the log entry for a refused batch, before its parts are sent. It is only for
// Config.Slog, because Config.Logger receives only lost calls.
func refusal(b *batch) entry {
	return entry{
		level: slog.LevelWarn, message: "batch refused",
		attrs: []slog.Attr{slog.Int("calls", b.calls), slog.Int("status", b.status), errorAttr(b.err)},
	}
}

// noteOutage logs the start or end of an outage. verdict is the verdict on the outcome. The
// caller holds mu.
func (p *Pipeline) noteOutage(verdict retry.Verdict, o outcome, now time.Time) {
	if p.outage.changes(verdict, now) {
		p.results.note(p.outage.entry(o.status, o.err))
	}
}

// outage tracks whether the log has reported an outage of the collector. It is guarded by the
// pipeline's mu.
type outage struct {
	reported bool      // an outage was reported, and its end was not
	since    time.Time // the time of the last report of an outage
}

// outageEvery is the minimum time between reports of outages. Without it, a collector that
// fails occasionally would fill the log.
const outageEvery = time.Minute

// changes reports whether an attempt with this verdict starts an outage, or ends an outage that
// was reported.
func (u *outage) changes(verdict retry.Verdict, now time.Time) bool {
	failed := verdict == retry.Retry
	if failed == u.reported || !failed && verdict != retry.Delivered || failed && !u.since.IsZero() && now.Sub(u.since) < outageEvery {
		return false
	}
	u.reported = failed
	if failed {
		u.since = now
	}
	return true
}

// entry returns the log entry for the start or end of an outage.
func (u *outage) entry(status int, err error) entry {
	if !u.reported {
		return entry{level: slog.LevelInfo, message: "collector is taking calls again"}
	}
	return entry{level: slog.LevelWarn, message: "collector is not taking calls", attrs: []slog.Attr{slog.Int("status", status), errorAttr(err)}}
}
