package analytics

import (
	"context"
	"time"
)

// flush is a wait for the end of all calls accepted before it. Its fields are
// guarded by the pipeline's mu.
type flush struct {
	upTo  uint64        // the number of the last call that it waits for
	left  int64         // calls that have not ended
	since Drops         // drops that an earlier flush has reported
	done  chan struct{} // closed under mu when none is left
}

// startFlush seals the open batch and waits for no one.
func (p *pipeline) startFlush() *flush {
	if p.open != nil {
		p.seal(time.Now())
	}
	f := &flush{upTo: p.seq, left: p.pending(), since: p.reported, done: make(chan struct{})}
	if f.left == 0 {
		close(f.done)
	} else {
		p.flushes = append(p.flushes, f)
	}
	return f
}

// endFlushes tells those that wait that so many calls have ended, of which the
// first has that number.
func (p *pipeline) endFlushes(seq uint64, calls int64) {
	waiting := p.flushes[:0]
	for _, f := range p.flushes {
		if seq <= f.upTo {
			f.left -= min(calls, int64(f.upTo-seq)+1)
			if f.left <= 0 {
				close(f.done)
				continue
			}
		}
		waiting = append(waiting, f)
	}
	clear(p.flushes[len(waiting):])
	p.flushes = waiting
}

// forget ends a flush whose caller no longer waits.
func (p *pipeline) forget(f *flush) {
	for i, other := range p.flushes {
		if other == f {
			p.flushes = append(p.flushes[:i], p.flushes[i+1:]...)
			return
		}
	}
}

// undelivered is what a flush has come to by now; err is the context's error if
// that cut it short. A batch may have been refused the moment before the flush
// began, so every drop counts that none has reported.
func (p *pipeline) undelivered(f *flush, err error) error {
	dropped := p.stats.Dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &UndeliveredError{Dropped: dropped, Pending: f.left, Err: err, Cause: p.failure, spooled: p.spool != nil}
}

func (p *pipeline) flush(ctx context.Context) error {
	if calledFrom(sendName) {
		return errSending
	}
	p.mu.Lock()
	f := p.startFlush()
	p.unlock()
	var cut error
	select {
	case <-f.done:
	case <-ctx.Done():
		cut = ctx.Err()
	case <-p.ended: // and what is left is left to the spool
	}
	p.mu.Lock()
	defer p.unlock()
	if f.left > 0 {
		p.forget(f)
	} else {
		cut = nil
	}
	err := p.undelivered(f, cut)
	if p.closing == nil { // else Close is to tell it, however often it is asked
		p.reported, p.failure = p.stats.Dropped, nil
	}
	return err
}

// abortGrace is how long the loop waits for attempts that were cancelled. An
// http.RoundTripper that does not mind its context is left behind after it.
const abortGrace = time.Second

// close has the pipeline accept no more calls, and end when all have ended.
func (p *pipeline) close() {
	p.mu.Lock()
	defer p.unlock()
	if p.closing == nil {
		p.closing = p.startFlush()
		if p.spool != nil {
			p.spool.disk.Stop()
		}
		p.work = true
		p.wakeWaiting() // to find the client closed
	}
}

// shutdown closes the pipeline and waits until all calls have ended and are told
// of. When ctx ends first, it gives up the rest. A callback does not wait to be told.
func (p *pipeline) shutdown(ctx context.Context) error {
	p.close()
	if calledFrom(sendName) {
		return errSending
	}
	done := p.done
	if calledFrom(tellName) {
		done = p.ended
	}
	select {
	case <-done:
	case <-ctx.Done():
		p.abort(ctx.Err())
		select {
		case <-done:
		case <-time.After(2 * abortGrace): // a callback hangs
		}
	}
	p.mu.Lock()
	defer p.unlock()
	p.closing.left = p.pending() // calls that were being written as it closed are among them
	return p.undelivered(p.closing, p.abortErr)
}

// abort has the loop give up what has not ended, if anything.
func (p *pipeline) abort(why error) {
	p.mu.Lock()
	defer p.unlock()
	if p.abortErr == nil && p.pending() > 0 {
		p.abortErr = why
		close(p.aborted)
	}
}
