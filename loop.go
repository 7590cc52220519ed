package analytics

import (
	"context"
	"slices"
	"time"
)

// loop is what the pipeline's goroutine alone touches.
type loop struct {
	*pipeline
	jobs    []*job    // at most MaxInFlight
	senders []*sender // likewise: those that have nothing to send
	giveUp  time.Time // when cancelled attempts are left behind; zero unless aborted
	zipper  compressor

	attempts context.Context // of every attempt
	cancel   context.CancelFunc
}

// job sends one batch: an attempt, a wait, another attempt, until the batch, or
// each part that it was split into, has ended.
//
// While it runs, its sender has it take further batches; mu guards todo then.
type job struct {
	todo    []*batch   // in the order in which it is sent
	due     time.Time  // when the first of todo may be sent
	running bool       // a sender is at work on it
	parts   *bisection // of a batch that was refused, of which todo are parts; nil if it was not
}

// run is the pipeline's goroutine. It ends when the client is closed and every
// call has ended.
func (p *pipeline) run() {
	l := &loop{pipeline: p}
	l.attempts, l.cancel = context.WithCancel(context.Background())
	timer := time.NewTimer(0)
	aborted := p.aborted
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
			l.settle(o, time.Now())
		case <-aborted:
			aborted = nil
			l.abandon(time.Now())
		}
	}
	timer.Stop()
	l.cancel()
	if p.ownTransport != nil {
		p.ownTransport.CloseIdleConnections()
	}
	if p.spool != nil {
		p.spool.close()
	}
	close(p.ended) // before the wait for a callback that may wait for it
	p.results.wait()
	close(p.done)
}

// asleep is how long the loop sleeps when only a poke can give it work.
const asleep = 24 * time.Hour

// step does what is due, and says when more will be.
func (l *loop) step(now time.Time) (next time.Time, finished bool) {
	l.compressOne()
	next = now.Add(asleep)
	l.mu.Lock()
	l.sealOverdue(now)
	if !l.timer.watching.IsZero() {
		next = l.timer.watching
	}
	for len(l.jobs) < l.maxInFlight {
		b := l.outbox.ready.pop()
		if b == nil {
			break
		}
		l.jobs = append(l.jobs, &job{todo: []*batch{b}})
	}
	l.outbox.busy = len(l.jobs) == l.maxInFlight
	finished = l.phase != running && len(l.jobs) == 0 && l.outbox.sealed.empty() && (l.spool == nil || l.spool.finished(!l.giveUp.IsZero()))
	l.unlock()
	if at := l.startDue(now); at.Before(next) {
		next = at
	}
	return next, finished
}

// sealOverdue seals the open batch if its time is up, and sees to it that the
// loop will look again. The caller holds mu.
func (l *loop) sealOverdue(now time.Time) {
	if l.phase != running && l.open != nil {
		l.seal(now)
	}
	if l.timer.expired(now, l.open != nil) {
		l.seal(now)
	}
}

// compressOne compresses one sealed batch, if one waits for it. It does no more
// so that the loop is never long away from the answers.
func (l *loop) compressOne() {
	l.mu.Lock()
	b := l.outbox.sealed.pop()
	l.unlock()
	if b == nil {
		return
	}
	zip := l.zipper.compress(b.buf)
	l.mu.Lock()
	defer l.unlock()
	l.setZip(b, zip)
	l.outbox.ready.push(b)
	l.work = !l.outbox.sealed.empty()
}

// setZip replaces the bytes of a batch by their compressed form. The caller
// holds mu.
func (l *loop) setZip(b *batch, zip *zipped) {
	l.recharge(b, b.charge-int64(cap(b.buf))+int64(cap(zip.data)))
	l.buffers.put(b.buf)
	b.buf, b.zip = nil, zip
}

// startDue begins the attempts that are due, and says when the next one is.
func (l *loop) startDue(now time.Time) (next time.Time) {
	next = now.Add(asleep)
	gate := l.gate(now)
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
			go l.sender().send(j, j.todo[0].body(now))
		} else if at.Before(next) {
			next = at
		}
	}
	switch {
	case l.giveUp.IsZero() || len(l.jobs) == 0:
	case !now.Before(l.giveUp):
		l.leaveBehind()
		return now
	case l.giveUp.Before(next):
		next = l.giveUp
	}
	return next
}

