package analytics

import (
	"context"
	"errors"
	"slices"
	"time"
)

// flush is a wait for the end of all calls that were accepted before it. It is
// guarded by the pipeline's mu.
type flush struct {
	upTo  uint64        // the number of the last call that it waits for
	left  int64         // calls that have not ended
	since Drops         // drops that an earlier flush has reported
	done  chan struct{} // closed with mu held when none is left
}

// flushes are the flushes that wait, and what they have reported. It is guarded by
// the pipeline's mu.
type flushes struct {
	waiting  []*flush
	reported Drops // drops that a flush has reported
	failure  error // what the latest attempt that failed met, if no flush has reported it
}

// start begins a wait for left calls, the last of which has the number upTo.
func (w *flushes) start(upTo uint64, left int64) *flush {
	f := &flush{upTo: upTo, left: left, since: w.reported, done: make(chan struct{})}
	if left == 0 {
		close(f.done)
	} else {
		w.waiting = append(w.waiting, f)
	}
	return f
}

// ended counts calls that have ended, the first of which has the number seq.
func (w *flushes) ended(seq uint64, calls int64) {
	waiting := w.waiting[:0]
	for _, f := range w.waiting {
		if seq <= f.upTo {
			f.left -= min(calls, int64(f.upTo-seq)+1)
			if f.left <= 0 {
				close(f.done)
				continue
			}
		}
		waiting = append(waiting, f)
	}
	clear(w.waiting[len(waiting):])
	w.waiting = waiting
}

// cancel ends a wait.
func (w *flushes) cancel(f *flush) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *flush) bool { return other == f })
}

// outcome is the error of a flush, given all drops so far; cut is the error of the
// context that ended the wait. It counts every drop that no flush has reported: a
// batch may have been dropped just before the flush began.
func (w *flushes) outcome(f *flush, dropped Drops, cut error, spooled bool) error {
	dropped = dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &UndeliveredError{Dropped: dropped, Pending: f.left, Err: cut, Cause: w.failure, spooled: spooled}
}

// report marks all drops so far as reported.
func (w *flushes) report(dropped Drops) { w.reported, w.failure = dropped, nil }

// startFlush seals the open batch, and begins a wait for all calls accepted so far.
// The caller holds mu.
func (p *pipeline) startFlush() *flush {
	if p.open != nil {
		p.seal(time.Now())
	}
	return p.flushes.start(p.seq, p.pending())
}

// undelivered is the error of a flush that ends now. The caller holds mu.
func (p *pipeline) undelivered(f *flush, cut error) error {
	return p.flushes.outcome(f, p.stats.Dropped, cut, p.spool != nil)
}

// flush sends what is queued and waits for it.
func (p *pipeline) flush(ctx context.Context) error {
	p.mu.Lock()
	f := p.startFlush()
	p.unlock()
	var cut error
	select {
	case <-f.done:
	case <-ctx.Done():
		cut = ctx.Err()
	case <-p.ended: // the spool keeps what is left
	}
	p.mu.Lock()
	defer p.unlock()
	if f.left > 0 {
		p.flushes.cancel(f)
	} else {
		cut = nil
	}
	err := p.undelivered(f, cut)
	if p.phase == running { // each call of Close reports it otherwise
		p.flushes.report(p.stats.Dropped)
	}
	return err
}

// abortGrace is how long the loop waits for attempts that were cancelled. Those of an
// http.RoundTripper that ignores its context are abandoned then.
const abortGrace = time.Second

// errCallbackHangs is returned by Close and Shutdown when all calls have ended, but not
// all results could be passed on in time.
var errCallbackHangs = errors.New("analytics: Config.Callback, or the writer of Config.Logger, has not returned; it must not call Close or Shutdown, which wait for it")

// close makes the pipeline accept no more calls, and end when all have ended.
func (p *pipeline) close() {
	p.mu.Lock()
	defer p.unlock()
	if p.phase == running {
		p.phase = closing
		p.closing = p.startFlush()
		if p.spool != nil {
			p.spool.disk.Stop()
		}
		p.work = true
		p.budget.wakeWaiting() // to return ErrClosed
	}
}

// shutdown closes the pipeline and waits until all calls have ended and all results
// are passed on. When ctx ends first, it gives up the rest.
func (p *pipeline) shutdown(ctx context.Context) error {
	p.close()
	var hangs error
	select {
	case <-p.done:
	case <-ctx.Done():
		p.abort(ctx.Err())
		select {
		case <-p.done:
		case <-time.After(2 * abortGrace):
			hangs = errCallbackHangs
		}
	}
	p.mu.Lock()
	defer p.unlock()
	p.closing.left = p.pending() // includes calls that were being written when it was closed
	if err := p.undelivered(p.closing, p.abortErr); err != nil {
		return err
	}
	return hangs
}

// abort makes the loop give up the calls that have not ended, if there are any.
func (p *pipeline) abort(why error) {
	p.mu.Lock()
	defer p.unlock()
	if p.phase == closing && p.pending() > 0 {
		p.phase, p.abortErr = aborting, why
		close(p.aborted)
	}
}
