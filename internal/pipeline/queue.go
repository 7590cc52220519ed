package pipeline

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// add accepts a call when there is no spool.
func (p *Pipeline) add(ctx context.Context, c *Call) error {
	encoded := c.Encoded()
	p.lock()
	if p.appendToOpen(encoded, 0) {
		p.mu.Unlock()
		return nil
	}
	defer p.unlock()
	now := c.clock.now()
	for p.phase == running {
		switch {
		case p.place(c.CallID, encoded, 0, now):
			return nil
		case p.open.calls > 0:
			p.seal(now) // the open batch uses memory, so send it
		case p.WhenFull == DropOldest && p.dropOldest():
		case p.WhenFull == Block:
			if err := p.waitForRoom(ctx, nil); err != nil {
				return err
			}
		default:
			return ErrQueueFull
		}
	}
	return ErrClosed
}

const (
	lockAttempts = 32
	// lockPause is the number of loop iterations between two attempts. Each attempt reads the
	// cache line of mu and open, which slows down the goroutine that holds mu.
	lockPause = 50
)

// lock locks mu. It first tries several times without blocking. mu is usually held only for the
// time of a copy, which is shorter than suspending a goroutine.
func (e *intake) lock() {
	for range lockAttempts {
		if e.mu.TryLock() {
			return
		}
		for range lockPause {
		}
	}
	e.mu.Lock()
}

// appendToOpen appends a call to the open batch. It reports false if the call needs anything
// else, such as a new batch. For seq, see place. The caller holds mu.
func (p *Pipeline) appendToOpen(encoded []byte, seq uint64) bool {
	b := &p.open
	if b.calls == 0 || p.keepsIDs() || b.calls+1 >= p.FlushAt || !b.hasRoom(len(encoded), p.settings) || !b.continues(seq) {
		return false
	}
	b.append(encoded)
	return true
}

// place appends a call to the open batch or to a new batch. It reports false if there is not
// enough memory. seq is the number of the call in the spool, or 0. The caller holds mu.
func (p *Pipeline) place(id CallID, encoded []byte, seq uint64, now time.Time) bool {
	if p.open.calls > 0 && !(p.open.fits(len(encoded), p.settings) && p.open.continues(seq)) {
		p.seal(now)
	}
	var cost int64
	if p.keepsIDs() {
		cost += callIDBytes + int64(len(id.ID))
	}
	fresh := p.open.calls == 0
	var buf []byte
	if !fresh {
		buf = p.open.buf
		cost -= int64(cap(buf))
	} else {
		cost += batchOverhead
		buf = p.buffers.get()
	}
	size := p.bufferSize(buf, len(encoded))
	if fresh && !p.fits(cost+mayTake(buf, size)) {
		p.buffers.put(buf)
		if p.WhenFull == Block && p.budget.used > 0 {
			return false // wait until a batch of the usual size fits
		}
		buf, size = nil, max(len(",")+len(encoded)+p.envelope(), minBuffer) // try the smallest buffer
	}
	if !p.fits(cost + mayTake(buf, size)) {
		return false
	}
	if size > cap(buf) {
		buf = append(newBuffer(size), buf...)
	}
	cost += int64(cap(buf))
	if fresh {
		p.openBatch(append(buf, bodyHead...), seq, now)
	} else {
		p.open.buf = buf
	}
	p.budget.used += cost
	p.open.charge += cost
	p.open.append(encoded)
	if p.keepsIDs() {
		p.open.ids = append(p.open.ids, id)
	}
	if p.open.calls == p.FlushAt {
		p.seal(now)
	}
	return true
}

// bufferSize returns the capacity that buf needs for a call of n bytes and for sealing the
// batch.
func (p *Pipeline) bufferSize(buf []byte, n int) int {
	need := len(buf) + len(",") + n + p.envelope()
	switch {
	case need <= cap(buf):
		return cap(buf)
	case cap(buf) < p.buffers.usual: // reserve the usual size, because the batch will probably reach it
		need = max(need, p.buffers.usual+p.buffers.usual/8, minBuffer)
	default:
		need = max(need, cap(buf)+cap(buf)/4, minBuffer)
	}
	// The result is at most MaxBatchBytes, because fits has checked the batch size. need
	// counts a comma even for the first call.
	return min(need, MaxBatchBytes+len(","))
}

