package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// Pipeline batches and sends the calls of a client. Callers append calls to the open batch
// with mu held. The loop goroutine does the rest of the work.
type Pipeline struct {
	intake
	*settings

	wake     chan struct{} // capacity 1; wakes the loop; never closed
	outcomes chan outcome  // capacity MaxInFlight; from senders to the loop; never closed
	aborted  chan struct{} // closed when phase becomes aborting
	ended    chan struct{} // closed by the loop when all calls have finished
	done     chan struct{} // closed by the loop when all results have been delivered

	results dispatcher   // has its own mutex
	spool   *spoolWorker // nil if Config.Spool is empty

	// The following fields are guarded by mu.
	phase    phase
	closing  *flush    // the flush that Shutdown waits for; nil before Close
	abortErr error     // the reason for aborting
	timer    sealTimer // determines when open is sealed
	outbox   outbox
	budget   budget
	buffers  buffers
	flushes  flushes
	work     bool   // unlock must wake the loop
	seq      uint64 // number of the last accepted call; without a spool, it does not include the calls in open
	stats    Stats  // does not include Pending, Bytes and SpoolBytes and, without a spool, the calls in open
}

// intake contains the fields that most calls use. It is the first field of Pipeline, so
// that all of them share a cache line.
type intake struct {
	mu   sync.Mutex // guards open and the fields of Pipeline; not held during I/O or in the caller's code
	open batch      // the batch that accepts calls; it may be empty
}

// phase is the state of a pipeline.
//
//	from     event                                              to
//	running  Shutdown or Close is called                        closing
//	closing  the context is done before all calls have finished aborting
//
// In the phase closing, the loop exits when all calls have finished. In the phase aborting, it
// exits after at most abortGrace.
type phase int

const (
	running  phase = iota // the pipeline accepts calls
	closing               // the pipeline accepts no calls, and sends the remaining ones
	aborting              // the remaining calls are dropped, or stay in the spool
)

