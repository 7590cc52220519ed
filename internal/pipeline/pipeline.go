package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// Pipeline is a client at work. Callers append their calls to the open batch
// under mu; the loop goroutine does everything else.
type Pipeline struct {
	entrance
	*settings
	signals

	results dispatcher   // has a mutex of its own
	spool   *spoolWorker // nil without Config.Spool

	// Guarded by mu.
	ending
	timer   sealTimer // of open
	outbox  outbox
	budget  budget
	buffers buffers
	flushes flushes
	work    bool   // unlock is to wake the loop
	seq     uint64 // number of the call accepted last; without a spool, before those in open
	stats   Stats  // without Pending, Bytes and SpoolBytes; without a spool, also without the calls in open
}

// entrance is what most calls use. It comes first, so that the lock and what is appended to
// share a cache line, which moves to each processor that makes a call.
type entrance struct {
	mu   sync.Mutex // guards open and what the pipeline says; not held during I/O or the caller's code
	open batch      // calls are appended to it; there is none if it has no calls
}

// signals are the channels of a pipeline.
type signals struct {
	wake     chan struct{} // capacity 1; sent to when the loop has work; never closed
	outcomes chan outcome  // capacity MaxInFlight; senders send; never closed
	aborted  chan struct{} // closed as phase becomes aborting
	ended    chan struct{} // closed by the loop when no further call will end
	done     chan struct{} // closed by the loop as it ends, when all results are passed on
}