// openBatch makes buf the open batch. The caller holds mu.
func (p *Pipeline) openBatch(buf []byte, seq uint64, now time.Time) {
	if p.spool == nil {
		seq = p.seq + 1
	}
	p.open.buf, p.open.seq = buf, seq
	if p.timer.opened(now, p.FlushAfter) {
		p.work = true
	}
}

// seal completes the open batch and adds it to the queue. The caller holds mu.
func (p *Pipeline) seal(now time.Time) {
	b := new(batch)
	*b, p.open = p.open, batch{}
	p.timer.lastSeal = now
	b.seal(p.settings)
	p.buffers.usual = len(b.buf)
	if p.spool == nil {
		p.seq += uint64(b.calls)
		p.stats.Accepted += int64(b.calls)
	}
	p.stats.Batches++
	if p.Gzip {
		p.outbox.sealed.push(b)
		p.work = true
		return
	}
	p.outbox.ready.push(b)
	if slack := cap(b.buf) - len(b.buf); p.outbox.busy && slack > len(b.buf)/4 {
		p.shrink(b) // the batch may stay in memory for a long time
	}
	p.work = p.work || !p.outbox.busy
}

// fits reports whether the memory budget has room for n bytes. If necessary, it drops free
// buffers. The caller holds mu.
func (p *Pipeline) fits(n int64) bool {
	short := p.budget.used + n + int64(p.buffers.size) - p.budget.max
	if short > int64(p.buffers.size) {
		return false
	}
	p.buffers.drop(short)
	return true
}

// shrink copies a sealed batch to a buffer of the exact size.
func (p *Pipeline) shrink(b *batch) {
	exact := append(newBuffer(len(b.buf)+tailLen), b.buf...)
	p.setCharge(b, b.charge-int64(cap(b.buf))+int64(cap(exact)))
	p.buffers.put(b.buf)
	b.buf = exact
}

// reclaim adds the buffer of a batch to the free buffers, unless a transport may still read it.
func (p *Pipeline) reclaim(b *batch) {
	if !b.inUse {
		p.buffers.put(b.buf)
	}
	b.buf, b.zip = nil, nil
}

// dropOldest drops the oldest batch that is not being sent. It reports false if there is no
// such batch. The caller holds mu.
func (p *Pipeline) dropOldest() bool {
	b := p.outbox.oldest()
	if b == nil {
		return false
	}
	p.end(b, b.lost(Overflow))
	return true
}

// waitForRoom waits until there may be room, the client is closed, ctx is done, or late fires.
// The caller holds mu. waitForRoom unlocks it during the wait.
func (p *Pipeline) waitForRoom(ctx context.Context, late <-chan time.Time) error {
	room := p.budget.waitForRoom()
	p.unlock()
	defer p.mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return ErrQueueFull
	}
}

// end records the result of a batch: delivered if why is nil, and dropped otherwise. It
// releases the memory of the batch and dispatches the result. The caller holds mu.
func (p *Pipeline) end(b *batch, why *Drop) {
	n := int64(b.calls)
	if why == nil {
		p.stats.Delivered += n
	} else {
		p.stats.Dropped.add(why.Reason, n)
	}
	p.flushes.ended(b.seq, n)
	if p.spool != nil {
		p.spool.disk.Done(spool.Position(b.seq), b.calls)
	}
	p.reclaim(b)
	if p.Callback == nil && why == nil {
		p.setCharge(b, 0)
		return
	}
	p.setCharge(b, min(b.charge, batchOverhead+b.idBytes()+why.bytes()))
	p.results.dispatch(result{batch: b, why: why})
}

// accepted returns the number of accepted calls. The caller holds mu.
func (p *Pipeline) accepted() int64 {
	if p.spool != nil {
		return p.stats.Accepted
	}
	return p.stats.Accepted + int64(p.open.calls)
}

// pending returns the number of accepted calls that have not finished. The caller holds mu.
func (p *Pipeline) pending() int64 {
	return p.accepted() - p.stats.Delivered - p.stats.Dropped.total()
}

// Stats returns the pipeline's counts.
func (p *Pipeline) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Accepted = p.accepted()
	s.Pending = p.pending()
	s.Bytes = p.budget.used
	if p.spool != nil {
		s.SpoolBytes = p.spool.disk.Usage()
	}
	return s
}
