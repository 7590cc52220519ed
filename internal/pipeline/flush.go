package pipeline

import (
	"context"
	"errors"
	"time"
)

// startFlush seals the open batch, and begins a wait for all calls accepted so far.
// The caller holds mu.
func (p *Pipeline) startFlush() *flush {
	if p.open.calls > 0 {
		p.seal(time.Now())
	}
	return p.flushes.start(p.seq, p.pending())
}

// undelivered is what a flush that ends now leaves. The caller holds mu.
func (p *Pipeline) undelivered(f *flush, cut error) *Undelivered {
	return p.flushes.outcome(f, p.stats.Dropped, cut, p.spool != nil)
}

// Flush sends what is queued and waits for it until ctx ends. It returns nil if all calls
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
	case <-p.ended: // the spool keeps what is left
	}
	p.mu.Lock()
	defer p.unlock()
	if f.left > 0 {
		p.flushes.cancel(f)
	} else {
		cut = nil
	}
	left := p.undelivered(f, cut)
	if p.phase == running { // each call of Close reports it otherwise
		p.flushes.report(p.stats.Dropped)
	}
	return left
}

// abortGrace is how long the loop waits for attempts that were cancelled. Those of an
// http.RoundTripper that ignores its context are abandoned then.
const abortGrace = time.Second

// errCallbackHangs is returned by Close and Shutdown when all calls have ended, but not
// all results could be passed on in time.
var errCallbackHangs = errors.New("analytics: Config.Callback, or the writer of Config.Logger, has not returned; it must not call Close or Shutdown, which wait for it")

// Close makes the pipeline accept no more calls, and end when all have ended.
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
		p.budget.wakeWaiting() // to return ErrClosed
	}
}

// Shutdown closes the pipeline and waits until all calls have ended and all results
// are passed on. When ctx ends first, it gives up the rest. It returns nil if all calls were
// delivered. The error reports a callback or log writer that hangs.
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
	p.closing.left = p.pending() // includes calls that were being written when it was closed
	return p.undelivered(p.closing, p.abortErr), hangs
}

// abort makes the loop give up the calls that have not ended, if there are any.
func (p *Pipeline) abort(why error) {
	p.mu.Lock()
	defer p.unlock()
	if p.phase == closing && p.pending() > 0 {
		p.phase, p.abortErr = aborting, why
		close(p.aborted)
	}
}
