package analytics

import (
	"context"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// pipeline is a client at work. Callers append their calls to the open batch
// under mu; the loop goroutine does everything else.
type pipeline struct {
	// What most calls use comes first, in a cache line of its own.
	mu   sync.Mutex // guards open and the last group of fields; not held during I/O or the caller's code
	open *batch     // calls are appended to it; nil if there is none
	_    [64 - 16]byte

	*settings

	wake     chan struct{} // capacity 1; sent to when the loop has work; never closed
	outcomes chan outcome  // capacity MaxInFlight; senders send; never closed
	aborted  chan struct{} // closed as phase becomes aborting
	ended    chan struct{} // closed by the loop when no further call will end
	done     chan struct{} // closed by the loop as it ends, when all results are passed on

	results dispatcher   // has a mutex of its own
	spool   *spoolWorker // nil without Config.Spool

	// Guarded by mu.
	phase    phase
	closing  *flush    // the wait of Shutdown; nil while running
	abortErr error     // why phase is aborting
	timer    sealTimer // of open
	lastLen  int       // length of the batch sealed last, the likely length of the next
	outbox   outbox
	budget   budget
	buffers  buffers
	flushes  flushes
	work     bool   // unlock is to wake the loop
	seq      uint64 // number of the call accepted last; without a spool, before those in open
	stats    Stats  // without Pending, Rejected and Bytes; without a spool, also without the calls in open
}

// phase is the phase of a pipeline.
//
//	from     event                                              to
//	running  Shutdown or Close is called                        closing
//	closing  its context ends, and calls have not ended         aborting
//
// The loop ends in closing when all calls have ended, and in aborting after
// abortGrace at the latest.
type phase int

const (
	running  phase = iota // calls are accepted
	closing               // no call is accepted; those that are left are sent
	aborting              // those that are left are dropped, or stay in the spool
)

func newPipeline(s *settings) *pipeline {
	p := &pipeline{
		settings: s,
		budget:   budget{max: s.MaxBytes},
		buffers:  buffers{max: (s.MaxInFlight + 2) * MaxBatchBytes},
		wake:     make(chan struct{}, 1),
		outcomes: make(chan outcome, s.MaxInFlight),
		aborted:  make(chan struct{}),
		ended:    make(chan struct{}),
		done:     make(chan struct{}),
	}
	p.results = dispatcher{log: s.log, callback: s.Callback, release: p.releaseResult}
	return p
}

// releaseResult gives back the memory of a result that was passed on.
func (p *pipeline) releaseResult(b *batch) {
	p.mu.Lock()
	defer p.unlock()
	p.recharge(b, 0)
}

// unlock unlocks mu, and wakes the loop if there is work for it.
func (p *pipeline) unlock() {
	work := p.work
	p.work = false
	p.mu.Unlock()
	if work {
		p.poke()
	}
}

// poke wakes the loop.
func (p *pipeline) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// sealTimer says when the open batch is sealed though it is not full. It is
// guarded by the pipeline's mu.
type sealTimer struct {
	due      time.Time // when the open batch is sealed at the latest
	lastSeal time.Time // when a batch was last sealed
	watching time.Time // when the loop calls expired next; zero if it does not
}

// opened sets the time of a new batch. It reports whether the loop is to be woken.
func (t *sealTimer) opened(now time.Time, after time.Duration) (wake bool) {
	// The interval begins with the last batch. After a long pause it begins with
	// this call, which would be sent alone otherwise.
	if t.due = t.lastSeal.Add(after); !t.due.After(now) {
		t.due = now.Add(after)
	}
	if wake = t.watching.IsZero(); wake {
		t.watching = t.due
	}
	return wake
}

// sealed notes that a batch was sealed.
func (t *sealTimer) sealed(now time.Time) { t.lastSeal = now }

// expired reports whether the open batch, if there is one, is to be sealed. It
// sets watching anew.
func (t *sealTimer) expired(now time.Time, open bool) bool {
	if t.watching.IsZero() || now.Before(t.watching) {
		return false
	}
	t.watching = time.Time{}
	if !open {
		return false
	}
	if now.Before(t.due) {
		t.watching = t.due
		return false
	}
	return true
}

// outbox is the batches that wait to be sent. It is guarded by the pipeline's mu.
type outbox struct {
	sealed fifo      // to be compressed; used with Config.Gzip alone
	ready  fifo      // to be sent
	busy   bool      // MaxInFlight batches are being sent; the loop takes the next by itself
	gate   time.Time // no attempt begins before it, as a collector asked; zero if none did
}

// oldest takes out the batch that has waited longest; it is nil if none waits.
func (o *outbox) oldest() *batch {
	if b := o.ready.pop(); b != nil {
		return b
	}
	return o.sealed.pop()
}

// hold closes the gate until a time, unless it is closed for longer.
func (o *outbox) hold(until time.Time) {
	if until.After(o.gate) {
		o.gate = until
	}
}

// held returns until when the gate is closed. It opens the gate when its time is
// over.
func (o *outbox) held(now time.Time) time.Time {
	if !o.gate.After(now) {
		o.gate = time.Time{}
	}
	return o.gate
}

// add accepts the call encoded in w, which is copied. The error says why it does
// not. Ctx is used under Block.
func (p *pipeline) add(ctx context.Context, k *call, w *scratch, now time.Time) error {
	if p.Callback != nil {
		w.id = callID{k.id(w.record.Buf), k.kind}
	}
	if p.spool != nil {
		return p.spool.add(ctx, w, now)
	}
	encoded := w.call()
	p.mu.Lock()
	if b := p.open; b != nil && p.Callback == nil && b.calls+1 < p.FlushAt && b.hasRoom(len(encoded), p.settings) {
		b.append(encoded)
		p.mu.Unlock()
		return nil
	}
	defer p.unlock()
	for p.phase == running {
		switch {
		case p.place(w.id, encoded, 0, now):
			return nil
		case p.open != nil:
			p.seal(now) // send what fills the memory
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

// place appends a call to the open batch, or to a new one. It reports false if
// the budget has no room. Seq is the number of a call in a spool, or 0. The caller
// holds mu.
func (p *pipeline) place(id callID, encoded []byte, seq uint64, now time.Time) bool {
	if p.open != nil && !(p.open.fits(len(encoded), p.settings) && p.open.continues(seq)) {
		p.seal(now)
	}
	var cost int64
	if p.Callback != nil {
		cost += callIDBytes + int64(len(id.id))
	}
	fresh := p.open == nil
	var buf []byte
	if !fresh {
		buf = p.open.buf
		cost -= int64(cap(buf))
	} else {
		cost += batchOverhead
		buf = p.buffers.get()
	}
	size := p.bufferSize(buf, len(encoded))
	if fresh && !p.budget.fits(cost+mayTake(buf, size)) {
		p.buffers.put(buf)
		if p.WhenFull == Block && p.budget.used > 0 {
			return false // wait for a batch of the usual size
		}
		buf, size = nil, max(len(",")+len(encoded)+p.envelope(), minBuffer) // a small buffer may fit
	}
	if !p.budget.fits(cost + mayTake(buf, size)) {
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
	if p.Callback != nil {
		p.open.ids = append(p.open.ids, id)
	}
	if p.open.calls == p.FlushAt {
		p.seal(now)
	}
	return true
}

// bufferSize returns the capacity that the batch in buf needs so that a call of n
// bytes can be appended and the batch sealed.
func (p *pipeline) bufferSize(buf []byte, n int) int {
	need := len(buf) + len(",") + n + p.envelope()
	switch {
	case need <= cap(buf):
		return cap(buf)
	case cap(buf) < p.lastLen: // this batch is likely to become as long
		need = max(need, p.lastLen+p.lastLen/8, minBuffer)
	default:
		need = max(need, cap(buf)+cap(buf)/4, minBuffer)
	}
	// fits has checked that MaxBatchBytes is enough. The comma is counted for a
	// first call as well.
	return min(need, MaxBatchBytes+len(","))
}

// openBatch makes buf the open batch. The caller holds mu.
func (p *pipeline) openBatch(buf []byte, seq uint64, now time.Time) {
	if p.spool == nil {
		seq = p.seq + 1
	}
	p.open = &batch{buf: buf, seq: seq}
	if p.timer.opened(now, p.FlushAfter) {
		p.work = true
	}
}

// seal completes the open batch and queues it. The caller holds mu.
func (p *pipeline) seal(now time.Time) {
	b := p.open
	p.open = nil
	p.timer.sealed(now)
	b.seal(p.settings)
	p.lastLen = len(b.buf)
	if p.spool == nil {
		p.seq += uint64(b.calls)
		p.stats.Accepted += int64(b.calls)
	}
	p.stats.Batches++
	if slack := cap(b.buf) - len(b.buf); p.outbox.busy && !p.Gzip && slack > len(b.buf)/4 {
		p.shrink(b) // it has to wait: its memory counts
	}
	if p.Gzip {
		p.outbox.sealed.push(b)
		p.work = true
		return
	}
	p.outbox.ready.push(b)
	p.work = p.work || !p.outbox.busy
}

// shrink moves a sealed batch to a buffer of its own length.
func (p *pipeline) shrink(b *batch) {
	exact := append(newBuffer(len(b.buf)+tailLen), b.buf...)
	p.recharge(b, b.charge-int64(cap(b.buf))+int64(cap(exact)))
	p.buffers.put(b.buf)
	b.buf = exact
}

// recharge sets what b is charged for. The caller holds mu.
func (p *pipeline) recharge(b *batch, charge int64) {
	p.release(b.charge - charge)
	b.charge = charge
}

// release gives bytes back to the budget. The caller holds mu.
func (p *pipeline) release(n int64) {
	p.budget.release(n)
	if p.spool != nil {
		p.spool.feed(p.held())
	}
}

// held is what is charged besides the open batch: for what waits for the collector
// or the callback.
func (p *pipeline) held() int64 {
	if p.open == nil {
		return p.budget.used
	}
	return p.budget.used - p.open.charge
}

// reclaim takes the buffer of a batch, to be used again unless a transport may read
// it.
func (p *pipeline) reclaim(b *batch) {
	if !b.inUse {
		p.buffers.put(b.buf)
	}
	b.buf, b.zip = nil, nil
}

// dropOldest drops the batch that has waited longest. It reports false if none
// waits. The caller holds mu.
func (p *pipeline) dropOldest() bool {
	b := p.outbox.oldest()
	if b == nil {
		return false
	}
	p.end(b, b.lost(DropOverflow))
	return true
}

// waitForRoom unlocks mu until there may be room, the client is closed, ctx ends, or late
// receives. The caller holds mu.
func (p *pipeline) waitForRoom(ctx context.Context, late <-chan time.Time) error {
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

// end counts the calls of a batch as delivered, if why is nil, or as dropped,
// gives back its memory, and dispatches the result. The caller holds mu.
func (p *pipeline) end(b *batch, why *DropError) {
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
func (p *pipeline) accepted() int64 {
	if p.open == nil || p.spool != nil {
		return p.stats.Accepted
	}
	return p.stats.Accepted + int64(p.open.calls)
}

// pending is the number of accepted calls that have not ended. The caller holds mu.
func (p *pipeline) pending() int64 {
	return p.accepted() - p.stats.Delivered - p.stats.Dropped.Total()
}

// snapshot returns the counts, without those of rejected calls.
func (p *pipeline) snapshot() Stats {
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

// fifo is a queue of batches.
type fifo []*batch

// push appends a batch.
func (q *fifo) push(b *batch) { *q = append(*q, b) }

// pop takes the first batch out; it is nil if there is none.
func (q *fifo) pop() *batch {
	if len(*q) == 0 {
		return nil
	}
	b := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	return b
}