// ending is how far a pipeline is on its way to its end. It is guarded by the
// pipeline's mu.
type ending struct {
	phase    phase
	closing  *flush // the wait of Shutdown; nil while running
	abortErr error  // why phase is aborting
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

func newPipeline(config Config) *Pipeline {
	s := newSettings(config)
	p := &Pipeline{
		settings: s,
		budget:   budget{max: s.MaxBytes},
		buffers:  buffers{max: (s.MaxInFlight + 2) * MaxBatchBytes},
		signals: signals{
			wake:     make(chan struct{}, 1),
			outcomes: make(chan outcome, s.MaxInFlight),
			aborted:  make(chan struct{}),
			ended:    make(chan struct{}),
			done:     make(chan struct{}),
		},
	}
	p.results = dispatcher{log: s.log, callback: s.Callback, release: p.releaseResult}
	return p
}

// releaseResult gives back the memory of a result that was passed on.
func (p *Pipeline) releaseResult(b *batch) {
	p.mu.Lock()
	defer p.unlock()
	p.recharge(b, 0)
}

// unlock unlocks mu, and wakes the loop if there is work for it.
func (p *Pipeline) unlock() {
	work := p.work
	p.work = false
	p.mu.Unlock()
	if work {
		p.poke()
	}
}

// poke wakes the loop.
func (p *Pipeline) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// recharge sets what b is charged for. The caller holds mu.
func (p *Pipeline) recharge(b *batch, charge int64) {
	p.release(b.charge - charge)
	b.charge = charge
}

// release gives bytes back to the budget. The caller holds mu.
func (p *Pipeline) release(n int64) {
	p.budget.release(n)
	if p.spool != nil {
		p.spool.noteMemory()
		p.spool.feed(p.held())
	}
}

// held is what is charged besides the open batch: for what waits for the collector
// or the callback.
func (p *Pipeline) held() int64 { return p.budget.used - p.open.charge }

// loop is what only the goroutine of the pipeline uses.
type loop struct {
	*Pipeline
	jobs      []*job    // at most MaxInFlight
	abandonAt time.Time // when attempts that were cancelled are abandoned; zero unless aborting
	hurried   bool      // it has been closed, see hurry
	zipper    compressor
	outage    outage

	attempts context.Context // of every attempt
	cancel   context.CancelFunc
}

// setZip replaces the bytes of a batch by their compressed form. The caller holds
// mu.
func (l *loop) setZip(b *batch, zip *zipped) {
	l.recharge(b, batchOverhead+b.idBytes()+int64(cap(zip.data)))
	l.buffers.put(b.buf)
	b.buf, b.zip = nil, zip
}

// job is a batch that is being sent: an attempt, a wait, another attempt, until the
// batch, or each part of it, has ended. A sender may replace a batch that was
// delivered by the next one; todo is guarded by mu while a sender works on it.
type job struct {
	todo    []*batch   // in the order of sending
	due     time.Time  // when the first of todo may be sent
	running bool       // a sender works on it
	parts   *bisection // of a refused batch, whose parts are in todo; nil if it is whole
}

// bisection finds the calls in a refused batch that the collector refuses. The batch
// is split, then each half that is refused, and so on. That takes about 2·k·log2(n)
// requests for k of n calls, and at most maxParts.
//
// A collector may refuse every batch, because of its write key for example. So while
// it has accepted no part, single calls from all over the batch are tried. When it
// accepts one, the splitting goes on; when it has refused maxProbes, the batch is
// dropped.
type bisection struct {
	accepted bool     // a part was accepted
	parts    int      // requests with parts that were made, or will be with those in the job's list
	probes   int      // single calls tried
	refused  []*batch // parts to be split
	aside    []*batch // parts split off from probes, of which nothing is known

	why *Drop // why the latest part was refused
}

// outcome is the result of one attempt. The loop acts on it.
type outcome struct {
	job        *job
	handled    bool          // the sender has ended the batch
	inUse      bool          // the transport may still read the body, or timed out
	status     int           // 0 if there was no answer
	retryAfter time.Duration // how long nothing is to be sent; 0 if the collector did not ask for it
	err        error         // nil if status is a success
}

// spoolWorker decides when the calls of a client with a spool are in memory as
// well as on the disk, and reads back those that are not.
type spoolWorker struct {
	*Pipeline
	disk   *spool.Log
	refill int64 // calls are read back while less memory than that is used
	full   error // of a call that SpoolMaxBytes leaves no room for

	crowded atomic.Bool // calls may have to wait for memory; set with the pipeline's mu held

	wake chan struct{} // capacity 1; sent to when run has work; never closed
	stop chan struct{} // closed by the loop as it ends
	done chan struct{} // closed by run as it ends

	// Guarded by the pipeline's mu.
	state spoolState
	next  uint64 // in diskOnly: calls from that one on are not read back

	// Used by run alone.
	page   spool.Page
	placed int      // how many calls of page are placed
	ids    []CallID // of the calls of page, if there is a callback
}

// spoolState says where calls go.
//
//	from      event                                      to
//	inMemory  a call has waited for memory in vain       spilling
//	inMemory  there is no memory for a call              diskOnly
//	spilling  the next call is written                   diskOnly
//	diskOnly  all calls are read back                    inMemory
//
// A client that finds calls of an earlier process begins in diskOnly.
type spoolState int

const (
	inMemory spoolState = iota // a call is written, and placed in a batch
	spilling                   // likewise, but the next call is not placed
	diskOnly                   // calls are written only; the worker reads them back as there is memory
)

// noteMemory sets crowded. The caller holds mu.
func (w *spoolWorker) noteMemory() {
	if crowded := w.budget.used > w.budget.enough(); crowded != w.crowded.Load() {
		w.crowded.Store(crowded)
	}
}

// feed wakes the worker if it waits for memory and there is some. Held is the
// memory of sealed batches: an open one does not wait for the collector. The caller
// holds mu.
func (w *spoolWorker) feed(held int64) {
	if w.state == diskOnly && held < w.refill {
		w.poke()
	}
}

// poke wakes run.
func (w *spoolWorker) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
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

// fifo is a queue of batches.
type fifo struct{ batches []*batch }

// push appends a batch.
func (q *fifo) push(b *batch) { q.batches = append(q.batches, b) }

// pop takes the first batch out; it is nil if there is none.
func (q *fifo) pop() *batch {
	if len(q.batches) == 0 {
		return nil
	}
	b := q.batches[0]
	q.batches[0] = nil
	q.batches = q.batches[1:]
	return b
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

// flush is a wait for the end of all calls that were accepted before it. It is
// guarded by the pipeline's mu.
type flush struct {
	upTo  uint64        // the number of the last call that it waits for
	left  int64         // calls that have not ended
	since Drops         // drops that an earlier flush has reported
	done  chan struct{} // closed with mu held when none is left
}

// flushes are the flushes that wait, and what they have reported. It is guarded by
// the pipeline's mu.
type flushes struct {
	waiting  []*flush
	reported Drops // drops that a flush has reported
	failure  error // what the latest attempt that failed met, if no flush has reported it
}

// start begins a wait for left calls, the last of which has the number upTo.
func (w *flushes) start(upTo uint64, left int64) *flush {
	f := &flush{upTo: upTo, left: left, since: w.reported, done: make(chan struct{})}
	if left == 0 {
		close(f.done)
	} else {
		w.waiting = append(w.waiting, f)
	}
	return f
}

// ended counts calls that have ended, the first of which has the number seq.
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

// cancel ends a wait.
func (w *flushes) cancel(f *flush) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *flush) bool { return other == f })
}

// outcome is what a flush leaves, or nil, given all drops so far; cut is the error of the
// context that ended the wait. It counts every drop that no flush has reported: a
// batch may have been dropped just before the flush began.
func (w *flushes) outcome(f *flush, dropped Drops, cut error, spooled bool) *Undelivered {
	dropped = dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &Undelivered{Dropped: dropped, Pending: f.left, Err: cut, Cause: w.failure, Spooled: spooled}
}

// report marks all drops so far as reported.
func (w *flushes) report(dropped Drops) { w.reported, w.failure = dropped, nil }
