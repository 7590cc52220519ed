package pipeline

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/offheap"
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
			p.seal(now) // send what fills the memory
		case p.WhenFull == DropOldest && p.dropOldest():
		case p.WhenFull == Block:
			if err := p.waitForRoom(ctx, nil); err != nil {
				return err
			}
		default:
			return p.ErrQueueFull
		}
	}
	return p.ErrClosed
}

// lock locks mu. It tries a few times before it waits: mu is mostly held for no longer than
// a copy takes, and a goroutine that waits is put to sleep and woken.
func (e *entrance) lock() {
	for range 32 {
		if e.mu.TryLock() {
			return
		}
	}
	e.mu.Lock()
}

// appendToOpen appends a call to the open batch, if that takes no more than that. Seq is
// as in place. The caller holds mu.
func (p *Pipeline) appendToOpen(encoded []byte, seq uint64) bool {
	b := &p.open
	if b.calls == 0 || p.keepsIDs() || b.calls+1 >= p.FlushAt || !b.hasRoom(len(encoded), p.settings) || !b.continues(seq) {
		return false
	}
	b.append(encoded)
	return true
}

// place appends a call to the open batch, or to a new one. It reports false if
// the budget has no room. Seq is the number of a call in a spool, or 0. The caller
// holds mu.
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
	parking := p.parkingNeeds(size)
	if fresh && !p.fits(cost+mayTake(buf, size)+parking) {
		p.buffers.put(buf)
		if p.WhenFull == Block && p.budget.used > 0 {
			return false // wait for a batch of the usual size
		}
		buf, size = nil, max(len(",")+len(encoded)+p.envelope(), minBuffer) // a small buffer may fit
	}
	if !p.fits(cost + mayTake(buf, size) + parking) {
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
	p.budget.charge(cost)
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

// bufferSize returns the capacity that the batch in buf needs so that a call of n
// bytes can be appended and the batch sealed.
func (p *Pipeline) bufferSize(buf []byte, n int) int {
	need := len(buf) + len(",") + n + p.envelope()
	switch {
	case need <= cap(buf):
		return cap(buf)
	case cap(buf) < p.buffers.usual: // this batch is likely to become as long
		need = max(need, p.buffers.usual+p.buffers.usual/8, minBuffer)
	default:
		need = max(need, cap(buf)+cap(buf)/4, minBuffer)
	}
	// fits has checked that MaxBatchBytes is enough. The comma is counted for a
	// first call as well.
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
	p.timer.sealed(now)
	b.seal(p.settings)
	p.buffers.usual = len(b.buf)
	if p.spool == nil {
		p.seq += uint64(b.calls)
		p.stats.Accepted += int64(b.calls)
	}
	p.stats.Batches++
	if p.Gzip {
		p.queue(&p.outbox.sealed, b)
		p.work = true
		return
	}
	if slack := cap(b.buf) - len(b.buf); !p.queue(&p.outbox.ready, b) && p.outbox.busy && slack > len(b.buf)/4 {
		p.shrink(b) // it has to wait: its memory counts
	}
	p.work = p.work || !p.outbox.busy
}

// heapShare is how much memory the batches that wait may take on the heap. The garbage
// collector lets the smallest heap grow to as much.
const heapShare = 4 << 20

// keepParked is how much idle memory is kept for batches to be parked.
const keepParked = 1 << 20

// heapIsFull reports whether batches that wait are parked.
func (p *Pipeline) heapIsFull() bool { return p.budget.used-p.outbox.parked() > heapShare }

// parkingNeeds is the memory that it takes to park the open batch, if it will be. Without
// room for that, the heap would take over what the stores give back.
func (p *Pipeline) parkingNeeds(size int) int64 {
	switch {
	case !p.heapIsFull():
		return 0
	case p.Gzip:
		return p.outbox.sealed.store.Needs(size)
	}
	return p.outbox.ready.store.Needs(size)
}

// queue makes a sealed batch wait in q. If much memory on the heap is used, its bytes are
// parked outside, which queue reports. The caller holds mu.
func (p *Pipeline) queue(q *fifo, b *batch) (parked bool) {
	q.push(b)
	if !p.heapIsFull() {
		return false
	}
	data := b.data()
	n := int64(len(*data))
	charge := batchOverhead + b.idBytes() + n
	if !p.fits(charge - b.charge + q.store.Needs(len(*data)) - n) {
		return false
	}
	if b.parked, parked = q.store.Put(*data); !parked {
		return false
	}
	p.recharge(b, charge)
	if !b.inUse {
		p.buffers.put(*data)
	}
	*data, b.inUse = nil, false
	return true
}

// next takes the first batch out of q, with its bytes on the heap; it is nil if there is
// none. What a buffer is longer than a batch that was parked is not charged: no more than
// MaxInFlight of those are in use. The caller holds mu.
func (p *Pipeline) next(q *fifo) *batch {
	b := q.pop()
	if b == nil || b.parked.Len() == 0 {
		return b
	}
	buf := p.buffers.get()
	if size := b.parked.Len() + b.endLen(); size > cap(buf) {
		buf = newBuffer(size)
	}
	*b.data() = b.parked.AppendTo(buf)
	p.unpark(b)
	return b
}

// unpark takes the bytes of a batch out of the store, if they are there.
func (p *Pipeline) unpark(b *batch) {
	b.parked.Free()
	b.parked = offheap.String{}
	p.outbox.trim(keepParked)
}

// fits reports whether n bytes can be charged. Memory that is kept for later counts, and
// is given up as far as that makes room for them. The caller holds mu.
func (p *Pipeline) fits(n int64) bool {
	kept := p.outbox.idle() + int64(p.buffers.size)
	if p.budget.fits(n + kept) {
		return true
	}
	sealed, ready := &p.outbox.sealed.store, &p.outbox.ready.store
	if !p.budget.fits(n + kept - int64(p.buffers.size) - sealed.Spare() - ready.Spare()) {
		return false
	}
	short := p.budget.used + n + kept - p.budget.max
	short -= sealed.Trim(sealed.Spare() - short)
	short -= ready.Trim(ready.Spare() - short)
	p.buffers.drop(short)
	return true
}

// shrink moves a sealed batch to a buffer of its own length.
func (p *Pipeline) shrink(b *batch) {
	exact := append(newBuffer(len(b.buf)+tailLen), b.buf...)
	p.recharge(b, b.charge-int64(cap(b.buf))+int64(cap(exact)))
	p.buffers.put(b.buf)
	b.buf = exact
}

// reclaim takes the buffer of a batch, to be used again unless a transport may read
// it.
func (p *Pipeline) reclaim(b *batch) {
	if !b.inUse {
		p.buffers.put(b.buf)
	}
	p.unpark(b)
	b.buf, b.zip = nil, nil
}

// dropOldest drops the batch that has waited longest. It reports false if none
// waits. The caller holds mu.
func (p *Pipeline) dropOldest() bool {
	b := p.outbox.oldest()
	if b == nil {
		return false
	}
	p.end(b, b.lost(Overflow))
	return true
}

// waitForRoom unlocks mu until there may be room, the client is closed, ctx ends, or late
// receives. The caller holds mu.
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
		return p.ErrQueueFull
	}
}

// end counts the calls of a batch as delivered, if why is nil, or as dropped,
// gives back its memory, and dispatches the result. The caller holds mu.
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
		p.recharge(b, 0)
		return
	}
	p.recharge(b, min(b.charge, batchOverhead+b.idBytes()+why.bytes()))
	p.results.dispatch(result{batch: b, why: why})
}

// accepted is the number of calls accepted so far. The caller holds mu.
func (p *Pipeline) accepted() int64 {
	if p.spool != nil {
		return p.stats.Accepted
	}
	return p.stats.Accepted + int64(p.open.calls)
}

// pending is the number of accepted calls that have not ended. The caller holds mu.
func (p *Pipeline) pending() int64 {
	return p.accepted() - p.stats.Delivered - p.stats.Dropped.total()
}

// Stats returns the counts.
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
