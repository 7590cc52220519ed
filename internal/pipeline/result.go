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

// result is the end of a batch, for the callback and, if the batch was lost, for
// the log. Or it is an entry for the log.
type result struct {
	batch *batch // without calls, for an entry
	why   *Drop  // nil if the batch was delivered
	entry *entry // nil for a batch
}

// dispatcher passes results to the callback and to the log, one at a time and in
// order. It has a goroutine while there are any, so that the caller's code neither
// delays the loop nor is held by it.
type dispatcher struct {
	log      *logger
	callback func(CallID, *Drop) // nil if there is none
	release  func(*batch)        // called when a result has been passed on; without mu

	goroutine sync.WaitGroup // run, while it runs

	mu      sync.Mutex // guards what follows; acquired after the pipeline's
	results []result   // to be passed on
	running bool       // run runs
}

// dispatch queues a result.
func (d *dispatcher) dispatch(r result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, r)
	if !d.running {
		d.running = true
		d.goroutine.Add(1)
		go d.run()
	}
}

// note queues an entry for the log: its writer is the caller's code as well.
func (d *dispatcher) note(e entry) {
	if d.log.wants(e) {
		d.dispatch(result{batch: &batch{}, entry: &e})
	}
}

// wait waits until all results are passed on. None is dispatched any more.
func (d *dispatcher) wait() { d.goroutine.Wait() }

// run is the goroutine that passes results on. It ends when there are none left.
func (d *dispatcher) run() {
	defer d.goroutine.Done()
	for {
		for _, r := range d.take() {
			d.deliver(r)
			d.release(r.batch)
		}
		if d.ends() {
			return
		}
	}
}

// take returns the results that are queued.
func (d *dispatcher) take() []result {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := d.results
	d.results = nil
	return results
}

// ends reports whether run is to end, as nothing is queued.
func (d *dispatcher) ends() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = len(d.results) > 0
	return !d.running
}

// deliver passes a result on.
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

// call calls the callback. A panic in it is logged.
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

// lost returns what is said of calls that were dropped.
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

// refusal returns what is said of a batch that is refused, before parts of it are
// sent. With a log.Logger, only calls that are lost are told.
func refusal(b *batch) entry {
	return entry{
		level: slog.LevelWarn, message: "batch refused",
		attrs: []slog.Attr{slog.Int("calls", b.calls), slog.Int("status", b.status), errorAttr(b.err)},
	}
}

// outage is whether the log says that a collector takes no calls at the moment. The zero
// value says that it does.
type outage struct {
	told  bool      // that it takes none
	since time.Time // of told
}

// outageEvery is the least time between two outages that are told, so that a collector
// that fails now and then does not fill the log.
const outageEvery = time.Minute

// changes reports whether what the status of an attempt means begins an outage or ends the
// one that was told.
func (u *outage) changes(verdict retry.Verdict, now time.Time) bool {
	failed := verdict == retry.Again
	if failed == u.told || !failed && verdict != retry.Delivered || failed && !u.since.IsZero() && now.Sub(u.since) < outageEvery {
		return false
	}
	u.told = failed
	if failed {
		u.since = now
	}
	return true
}

// entry returns what is said of an attempt that changes u.
func (u *outage) entry(status int, err error) entry {
	if !u.told {
		return entry{level: slog.LevelInfo, message: "collector is taking calls again"}
	}
	return entry{level: slog.LevelWarn, message: "collector is not taking calls", attrs: []slog.Attr{slog.Int("status", status), errorAttr(err)}}
}
