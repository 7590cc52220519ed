package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
)

// run is the goroutine of the pipeline. It ends when the client is closed and every
// call has ended.
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
	case <-time.After(abortGrace): // an http.RoundTripper may ignore its context
	}
	if own := p.Transport.own; own != nil {
		own.CloseIdleConnections()
	}
	if p.spool != nil {
		p.spool.close()
	}
	close(p.ended) // a callback may wait for it
	p.results.wait()
	close(p.done)
}

// startSettings begins to read the settings of the source, if that was asked for. The
// channel is closed when that has ended.
func (l *loop) startSettings() <-chan struct{} {
	read := make(chan struct{})
	if l.SourceURL == nil {
		close(read)
		return read
	}
	l.mu.Lock()
	l.outbox.hold(time.Now().Add(settingsWait))
	l.unlock()
	go func() {
		defer close(read)
		l.readSettings(l.attempts)
	}()
	return read
}

// idleWait is how long the loop sleeps when it has nothing to do by itself.
const idleWait = 24 * time.Hour

// step does what is due. It returns when more will be, or that the loop is to end.
func (l *loop) step(now time.Time) (next time.Time, finished bool) {
	l.compressOne()
	next = now.Add(idleWait)
	l.mu.Lock()
	l.sealOverdue(now)
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
	l.hurry(now)
	gate := l.outbox.held(now)
	l.unlock()
	if at := l.startDue(now, gate); at.Before(next) {
		next = at
	}
	return next, finished
}

// sealOverdue seals the open batch if its time is over, or the client is closed.
// The caller holds mu.
func (l *loop) sealOverdue(now time.Time) {
	if l.phase != running && l.open.calls > 0 {
		l.seal(now)
	}
	if l.timer.expired(now, l.open.calls > 0) {
		l.seal(now)
	}
}

// compressOne compresses one sealed batch, if there is one. It compresses no more,
// so that the loop soon handles outcomes again.
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

// hurry has the batches that wait be tried within a second when the client is closed: the
// collector may be back, and a wait may be longer than the closing. The caller holds mu.
func (l *loop) hurry(now time.Time) {
	if l.phase == running || l.hurried {
		return
	}
	l.hurried = true
	for _, j := range l.jobs {
		if soon := now.Add(time.Second); j.due.After(soon) {
			j.due = soon
		}
	}
}

// startDue begins the attempts that are due, none before the gate opens, and returns
// when the next one is.
func (l *loop) startDue(now, gate time.Time) (next time.Time) {
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

// handle acts on the outcome of an attempt.
func (l *loop) handle(o outcome, now time.Time) {
	j := o.job
	j.running = false
	meaning := l.policy.Load().Classify(o.status)
	var pause retry.Pause
	if meaning == retry.Again && len(j.todo) > 0 && l.abandonAt.IsZero() {
		pause = l.pause(&j.todo[0].tries, o.retryAfter)
	}
	l.mu.Lock()
	defer l.unlock()
	defer l.removeDone()
	if l.abandonAt.IsZero() && l.outage.changes(meaning, now) {
		l.results.note(l.outage.entry(o.status, o.err))
	}
	if o.handled || len(j.todo) == 0 { // or abandoned
		return
	}
	b := j.todo[0]
	b.inUse = o.inUse
	b.tries.Requests++
	l.stats.Attempts++
	if o.err != nil && l.abandonAt.IsZero() { // that an attempt was cancelled is no failure
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
	case meaning == retry.Again:
		l.retry(j, pause, now)
	case meaning == retry.Split:
		l.refuse(j)
	default:
		l.giveUp(j, Refused)
	}
}

// retry makes a job wait for its next attempt, or drops its batch after the last one.
// The caller holds mu.
func (l *loop) retry(j *job, pause retry.Pause, now time.Time) {
	step, wait := l.policy.Load().Next(&j.todo[0].tries, pause, l.stats.Delivered, now)
	switch step {
	case retry.Exhausted:
		l.giveUp(j, Attempts)
		return
	case retry.Expired:
		l.giveUp(j, Expired)
		return
	case retry.StartOver:
		l.putBack(j)
	}
	j.due = now.Add(wait)
}

// giveUp drops the first batch of a job. The caller holds mu, as for nextPart.
func (l *loop) giveUp(j *job, why Reason) {
	b := j.todo[0]
	l.end(b, b.lost(why))
	l.nextPart(j)
}

// putBack lets the batches that wait go before the first of a job. The caller holds mu.
func (l *loop) putBack(j *job) {
	if len(j.todo) == 1 && j.parts == nil && len(l.outbox.ready.batches) > 0 {
		l.outbox.ready.push(j.todo[0])
		j.todo[0] = l.outbox.ready.pop()
	}
}

// removeDone removes the jobs that are done. The caller holds mu.
func (l *loop) removeDone() {
	jobs := l.jobs[:0]
	for _, j := range l.jobs {
		if len(j.todo) > 0 || j.running {
			jobs = append(jobs, j)
		}
	}
	clear(l.jobs[len(jobs):])
	l.jobs = jobs
}

// onAbort drops all batches that are not being sent, and cancels the others.
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
	l.removeDone()
}

// abandon drops batches that are still being sent after they were cancelled: an
// http.RoundTripper may ignore its context.
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
	l.removeDone()
}

// dropJob drops what is left of a job on shutdown. The caller holds mu.
func (l *loop) dropJob(j *job) {
	left := j.todo
	if j.parts != nil {
		left = slices.Concat(left, j.parts.refused, j.parts.aside)
	}
	for _, b := range left {
		l.dropOnShutdown(b)
	}
	j.todo, j.parts = nil, nil
}

// dropOnShutdown drops a batch, unless the spool keeps it. The caller holds mu.
func (l *loop) dropOnShutdown(b *batch) {
	if l.spool == nil {
		l.end(b, b.lost(Shutdown))
		return
	}
	l.reclaim(b)
	l.recharge(b, 0)
}
