package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// Pipeline batches and sends the calls of a client. Callers append calls to the open batch
// under mu; the loop goroutine does the rest.
type Pipeline struct {
	intake
	*settings

	wake     chan struct{} // capacity 1; wakes the loop; never closed
	outcomes chan outcome  // capacity MaxInFlight; from senders to the loop; never closed
	aborted  chan struct{} // closed when phase becomes aborting
	ended    chan struct{} // closed by the loop when all calls have finished
	done     chan struct{} // closed by the loop when all results have been delivered

	results dispatcher   // has its own mutex
	spool   *spoolWorker // nil without Config.Spool

	// Guarded by mu.
	phase    phase
	closing  *flush    // the flush of Shutdown; nil while running
	abortErr error     // the reason for aborting
	timer    sealTimer // for open
	outbox   outbox
	budget   budget
	buffers  buffers
	flushes  flushes
	work     bool   // unlock must wake the loop
	seq      uint64 // number of the last accepted call; without a spool, excluding open
	stats    Stats  // without Pending, Bytes and SpoolBytes; without a spool, excluding open
}

// intake contains the fields that most calls use. It is the first field of Pipeline, so
// that they share a cache line.
type intake struct {
	mu   sync.Mutex // guards open and the fields of Pipeline; not held during I/O or in the caller's code
	open batch      // the batch that calls are appended to; it may be empty
}

// phase is the phase of a pipeline.
//
//	from     event                                              to
//	running  Shutdown or Close is called                        closing
//	closing  the context is done before all calls have finished       aborting
//
// The loop ends in closing when all calls have finished, and in aborting after at most
// abortGrace.
type phase int

const (
	running  phase = iota // calls are accepted
	closing               // no calls are accepted; the remaining ones are sent
	aborting              // the remaining calls are dropped, or stay in the spool
)

