package pipeline

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// add accepts a call without a spool.
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
			p.seal(now) // send the batch that uses the memory
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

// lock locks mu. It tries several times first, because mu is usually held only for a copy,
// and suspending a goroutine takes longer.
func (e *intake) lock() {
	for range 32 {
		if e.mu.TryLock() {
			return
		}
	}
	e.mu.Lock()
}

// appendToOpen appends a call to the open batch if nothing else is necessary. Seq is the
// same as in place. The caller holds mu.
func (p *Pipeline) appendToOpen(encoded []byte, seq uint64) bool {
	b := &p.open
	if b.calls == 0 || p.keepsIDs() || b.calls+1 >= p.FlushAt || !b.hasRoom(len(encoded), p.settings) || !b.continues(seq) {
		return false
	}
	b.append(encoded)
	return true
}

// place appends a call to the open batch, or to a new one. It reports false if the budget
// has no room. Seq is the number of a call in the spool, or 0. The caller holds mu.
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
			return false // wait for a batch of the usual size
		}
		buf, size = nil, max(len(",")+len(encoded)+p.envelope(), minBuffer) // a small buffer may fit
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

// bufferSize returns the capacity that buf needs to append a call of n bytes and to seal
// the batch.
func (p *Pipeline) bufferSize(buf []byte, n int) int {
	need := len(buf) + len(",") + n + p.envelope()
	switch {
	case need <= cap(buf):
		return cap(buf)
	case cap(buf) < p.buffers.usual: // the batch will probably reach the same size
		need = max(need, p.buffers.usual+p.buffers.usual/8, minBuffer)
	default:
		need = max(need, cap(buf)+cap(buf)/4, minBuffer)
	}
	// fits has checked MaxBatchBytes. The comma counts also for the first call.
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

// seal completes the open batch and queues it. The caller holds mu.
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
		p.shrink(b) // its memory is in use until it is sent
	}
	p.work = p.work || !p.outbox.busy
}

// fits reports whether the budget has room for n bytes. It drops free buffers to make room.
// The caller holds mu.
func (p *Pipeline) fits(n int64) bool {
	short := p.budget.used + n + int64(p.buffers.size) - p.budget.max
	if short > int64(p.buffers.size) {
		return false
	}
	p.buffers.drop(short)
	return true
}

// shrink moves a sealed batch to a buffer of the exact size.
func (p *Pipeline) shrink(b *batch) {
	exact := append(newBuffer(len(b.buf)+tailLen), b.buf...)
	p.setCharge(b, b.charge-int64(cap(b.buf))+int64(cap(exact)))
	p.buffers.put(b.buf)
	b.buf = exact
}

// reclaim keeps the buffer of a batch for another batch, unless a transport may read it.
func (p *Pipeline) reclaim(b *batch) {
	if !b.inUse {
		p.buffers.put(b.buf)
	}
	b.buf, b.zip = nil, nil
}

// dropOldest drops the oldest batch that is not being sent. It reports false if there is
// none. The caller holds mu.
func (p *Pipeline) dropOldest() bool {
	b := p.outbox.oldest()
	if b == nil {
		return false
	}
	p.end(b, b.lost(Overflow))
	return true
}

// waitForRoom waits until there may be room, the client is closed, ctx is done, or late fires.
// The caller holds mu, which is unlocked during the wait.
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

// end counts the calls of a batch as delivered if why is nil, and otherwise as dropped. It
// releases the memory and dispatches the result. The caller holds mu.
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

// Stats returns the counts of the pipeline.
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