func newPipeline(config Config) *Pipeline {
	s := newSettings(config)
	p := &Pipeline{
		settings: s,
		budget:   budget{max: s.MaxBytes, low: s.MaxBytes - s.MaxBytes/8},
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

// releaseResult releases the memory of a result that has been delivered.
func (p *Pipeline) releaseResult(b *batch) {
	p.mu.Lock()
	defer p.unlock()
	p.setCharge(b, 0)
}

// unlock unlocks mu. It wakes the loop if the loop has work.
func (p *Pipeline) unlock() {
	work := p.work
	p.work = false
	p.mu.Unlock()
	if work {
		p.wakeLoop()
	}
}

// spoolMutex makes the pipeline's mu the mutex of its spool.
type spoolMutex struct{ *Pipeline }

func (m spoolMutex) Lock()   { m.lock() }
func (m spoolMutex) Unlock() { m.unlock() }

// wakeLoop wakes the loop. It does not block.
func (p *Pipeline) wakeLoop() {
	select {
	case p.wake <- struct{}{}:
	default: // the loop is already awake
	}
}

// setCharge sets the memory that the budget counts for b. The caller holds mu.
func (p *Pipeline) setCharge(b *batch, charge int64) {
	p.release(b.charge - charge)
	b.charge = charge
}

// release releases memory of the budget. The caller holds mu.
func (p *Pipeline) release(n int64) {
	p.budget.release(n)
	if p.spool != nil {
		p.spool.feed(p.sealedBytes())
	}
}

// sealedBytes returns the memory of sealed batches and of results.
func (p *Pipeline) sealedBytes() int64 { return p.budget.used - p.open.charge }

// loop is the state of the loop goroutine.
type loop struct {
	*Pipeline
	jobs           []*job    // at most MaxInFlight
	abandonAt      time.Time // the time when canceled attempts are abandoned; zero unless aborting
	waitsShortened bool      // shortenWaits has been called
	zipper         compressor
	outage         outage

	attempts context.Context // the context of all attempts
	cancel   context.CancelFunc
}

// setZip replaces the bytes of a batch with the compressed bytes. The caller holds mu.
func (l *loop) setZip(b *batch, zip *zipped) {
	l.setCharge(b, batchOverhead+b.idBytes()+int64(cap(zip.data)))
	l.buffers.put(b.buf)
	b.buf, b.zip = nil, zip
}

// job is a batch that a sender sends and retries, or the parts of a refused batch. When a batch
// is delivered, the sender may replace it with the next one. While a sender is running, todo is
// guarded by mu.
type job struct {
	todo    []*batch   // batches to send, in order
	due     time.Time  // the earliest time to send the first batch of todo
	running bool       // a sender is running
	parts   *bisection // the state of splitting a refused batch; nil otherwise
}

// bisection finds the refused calls of a refused batch. It splits the batch into halves, and
// splits each refused half again. To find k of n calls, it needs about 2·k·log2(n) requests. It
// sends at most maxParts requests.
//
// A collector may refuse all batches, for example because of the write key. So at first, the
// bisection tries single calls from all parts of the batch. When one is accepted, it starts to
// split. If maxProbes single calls are refused, the batch is dropped.
type bisection struct {
	accepted bool     // the collector has accepted a part
	parts    int      // number of requests with parts, including scheduled ones
	probes   int      // number of single calls tried
	refused  []*batch // refused parts that must be split
	untried  []*batch // parts that were split from a probe and have not been sent

	why *Drop // the latest refusal
}

// outcome is the result of an attempt.
type outcome struct {
	job        *job
	handled    bool          // the sender has already recorded the result of the batch
	inUse      bool          // the transport may still read the body
	status     int           // HTTP status, or 0 without a response
	retryAfter time.Duration // the pause that the collector requires, or 0
	err        error         // nil if the batch was delivered
}

// spoolWorker decides which calls of a client with a spool are also kept in memory. It reads
// the other calls back.
type spoolWorker struct {
	*Pipeline
	disk   *spool.Log
	refill int64 // calls are read back while sealedBytes is smaller
	limit  int64 // under Block, calls wait while more than limit bytes of memory are in use
	full   error // the error for a call that would exceed SpoolMaxBytes

	wake chan struct{} // capacity 1; wakes run; never closed
	stop chan struct{} // closed by the loop when the loop exits
	done chan struct{} // closed by run when run returns

	// The following fields are guarded by the pipeline's mu.
	state spoolState
	next  uint64 // in the state diskOnly, the first call that has not been read back

	// The following fields are used only by run.
	page   spool.Page
	placed int      // number of calls of page that have been added to batches
	ids    []CallID // the CallIDs of the calls of page; used only with a callback
}

// spoolState determines where new calls are stored.
//
//	from      event                                      to
//	inMemory  a call has waited too long for memory      spilling
//	inMemory  there is no memory for a call              diskOnly
//	spilling  the next call is written                   diskOnly
//	diskOnly  all calls have been read back              inMemory
//
// A client that finds calls of a previous process starts in the state diskOnly.
type spoolState int

const (
	inMemory spoolState = iota // calls are written to the disk and added to a batch
	spilling                   // like inMemory, except that the next call is not added to a batch
	diskOnly                   // calls are only written to the disk; the worker reads them back later
)

// feed wakes the worker if it waits for memory and memory is available. The caller holds mu.
func (w *spoolWorker) feed(held int64) {
	if w.state == diskOnly && held < w.refill {
		w.wakeUp()
	}
}

// wakeUp wakes run. It does not block.
func (w *spoolWorker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // run is already awake
	}
}

// outbox contains the batches that wait to be sent. It is guarded by the pipeline's mu.
type outbox struct {
	sealed fifo      // batches that must be compressed; used only with Config.Gzip
	ready  fifo      // batches that can be sent
	busy   bool      // MaxInFlight batches are being sent, so a new batch waits for one of them
	gate   time.Time // the earliest time for the next attempt, as required by the collector; zero if there is no limit
}

// oldest removes and returns the oldest batch, or nil.
func (o *outbox) oldest() *batch {
	if b := o.ready.pop(); b != nil {
		return b
	}
	return o.sealed.pop()
}

// closeGate prevents attempts before the given time. It never shortens an earlier limit.
func (o *outbox) closeGate(until time.Time) {
	if until.After(o.gate) {
		o.gate = until
	}
}

// gateOpens returns the time when the gate opens. If that time has come, it opens the gate.
func (o *outbox) gateOpens(now time.Time) time.Time {
	if !o.gate.After(now) {
		o.gate = time.Time{}
	}
	return o.gate
}

// fifo is a first-in, first-out queue of batches.
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

// sealTimer determines when an open batch is sealed before it is full. It is guarded by the
// pipeline's mu.
type sealTimer struct {
	due      time.Time // the latest time to seal the open batch
	lastSeal time.Time // the time when the previous batch was sealed
	watching time.Time // the time of the loop's next call of expired; zero if none is scheduled
}

// opened sets the timer for a new batch. It reports whether the caller must wake the loop.
func (t *sealTimer) opened(now time.Time, after time.Duration) (wake bool) {
	// The interval starts when the previous batch is sealed. If that was long ago, the
	// interval starts now. Otherwise this call would be sent alone.
	if t.due = t.lastSeal.Add(after); !t.due.After(now) {
		t.due = now.Add(after)
	}
	if wake = t.watching.IsZero(); wake {
		t.watching = t.due
	}
	return wake
}

// expired reports whether the open batch must be sealed. open is false if there is no open
// batch. expired also updates watching.
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