func newPipeline(config Config) *Pipeline {
	s := newSettings(config)
	p := &Pipeline{
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

// releaseResult releases the memory of a delivered result.
func (p *Pipeline) releaseResult(b *batch) {
	p.mu.Lock()
	defer p.unlock()
	p.setCharge(b, 0)
}

// unlock unlocks mu, and wakes the loop if it has work.
func (p *Pipeline) unlock() {
	work := p.work
	p.work = false
	p.mu.Unlock()
	if work {
		p.wakeLoop()
	}
}

// wakeLoop wakes the loop.
func (p *Pipeline) wakeLoop() {
	select {
	case p.wake <- struct{}{}:
	default: // already awake
	}
}

// setCharge sets the bytes that the budget counts for b. The caller holds mu.
func (p *Pipeline) setCharge(b *batch, charge int64) {
	p.release(b.charge - charge)
	b.charge = charge
}

// release returns bytes to the budget. The caller holds mu.
func (p *Pipeline) release(n int64) {
	p.budget.release(n)
	if p.spool != nil {
		p.spool.noteMemory()
		p.spool.feed(p.sealedBytes())
	}
}

// sealedBytes returns the memory of sealed batches and of results.
func (p *Pipeline) sealedBytes() int64 { return p.budget.used - p.open.charge }

// loop is the state of the loop goroutine.
type loop struct {
	*Pipeline
	jobs           []*job    // at most MaxInFlight
	abandonAt      time.Time // when canceled attempts are abandoned; zero unless aborting
	waitsShortened bool      // shortenWaits has been called
	zipper         compressor
	outage         outage

	attempts context.Context // the context of all attempts
	cancel   context.CancelFunc
}

// setZip replaces the bytes of a batch with their compressed form. The caller holds mu.
func (l *loop) setZip(b *batch, zip *zipped) {
	l.setCharge(b, batchOverhead+b.idBytes()+int64(cap(zip.data)))
	l.buffers.put(b.buf)
	b.buf, b.zip = nil, zip
}

// job is a batch that is being sent, including pauses and retries, until the batch or all
// of its parts have ended. A sender may replace a delivered batch with the next one. While
// a sender is running, mu guards todo.
type job struct {
	todo    []*batch   // in sending order
	due     time.Time  // when the first batch of todo may be sent
	running bool       // a sender is running
	parts   *bisection // of a refused batch, with its parts in todo; nil for a whole batch
}

// bisection finds the refused calls of a refused batch. The batch is split into halves, and
// each refused half again. This takes about 2·k·log2(n) requests for k of n calls, and at
// most maxParts.
//
// A collector may refuse all batches, for example because of the write key. So until a part
// is accepted, single calls from all parts of the batch are tried. If one is accepted, the
// splitting continues. If maxProbes are refused, the batch is dropped.
type bisection struct {
	accepted bool     // a part was accepted
	parts    int      // number of requests with parts, including those in the job's list
	probes   int      // number of single calls tried
	refused  []*batch // refused parts to split
	untried  []*batch // parts split off from probes and not tried yet

	why *Drop // the latest refusal
}

// outcome is the result of an attempt.
type outcome struct {
	job        *job
	handled    bool          // the sender has ended the batch
	inUse      bool          // the transport may still read the body, or timed out
	status     int           // 0 without a response
	retryAfter time.Duration // the pause that the collector requires, or 0
	err        error         // nil after a success
}

// spoolWorker decides which calls of a client with a spool are also in memory, and reads
// back the others.
type spoolWorker struct {
	*Pipeline
	disk   *spool.Log
	refill int64 // calls are read back while sealedBytes is less
	full   error // the error of a call that exceeds SpoolMaxBytes

	memoryLow atomic.Bool // calls may have to wait for memory; written with mu held

	wake chan struct{} // capacity 1; wakes run; never closed
	stop chan struct{} // closed by the loop when it ends
	done chan struct{} // closed by run when it ends

	// Guarded by the pipeline's mu.
	state spoolState
	next  uint64 // in diskOnly: the first call that has not been read back

	// Used only by run.
	page   spool.Page
	placed int      // number of calls of page that are in batches
	ids    []CallID // of the calls of page, with a callback
}

// spoolState is the storage of new calls.
//
//	from      event                                      to
//	inMemory  a call has waited too long for memory      spilling
//	inMemory  there is no memory for a call              diskOnly
//	spilling  the next call is written                   diskOnly
//	diskOnly  all calls are read back                    inMemory
//
// A client that finds calls of a previous process starts in diskOnly.
type spoolState int

const (
	inMemory spoolState = iota // calls are written, and added to a batch
	spilling                   // like inMemory, but the next call is not added to a batch
	diskOnly                   // calls are only written; the worker reads them back when there is memory
)

// noteMemory updates memoryLow. The caller holds mu.
func (w *spoolWorker) noteMemory() {
	if memoryLow := w.budget.used > w.budget.enough(); memoryLow != w.memoryLow.Load() {
		w.memoryLow.Store(memoryLow)
	}
}

// feed wakes the worker if it waits for memory and some is available. The caller holds mu.
func (w *spoolWorker) feed(held int64) {
	if w.state == diskOnly && held < w.refill {
		w.wakeUp()
	}
}

// wakeUp wakes run.
func (w *spoolWorker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // already awake
	}
}

// outbox contains the batches that wait to be sent. The pipeline's mu guards it.
type outbox struct {
	sealed fifo      // batches to compress; used only with Config.Gzip
	ready  fifo      // batches to send
	busy   bool      // MaxInFlight batches are being sent; the loop takes the next one when one ends
	gate   time.Time // no attempt starts earlier, at the collector's request; zero if there is none
}

// oldest removes and returns the oldest batch, or nil.
func (o *outbox) oldest() *batch {
	if b := o.ready.pop(); b != nil {
		return b
	}
	return o.sealed.pop()
}

// closeGate closes the gate until the given time, or longer if it is already closed longer.
func (o *outbox) closeGate(until time.Time) {
	if until.After(o.gate) {
		o.gate = until
	}
}

// gateOpens returns when the gate opens, and opens it if the time has come.
func (o *outbox) gateOpens(now time.Time) time.Time {
	if !o.gate.After(now) {
		o.gate = time.Time{}
	}
	return o.gate
}

// fifo is a queue of batches.
type fifo struct{ batches []*batch }

func (q *fifo) push(b *batch) { q.batches = append(q.batches, b) }

// pop removes and returns the first batch, or nil.
func (q *fifo) pop() *batch {
	if len(q.batches) == 0 {
		return nil
	}
	b := q.batches[0]
	q.batches[0] = nil
	q.batches = q.batches[1:]
	return b
}

// sealTimer determines when an open batch that is not full is sealed. The pipeline's mu
// guards it.
type sealTimer struct {
	due      time.Time // when the open batch is sealed at the latest
	lastSeal time.Time // when a batch was last sealed
	watching time.Time // when the loop next calls expired; zero if it does not
}

// opened sets the time of a new batch. It reports whether the loop must be woken.
func (t *sealTimer) opened(now time.Time, after time.Duration) (wake bool) {
	// The interval starts with the previous batch. After a long pause it starts with this
	// call, which would otherwise be sent alone.
	if t.due = t.lastSeal.Add(after); !t.due.After(now) {
		t.due = now.Add(after)
	}
	if wake = t.watching.IsZero(); wake {
		t.watching = t.due
	}
	return wake
}

// expired reports whether the open batch, if there is one, must be sealed. It updates
// watching.
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

// flush waits for the end of all calls that were accepted before it. The pipeline's mu
// guards it.
type flush struct {
	upTo  uint64        // number of the last call to wait for
	left  int64         // number of calls that have not finished
	since Drops         // drops that a previous flush has reported
	done  chan struct{} // closed with mu held when left is 0
}

// flushes are the waiting flushes, and the state that they report. The pipeline's mu guards
// it.
type flushes struct {
	waiting  []*flush
	reported Drops // drops that a flush has reported
	failure  error // the latest failure that no flush has reported
}

// start adds a flush for left calls; upTo is the number of the last one.
func (w *flushes) start(upTo uint64, left int64) *flush {
	f := &flush{upTo: upTo, left: left, since: w.reported, done: make(chan struct{})}
	if left == 0 {
		close(f.done)
	} else {
		w.waiting = append(w.waiting, f)
	}
	return f
}

// ended counts finished calls; seq is the number of the first one.
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

// cancel removes a flush.
func (w *flushes) cancel(f *flush) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *flush) bool { return other == f })
}

// outcome returns the undelivered calls of a flush, or nil. Dropped are all drops so far;
// cut is the error of the context that ended the flush. The result includes drops before
// the start of the flush that no flush has reported.
func (w *flushes) outcome(f *flush, dropped Drops, cut error, spooled bool) *Undelivered {
	dropped = dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &Undelivered{Dropped: dropped, Pending: f.left, Err: cut, Cause: w.failure, Spooled: spooled}
}

// report marks all drops as reported.
func (w *flushes) report(dropped Drops) { w.reported, w.failure = dropped, nil }
