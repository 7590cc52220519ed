package analytics

import (
	"context"
	"errors"
	"time"
)

// startFlush seals the open batch, and begins a wait for all calls accepted so far.
// The caller holds mu.
func (p *pipeline) startFlush() *flush {
	if p.open.calls > 0 {
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
