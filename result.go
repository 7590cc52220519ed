package analytics

import (
	"fmt"
	"sync"
)

// result is the end of a batch, for the callback and, if the batch was lost, for
// the log. Or it is a line for the log.
type result struct {
	batch *batch     // without calls, for a line
	why   *DropError // nil if the batch was delivered
	line  string
}

// dispatcher passes results to the callback and to the log, one at a time and in
// order. It has a goroutine while there are any, so that the caller's code neither
// delays the loop nor is held by it.
type dispatcher struct {
	log      *logger
	callback func(Result) // nil if there is none
	release  func(*batch) // called when a result has been passed on; without mu

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

// logf queues a line for the log: its writer is the caller's code as well.
func (d *dispatcher) logf(format string, args ...interface{}) {
	d.dispatch(result{batch: &batch{}, line: fmt.Sprintf(format, args...)})
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
	if r.line != "" {
		d.log.logf("%s", r.line)
	}
	if r.why != nil {
		d.log.logf("lost %s: %s", countCalls(int64(r.batch.calls)), r.why.text())
	}
	if d.callback == nil {
		return
	}
	var end Result
	if r.why != nil {
		end.Err = r.why
	}
	for _, id := range r.batch.ids {
		end.MessageId, end.Type = id.id, id.kind
		d.call(end)
	}
}

// call calls the callback. A panic in it is logged.
func (d *dispatcher) call(r Result) {
	defer func() {
		if v := recover(); v != nil {
			d.log.logf("the callback panicked on %s %q: %v", r.Type, r.MessageId, v)
		}
	}()
	d.callback(r)
}
