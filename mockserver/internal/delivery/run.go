package delivery

import (
	"context"
	"errors"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Start starts the worker.
func (w *Worker) Start() { go w.run() }

// run leases and delivers entries until the worker is drained.
func (w *Worker) run() {
	ctx := w.leasing
	defer close(w.done)
	defer w.endOrder()
	for ctx.Err() == nil {
		lease, err := w.next(ctx)
		switch {
		case err == nil:
			e := lease.Entry()
			w.gate.beginEntry(laneOf(&e), len(e.Calls))
			if o := w.ordering; o != nil {
				begun := o.queues.begin(&e)
				w.entries.Go(func() { w.deliverInOrder(lease, begun, o) })
			} else {
				w.entries.Go(func() { w.deliver(lease) })
			}
		case ctx.Err() == nil && !errors.Is(err, journal.ErrClosed):
			w.Log.Error("could not lease calls from the journal", "destination", w.name, "error", err)
			_ = pause.For(ctx, journalRetry) // the loop checks ctx
		}
	}
}

// next waits until the worker is running and the gate accepts the next entry.
func (w *Worker) next(ctx context.Context) (journal.Lease, error) {
	for {
		until, stop := context.WithCancel(ctx)
		w.mu.Lock()
		reader, state := w.reader, w.state
		w.wake = stop
		w.mu.Unlock()
		var lease journal.Lease
		var err error
		if state == workerRunning && reader != nil {
			err = w.order(until, reader)
		} else if w.ordering != nil {
			w.endOrder()
		}
		unlink := func() bool { return true }
		if w.ordering != nil {
			unlink = context.AfterFunc(w.ordering.admitting, stop)
		}
		want, at, ok := w.gate.want(stop)
		switch {
		case state != workerRunning || err == nil && reader != nil && !ok:
			pause.Until(until, at, nil)
		case reader == nil:
			w.reopen(until)
		case err == nil:
			lease, err = reader.Next(until, want)
		}
		ended := until.Err() != nil
		unlink()
		stop()
		switch {
		case lease != nil || err != nil && !ended && !errors.Is(err, journal.ErrClosed):
			return lease, err
		case err != nil && !ended:
			w.forget(reader)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// forget removes a reader that the journal has closed.
func (w *Worker) forget(closed journal.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader == closed {
		w.reader = nil
	}
}

// reopen attaches the destination again after the journal has closed its queue. This happens
// when another process has removed the destination and this process has not. If this process
// is about to remove the destination as well, reopen waits.
func (w *Worker) reopen(ctx context.Context) {
	if pause.For(ctx, journalRetry) != nil {
		return
	}
	reader, err := w.Attach(ctx)
	switch {
	case errors.Is(err, journal.ErrClosed):
		<-ctx.Done()
	case err != nil && ctx.Err() == nil:
		w.Log.Error("could not attach a detached destination; trying again", "destination", w.name, "error", err)
	case reader != nil:
		w.Log.Warn("another collector removed a destination that this collector still has; it was attached again and receives calls from now on", "destination", w.name)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.reader == nil {
			w.reader, w.attached = reader, Attachment{reader.Since()}
		}
	}
}