// sender returns one that has nothing to send, or a new one.
func (l *loop) sender() *sender {
	n := len(l.senders)
	if n == 0 {
		return l.newSender(l.attempts)
	}
	s := l.senders[n-1]
	l.senders = l.senders[:n-1]
	return s
}

// gate returns until when nothing is to be sent.
func (l *loop) gate(now time.Time) time.Time {
	l.mu.Lock()
	defer l.unlock()
	return l.outbox.held(now)
}

// settle acts on what an attempt came to.
func (l *loop) settle(o outcome, now time.Time) {
	j := o.job
	j.running = false
	if !o.last {
		l.senders = append(l.senders, o.sender)
	}
	l.mu.Lock()
	defer l.unlock()
	defer l.sweep()
	if o.settled || len(j.todo) == 0 { // or left behind
		return
	}
	b := j.todo[0]
	b.lent = o.last
	b.attempts++
	l.stats.Attempts++
	if o.err != nil && l.giveUp.IsZero() { // that an attempt was cancelled says nothing
		l.flushes.failure = o.err
		b.status, b.err = o.status, o.err
	}
	switch v := judge(o.status); {
	case v == delivered:
		l.end(b, nil)
		if j.parts != nil {
			j.parts.taken = true
		}
		l.pass(j)
	case !l.giveUp.IsZero():
		l.dropJob(j)
	case v == again:
		l.retry(j, o, now)
	case v == halve:
		l.refuse(j)
	default:
		l.end(b, b.lost(DropRefused))
		l.pass(j)
	}
}

// retry puts a failed batch off, or drops it after the last attempt. The caller
// holds mu.
func (l *loop) retry(j *job, o outcome, now time.Time) {
	b := j.todo[0]
	if o.retryAfter > 0 {
		return // it does not count, and the gate is closed
	}
	if b.failures++; b.failures == 1 {
		b.taken = l.stats.Delivered
	}
	switch {
	case b.failures < l.maxAttempts:
	case l.spool != nil && b.taken == l.stats.Delivered:
		l.putBack(j)
	default:
		l.end(b, b.lost(DropAttempts))
		l.pass(j)
		return
	}
	j.due = now.Add(backoff(l.backo, max(b.failures, 1)))
}

// putBack has a batch start over after its last attempt, since the collector
// takes no other either. Those that wait go first. The caller holds mu.
func (l *loop) putBack(j *job) {
	b := j.todo[0]
	b.failures = 0
	if len(j.todo) == 1 && j.parts == nil && !l.outbox.ready.empty() {
		l.outbox.ready.push(b)
		j.todo[0] = l.outbox.ready.pop()
	}
}

// sweep forgets the jobs that are done. The caller holds mu.
func (l *loop) sweep() {
	jobs := l.jobs[:0]
	for _, j := range l.jobs {
		if len(j.todo) > 0 || j.running {
			jobs = append(jobs, j)
		}
	}
	clear(l.jobs[len(jobs):])
	l.jobs = jobs
}

// abandon drops all that is not being sent, and cancels what is.
func (l *loop) abandon(now time.Time) {
	l.giveUp = now.Add(abortGrace)
	l.cancel()
	l.mu.Lock()
	defer l.unlock()
	for _, waiting := range []*fifo{&l.outbox.ready, &l.outbox.sealed} {
		for b := waiting.pop(); b != nil; b = waiting.pop() {
			l.leave(b)
		}
	}
	for _, j := range l.jobs {
		if !j.running {
			l.dropJob(j)
		}
	}
	l.sweep()
}

// leaveBehind drops what is still being sent after it was cancelled.
func (l *loop) leaveBehind() {
	l.mu.Lock()
	defer l.unlock()
	for _, j := range l.jobs {
		if len(j.todo) > 0 {
			j.todo[0].lent = true
		}
		l.dropJob(j)
		j.running = false
	}
	l.sweep()
}

// dropJob drops what is left of a job as the client shuts down. The caller
// holds mu.
func (l *loop) dropJob(j *job) {
	left := j.todo
	if j.parts != nil {
		left = slices.Concat(left, j.parts.refused, j.parts.aside)
	}
	for _, b := range left {
		l.leave(b)
	}
	j.todo, j.parts = nil, nil
}

// leave drops a batch as the client shuts down, or leaves it to the spool. The
// caller holds mu.
func (l *loop) leave(b *batch) {
	if l.spool == nil {
		l.end(b, b.lost(DropShutdown))
		return
	}
	l.reclaim(b)
	l.recharge(b, 0)
}
