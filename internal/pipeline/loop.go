package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
)

// loop is the state of the loop goroutine.
type loop struct {
	*Pipeline
	jobs           []*job    // at most MaxInFlight
	abandonAt      time.Time // the time when canceled attempts are abandoned; zero unless aborting
	waitsShortened bool      // shortenWaits has been called
	zipper         compressor

	attempts context.Context // the context of all attempts
	cancel   context.CancelFunc
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

// run is the loop goroutine. It returns when the pipeline is closed and all calls have finished.
func (p *Pipeline) run() {
	l := &loop{Pipeline: p}
	l.attempts, l.cancel = context.WithCancel(context.Background())
	timer := time.NewTimer(0)
	aborted := p.aborted
	settings := l.startSettings()
	for {
		next, finished := l.step(time.Now())
		if finished {
			break
		}
		timer.Reset(time.Until(next))
		select {
		case <-p.wake:
		case <-timer.C:
		case o := <-p.outcomes:
			l.handle(o, time.Now())
		case <-aborted:
			aborted = nil
			l.onAbort(time.Now())
		}
	}
	timer.Stop()
	l.cancel()
	select {
	case <-settings:
	case <-time.After(abortGrace): // an http.RoundTripper may ignore its context, so do not wait longer
	}
	if own := p.Transport.own; own != nil {
		own.CloseIdleConnections()
	}
	if p.spool != nil {
		p.spool.close()
	}
	close(p.ended) // before the results are delivered, because a callback may wait in Flush
	p.results.wait()
	close(p.done)
}

// startSettings starts to read the settings of the source, if configured. It returns a channel
// that is closed when the settings have been read.
func (l *loop) startSettings() <-chan struct{} {
	read := make(chan struct{})
	if l.SourceURL == nil {
		close(read)
		return read
	}
	until := time.Now().Add(settingsWait)
	l.mu.Lock()
	l.outbox.closeGate(until)
	l.unlock()
	go func() {
		defer close(read)
		l.readSettings(l.attempts, until)
	}()
	return read
}

// idleWait is the maximum time that the loop sleeps.
const idleWait = 24 * time.Hour

// step does all scheduled work. It returns the time of the next scheduled work, and whether the
// loop has finished.
func (l *loop) step(now time.Time) (next time.Time, finished bool) {
	l.compressOne()
	next = now.Add(idleWait)
	l.mu.Lock()
	l.sealLate(now)
	if !l.timer.watching.IsZero() {
		next = l.timer.watching
	}
	for len(l.jobs) < l.MaxInFlight {
		b := l.outbox.ready.pop()
		if b == nil {
			break
		}
		l.jobs = append(l.jobs, &job{todo: []*batch{b}})
	}
	l.outbox.busy = len(l.jobs) == l.MaxInFlight
	finished = l.phase != running && len(l.jobs) == 0 && len(l.outbox.sealed.batches) == 0 && (l.spool == nil || l.spool.finished(!l.abandonAt.IsZero()))
	l.shortenWaits(now)
	gate := l.outbox.gateOpens(now)
	l.unlock()
	if at := l.startAttempts(now, gate); at.Before(next) {
		next = at
	}
	return next, finished
}

// sealLate seals the open batch if its interval has passed or the pipeline is closed. The
// caller holds mu.
func (l *loop) sealLate(now time.Time) {
	if l.phase != running && l.open.calls > 0 {
		l.seal(now)
	}
	if l.timer.expired(now, l.open.calls > 0) {
		l.seal(now)
	}
}

// compressOne compresses at most one sealed batch, so that the loop can soon handle outcomes.
func (l *loop) compressOne() {
	l.mu.Lock()
	b := l.outbox.sealed.pop()
	l.unlock()
	if b == nil {
		return
	}
	zip := l.zipper.compress(b.buf, tailLen)
	l.mu.Lock()
	defer l.unlock()
	l.setZip(b, zip)
	l.outbox.ready.push(b)
	l.work = len(l.outbox.sealed.batches) > 0
}

// setZip replaces the bytes of a batch with the compressed bytes. The caller holds mu.
func (l *loop) setZip(b *batch, zip *zipped) {
	l.setCharge(b, batchOverhead+b.idBytes()+int64(cap(zip.data)))
	l.buffers.put(b.buf)
	b.buf, b.zip = nil, zip
}

// shortenWaits limits the pauses of waiting batches to one second when the pipeline is closed.
// Otherwise a pause could exceed the timeout of Close, although the collector may be available
// again. The caller holds mu.
func (l *loop) shortenWaits(now time.Time) {
	if l.phase == running || l.waitsShortened {
		return
	}
	l.waitsShortened = true
	for _, j := range l.jobs {
		if soon := now.Add(time.Second); j.due.After(soon) {
			j.due = soon
		}
	}
}

// startAttempts starts the scheduled attempts unless the gate is closed. It returns the time
// at which it must be called again.
func (l *loop) startAttempts(now, gate time.Time) (next time.Time) {
	next = now.Add(idleWait)
	for _, j := range l.jobs {
		if j.running {
			continue
		}
		at := j.due
		if gate.After(at) {
			at = gate
		}
		if !at.After(now) {
			j.running = true
			b := j.todo[0]
			go l.send(l.attempts, j, b.upload(now))
		} else if at.Before(next) {
			next = at
		}
	}
	switch {
	case l.abandonAt.IsZero() || len(l.jobs) == 0:
	case !now.Before(l.abandonAt):
		l.abandon()
		return now
	case l.abandonAt.Before(next):
		next = l.abandonAt
	}
	return next
}

// handle processes the outcome of an attempt.
func (l *loop) handle(o outcome, now time.Time) {
	j := o.job
	j.running = false
	meaning := l.policy.Load().Classify(o.status)
	var pause retry.Pause
	if meaning == retry.Retry && len(j.todo) > 0 && l.abandonAt.IsZero() {
		pause = l.pause(&j.todo[0].tries, o.retryAfter)
	}
	l.mu.Lock()
	defer l.unlock()
	defer l.removeFinished()
	if l.abandonAt.IsZero() && !o.handled { // proceed has noted it
		l.noteOutage(meaning, o, now)
	}
	if o.handled || len(j.todo) == 0 { // the sender has handled it, or the batch was abandoned
		return
	}
	b := j.todo[0]
	b.inUse = o.inUse
	b.tries.Requests++
	l.stats.Attempts++
	if o.err != nil && l.abandonAt.IsZero() { // a canceled attempt does not count as a failure
		l.flushes.failure = o.err
		b.status, b.err = o.status, o.err
	}
	switch {
	case meaning == retry.Delivered:
		l.end(b, nil)
		if j.parts != nil {
			j.parts.accepted = true
		}
		l.nextPart(j)
	case !l.abandonAt.IsZero():
		l.dropJob(j)
	case meaning == retry.Retry:
		l.retry(j, pause, now)
	case meaning == retry.Split:
		l.refuse(j)
	default:
		l.dropFirst(j, Refused)
	}
}

// retry schedules the next attempt for a job's first batch. After the last attempt, it drops
// the batch. The caller holds mu.
func (l *loop) retry(j *job, pause retry.Pause, now time.Time) {
	step, wait := l.policy.Load().Next(&j.todo[0].tries, pause, l.stats.Delivered, now)
	switch step {
	case retry.Exhausted:
		l.dropFirst(j, Attempts)
		return
	case retry.Expired:
		l.dropFirst(j, Expired)
		return
	case retry.StartOver:
		l.swapWithQueue(j)
	}
	j.due = now.Add(wait)
}

// dropFirst drops the first batch of a job. The caller holds mu. Like nextPart,
// the function may unlock mu.
func (l *loop) dropFirst(j *job, why Reason) {
	b := j.todo[0]
	l.end(b, b.lost(why))
	l.nextPart(j)
}

// swapWithQueue moves the first batch of a job to the end of the queue and replaces it with the
// first batch of the queue. The caller holds mu.
func (l *loop) swapWithQueue(j *job) {
	if len(j.todo) == 1 && j.parts == nil && len(l.outbox.ready.batches) > 0 {
		l.outbox.ready.push(j.todo[0])
		j.todo[0] = l.outbox.ready.pop()
	}
}

// removeFinished removes finished jobs. The caller holds mu.
func (l *loop) removeFinished() {
	l.jobs = slices.DeleteFunc(l.jobs, func(j *job) bool { return len(j.todo) == 0 && !j.running })
}

// onAbort drops all batches that are not being sent, and cancels all attempts.
func (l *loop) onAbort(now time.Time) {
	l.abandonAt = now.Add(abortGrace)
	l.cancel()
	l.mu.Lock()
	defer l.unlock()
	for _, waiting := range []*fifo{&l.outbox.ready, &l.outbox.sealed} {
		for b := waiting.pop(); b != nil; b = waiting.pop() {
			l.dropOnShutdown(b)
		}
	}
	for _, j := range l.jobs {
		if !j.running {
			l.dropJob(j)
		}
	}
	l.removeFinished()
}

// abandon drops the batches of canceled attempts that have not returned. An http.RoundTripper
// may ignore its context.
func (l *loop) abandon() {
	l.mu.Lock()
	defer l.unlock()
	for _, j := range l.jobs {
		if len(j.todo) > 0 {
			j.todo[0].inUse = true
		}
		l.dropJob(j)
		j.running = false
	}
	l.removeFinished()
}

// dropJob drops the batches of a job because of a shutdown. The caller holds mu.
func (l *loop) dropJob(j *job) {
	left := j.todo
	if j.parts != nil {
		left = slices.Concat(left, j.parts.refused, j.parts.untried)
	}
	for _, b := range left {
		l.dropOnShutdown(b)
	}
	j.todo, j.parts = nil, nil
}

// dropOnShutdown drops a batch unless the batch is in the spool. The caller holds mu.
func (l *loop) dropOnShutdown(b *batch) {
	if l.spool == nil {
		l.end(b, b.lost(Shutdown))
		return
	}
	l.reclaim(b)
	l.setCharge(b, 0)
}
