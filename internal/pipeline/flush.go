package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"
)

// flush waits until all calls that were accepted before it have finished. It is guarded by the
// pipeline's mu.
type flush struct {
	upTo  uint64        // number of the last call that the flush waits for
	left  int64         // number of calls that have not finished
	since Drops         // the drops that previous flushes have reported
	done  chan struct{} // closed when left is 0, with mu held
}

// flushes contains the waiting flushes and the failures they report. It is guarded by the
// pipeline's mu.
type flushes struct {
	waiting  []*flush
	reported Drops // the drops that a flush has reported
	failure  error // the latest failure that no flush has reported yet
}

// start adds a flush that waits for left calls. upTo is the number of the last one.
func (w *flushes) start(upTo uint64, left int64) *flush {
	f := &flush{upTo: upTo, left: left, since: w.reported, done: make(chan struct{})}
	if left == 0 {
		close(f.done)
	} else {
		w.waiting = append(w.waiting, f)
	}
	return f
}

// ended counts finished calls. seq is the number of the first one.
func (w *flushes) ended(seq uint64, calls int64) {
	w.waiting = slices.DeleteFunc(w.waiting, func(f *flush) bool {
		if seq > f.upTo {
			return false
		}
		if f.left -= min(calls, int64(f.upTo-seq)+1); f.left > 0 {
			return false
		}
		close(f.done)
		return true
	})
}

// recount corrects the number of calls that all flushes wait for. n is the number of earlier calls that were
// not counted. It is negative if too many calls were counted. last is the sequence number of the last
// recounted call.
func (w *flushes) recount(n int64, last uint64) {
	for _, f := range w.waiting {
		f.left += n
		f.upTo = max(f.upTo, last)
	}
	w.ended(0, 0) // ends the flushes that no longer wait for calls
}

// cancel removes a flush.
func (w *flushes) cancel(f *flush) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *flush) bool { return other == f })
}

// outcome returns the undelivered calls of a flush, or nil. It includes drops that no previous
// flush has reported. dropped contains all drops so far. cut is the error of the context, if the
// context was done before the calls had finished.
func (w *flushes) outcome(f *flush, dropped Drops, cut error, spooled bool) *Undelivered {
	dropped = dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &Undelivered{Dropped: dropped, Pending: f.left, Err: cut, Cause: w.failure, Spooled: spooled}
}

// report marks all drops so far as reported.
func (w *flushes) report(dropped Drops) { w.reported, w.failure = dropped, nil }

// startFlush seals the open batch and adds a flush that waits for all accepted calls. The
// caller holds mu.
func (p *Pipeline) startFlush() *flush {
	if p.open.calls > 0 {
		p.seal(time.Now())
	}
	return p.flushes.start(p.seq, p.pending())
}

// undelivered returns the current result of a flush. The caller holds mu.
func (p *Pipeline) undelivered(f *flush, cut error) *Undelivered {
	return p.flushes.outcome(f, p.stats.Dropped, cut, p.spool != nil)
}

// Flush sends the queued calls and waits for them until ctx is done. It returns nil if all calls
// were delivered.
func (p *Pipeline) Flush(ctx context.Context) *Undelivered {
	p.mu.Lock()
	f := p.startFlush()
	p.unlock()
	var cut error
	select {
	case <-f.done:
	case <-ctx.Done():
		cut = ctx.Err()
	case <-p.ended: // the remaining calls are in the spool
	}
	p.mu.Lock()
	defer p.unlock()
	if f.left > 0 {
		p.flushes.cancel(f)
	} else {
		cut = nil
	}
	left := p.undelivered(f, cut)
	if p.phase == running { // after Close, each call of Shutdown reports the drops again
		p.flushes.report(p.stats.Dropped)
	}
	return left
}

// abortGrace limits how long the loop waits for canceled attempts. After that it abandons
// them, because an http.RoundTripper may ignore its context.
const abortGrace = time.Second

// errCallbackHangs is returned by Close and Shutdown if all calls have finished, but the
// callback or the log has not received all results in time.
var errCallbackHangs = errors.New("analytics: Config.Callback, or the writer of Config.Logger, has not returned; it must not call Close or Shutdown, which wait for it")

// Close makes the pipeline reject new calls. The loop exits when all accepted calls have finished.
func (p *Pipeline) Close() {
	p.mu.Lock()
	defer p.unlock()
	if p.phase == running {
		p.phase = closing
		p.closing = p.startFlush()
		if p.spool != nil {
			p.spool.disk.Stop()
		}
		p.work = true
		p.budget.wakeWaiting() // wake waiting calls, which then return ErrClosed
	}
}

// Shutdown closes the pipeline and waits until all calls have finished and all results are
// delivered. If ctx is done first, it drops the remaining calls. It returns nil if all calls were
// delivered. It returns an error if a callback or log writer does not return.
func (p *Pipeline) Shutdown(ctx context.Context) (*Undelivered, error) {
	p.Close()
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
	p.closing.left = p.pending() // count again, because some calls may have been accepted during Close
	return p.undelivered(p.closing, p.abortErr), hangs
}

// abort makes the loop drop all pending calls. why is the reason.
func (p *Pipeline) abort(why error) {
	p.mu.Lock()
	defer p.unlock()
	if p.phase == closing && p.pending() > 0 {
		p.phase, p.abortErr = aborting, why
		close(p.aborted)
	}
}
