package analytics

import (
	"context"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// pipeline is a client at work. Callers append their calls to the open batch
// under mu; the loop goroutine does all else.
type pipeline struct {
	// All that most calls touch, so first, where nothing else shares a line of
	// the processor's cache with it.
	mu   sync.Mutex // guards open and the last group of fields; not held during I/O or the caller's code
	open *batch     // calls are appended to it; nil if there are none, as after the client is closed
	_    [64 - 16]byte

	*settings

	wake     chan struct{} // room for one; whoever gives the loop work pokes it; never closed
	outcomes chan outcome  // room for MaxInFlight; attempts send; never closed
	aborted  chan struct{} // closed by abort, once
	ended    chan struct{} // closed by the loop when no further call will end
	done     chan struct{} // closed by the loop as it ends, with all results told

	results dispatcher

	spool *spoolWorker // nil without one

	// Guarded by mu.
	openDue  time.Time // when open is to be sealed at the latest
	lastSeal time.Time // when a batch was last sealed
	watching time.Time // when the loop looks at open by itself; zero if never
	sealed   fifo      // complete, still to be compressed; used with gzip alone
	ready    fifo      // waiting to be sent
	busy     bool      // all jobs are taken: the loop will look at ready by itself
	work     bool      // the loop is to be poked as mu is given up
	seq      uint64    // the number of the call accepted last; without a spool, before those in open
	lastLen  int       // the length of the batch sealed last, the next one's likely length
	budget   budget
	buffers  buffers
	flushes  flushes
	closing  *flush    // set as the client is closed; no call is accepted from then on
	abortErr error     // why aborted was closed
	gate     time.Time // no attempt begins before it, as a collector asked; zero if none did
	stats    Stats     // calls in open left out without a spool; without Pending, Rejected and Bytes
}

func newPipeline(s *settings) *pipeline {
	p := &pipeline{
		settings: s,
		budget:   budget{max: s.maxBytes},
		buffers:  buffers{max: (s.maxInFlight + 2) * MaxBatchBytes},
		wake:     make(chan struct{}, 1),
		outcomes: make(chan outcome, s.maxInFlight),
		aborted:  make(chan struct{}),
		ended:    make(chan struct{}),
		done:     make(chan struct{}),
	}
	p.results = dispatcher{log: s.log, callback: s.callback, release: p.releaseResult}
	return p
}

// releaseResult gives back the memory of a result that was passed on.
func (p *pipeline) releaseResult(b *batch) {
	p.mu.Lock()
	defer p.unlock()
	p.recharge(b, 0)
}

// unlock gives up mu, and pokes the loop if there is work for it.
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

// add accepts the call encoded in w, or says why not. It copies the bytes. Ctx
// matters for Block alone.
func (p *pipeline) add(ctx context.Context, k *call, w *scratch, now time.Time) error {
	if p.callback != nil {
		w.id = callID{k.id(w.record.Buf), k.kind}
	}
	if p.spool != nil {
		return p.spool.add(ctx, w, now)
	}
	encoded := w.call()
	p.mu.Lock()
	if b := p.open; b != nil && p.callback == nil && b.calls+1 < p.flushAt && b.hasRoom(len(encoded), p.settings) {
		b.append(encoded)
		p.mu.Unlock()
		return nil
	}
	defer p.unlock()
	for p.closing == nil {
		switch {
		case p.place(w.id, encoded, 0, now):
			return nil
		case p.open != nil:
			p.seal(now) // what fills the memory is better sent at once
		case p.whenFull == DropOldest && p.dropOldest():
		case p.whenFull == Block:
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
// the budget has no room. Seq is the number of a call in a spool, or 0.
func (p *pipeline) place(id callID, encoded []byte, seq uint64, now time.Time) bool {
	if p.open != nil && !(p.open.fits(len(encoded), p.settings) && p.open.continues(seq)) {
		p.seal(now)
	}
	var cost int64
	if p.callback != nil {
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
		if p.whenFull == Block && p.budget.used > 0 {
			return false // there will be room for a batch of the usual size
		}
		buf, size = nil, max(len(",")+len(encoded)+p.envelope(), minBuffer) // a small one may fit
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
	if p.callback != nil {
		p.open.ids = append(p.open.ids, id)
	}
	if p.open.calls == p.flushAt {
		p.seal(now)
	}
	return true
}

// bufferSize is the capacity that a batch in buf needs to take a call of n
// bytes and be sealed.
func (p *pipeline) bufferSize(buf []byte, n int) int {
	need := len(buf) + len(",") + n + p.envelope()
	switch {
	case need <= cap(buf):
		return cap(buf)
	case cap(buf) < p.lastLen: // the last batch says how long this one may become
		need = max(need, p.lastLen+p.lastLen/8, minBuffer)
	default:
		need = max(need, cap(buf)+cap(buf)/4, minBuffer)
	}
	// Fits has seen to it that MaxBatchBytes is enough, but for the comma that
	// is counted for a first call as well.
	return min(need, MaxBatchBytes+len(","))
}

func (p *pipeline) openBatch(buf []byte, seq uint64, now time.Time) {
	if p.spool == nil {
		seq = p.seq + 1
	}
	p.open = &batch{buf: buf, seq: seq}
	// The time since the last flush counts, unless nothing has been called for
	// so long that it would send this call alone.
	if p.openDue = p.lastSeal.Add(p.flushAfter); !p.openDue.After(now) {
		p.openDue = now.Add(p.flushAfter)
	}
	if p.watching.IsZero() {
		p.watching = p.openDue
		p.work = true
	}
}

// seal completes the open batch and queues it.
func (p *pipeline) seal(now time.Time) {
	b := p.open
	p.open = nil
	p.lastSeal = now
	b.seal(p.settings)
	p.lastLen = len(b.buf)
	if p.spool == nil {
		p.seq += uint64(b.calls)
		p.stats.Accepted += int64(b.calls)
	}
	p.stats.Batches++
	if slack := cap(b.buf) - len(b.buf); p.busy && !p.gzip && slack > len(b.buf)/4 {
		p.shrink(b) // it will wait: its memory counts
	}
	if p.gzip {
		p.sealed.push(b)
		p.work = true
		return
	}
	p.ready.push(b)
	p.work = p.work || !p.busy
}

// shrink moves a sealed batch to a buffer of its own length.
func (p *pipeline) shrink(b *batch) {
	exact := append(newBuffer(len(b.buf)+tailLen), b.buf...)
	p.recharge(b, b.charge-int64(cap(b.buf))+int64(cap(exact)))
	p.buffers.put(b.buf)
	b.buf = exact
}

// recharge sets what b counts towards the budget.
func (p *pipeline) recharge(b *batch, charge int64) {
	p.release(b.charge - charge)
	b.charge = charge
}

// release gives bytes back to the budget.
func (p *pipeline) release(n int64) {
	p.budget.release(n)
	if p.spool != nil {
		p.spool.feed(p.held())
	}
}

// held is how much of the budget is not the open batch's: what waits for the
// collector, or for the callback.
func (p *pipeline) held() int64 {
	if p.open == nil {
		return p.budget.used
	}
	return p.budget.used - p.open.charge
}

// reclaim takes a batch's bytes away, for its buffer to be used again.
func (p *pipeline) reclaim(b *batch) {
	if !b.lent {
		p.buffers.put(b.buf)
	}
	b.buf, b.zip = nil, nil
}

// dropOldest gives up the batch that has waited longest; it reports false if
// none waits.
func (p *pipeline) dropOldest() bool {
	b := p.ready.pop()
	if b == nil {
		b = p.sealed.pop()
	}
	if b == nil {
		return false
	}
	p.end(b, b.lost(DropOverflow))
	return true
}

// waitForRoom gives up mu until memory may have come free, the client is being
// closed, ctx ends, or it is too late. A callback and a transport do not wait
// without end: the memory may be held by what they are to be told, or to send.
func (p *pipeline) waitForRoom(ctx context.Context, late <-chan time.Time) error {
	if ctx.Done() == nil && (p.results.busy() && calledFrom(callbackName) || p.sendsWithOthers() && calledFrom(sendName)) {
		return ErrQueueFull
	}
	return p.await(ctx, late)
}

// await gives up mu until there may be room, the client is being closed, ctx
// ends, or it is too late.
func (p *pipeline) await(ctx context.Context, late <-chan time.Time) error {
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
// and gives back its memory. What there is to tell of them is told elsewhere.
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
	if p.callback == nil && why == nil {
		p.recharge(b, 0)
		return
	}
	p.recharge(b, min(b.charge, batchOverhead+b.idBytes()+why.bytes()))
	p.results.dispatch(result{batch: b, why: why})
}

// accepted is the number of calls accepted so far.
func (p *pipeline) accepted() int64 {
	if p.open == nil || p.spool != nil {
		return p.stats.Accepted
	}
	return p.stats.Accepted + int64(p.open.calls)
}

// pending is the number of accepted calls that have not ended.
func (p *pipeline) pending() int64 {
	return p.accepted() - p.stats.Delivered - p.stats.Dropped.Total()
}

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
type fifo struct {
	items []*batch
	head  int // index of the first; those before it are nil
}

func (q *fifo) push(b *batch) {
	if q.head > 16 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, b)
}

func (q *fifo) empty() bool { return q.head == len(q.items) }

// pop takes the first batch out; it is nil if there is none.
func (q *fifo) pop() *batch {
	if q.empty() {
		return nil
	}
	b := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return b
}
