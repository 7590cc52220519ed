package pipeline

import (
	"sync"
	"time"
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
	outage   outage
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
	mu   sync.Mutex // guards open and the fields of Pipeline; see the package documentation
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
