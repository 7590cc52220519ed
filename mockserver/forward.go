package mockserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// leases is how many entries of one destination are worked at at once, and more
	// only where their calls are fewer than may be under way. What is beyond stays in
	// the journal.
	leases = 4
	// heldCalls is how many calls the entries that are worked at have at most where
	// another is taken that is more than leases: what of them is delivered is delivered
	// again if the process dies before the whole entry has ended.
	heldCalls = 384
	// maxEntries is how many entries are worked at at most. What is beyond leases is
	// one for each source that has none, and one for those that are tried again: calls
	// that take long, or wait for their turn, keep only those of their own source back.
	maxEntries = 64
	// stragglers is how many requests of one destination may be under way at once,
	// whatever its Concurrency: those of calls that another webhook has taken
	// already go on until they are answered, or time out.
	stragglers = 1024
	// lastAttemptGrace is how late the last attempt, which is due when the window
	// ends, may still be made.
	lastAttemptGrace = time.Minute
	// journalPause is how long a forwarder waits after the journal failed it.
	journalPause = time.Second
)

// A forwarder brings the calls of one destination to its webhooks. One goroutine
// leases entries from the journal; each entry is waited for by one of its own, and
// its calls are sent by as many more as its gate lets through at once. A destination
// that hangs fills its own gate and nobody else's.
type forwarder struct {
	name     string
	settings atomic.Pointer[Destination]
	sender   *webhook.Sender
	clock    Clock
	record   Recorder
	log      *slog.Logger
	gate     *gate
	random   func() float64
	requests sync.WaitGroup
	timeouts timeouts // of the requests; their parent ends with cancel
	// To be said in the log: that calls are given up, and that the destination fails.
	givingUp, goingDown seldom
	failsWith           atomic.Pointer[string] // why it fails, where that was not said
	saidDown            atomic.Bool            // it was said that the destination is down

	leasing context.Context    // of run; ends with drain
	drain   context.CancelFunc // makes run lease no more, and end once the calls under way have
	cancel  context.CancelFunc // breaks off the requests under way
	done    chan struct{}      // closed when run has ended
	// attach opens the queue again; it returns nil where that is not to be done now.
	attach func(context.Context, *forwarder) (Reader, error)

	mu        sync.Mutex // guards what follows
	reader    Reader     // nil once the journal has closed it, until there is another
	since     time.Time  // when it was attached
	paused    bool
	interrupt context.CancelFunc // makes next look again
	going     context.Context    // ends with leasing, and when the destination is paused; another begins when it is resumed
	halt      context.CancelFunc // ends going
}

// run works until leasing ends. Requests under way go on.
func (f *forwarder) run() {
	ctx := f.leasing
	defer close(f.done)
	var work sync.WaitGroup
	defer work.Wait()
	for ctx.Err() == nil {
		lease, err := f.next(ctx)
		switch {
		case err == nil:
			e := lease.Entry()
			f.gate.beginEntry(laneOf(&e), len(e.Calls))
			work.Go(func() { f.work(lease) })
		case ctx.Err() == nil && !errors.Is(err, ErrJournalClosed):
			f.log.Error("the journal hands out nothing", "destination", f.name, "error", err)
			f.sleep(ctx, f.clock.Now().Add(journalPause))
		}
	}
}

// next waits until the destination is not paused and an entry is due that the gate
// wants.
func (f *forwarder) next(ctx context.Context) (Lease, error) {
	for {
		until, stop := context.WithCancel(ctx)
		f.mu.Lock()
		reader, paused := f.reader, f.paused
		f.interrupt = stop
		f.mu.Unlock()
		want, at, ok := f.gate.want(stop)
		if paused || reader != nil && !ok {
			f.sleep(until, at)
		} else if reader == nil {
			f.reopen(until)
		} else if lease, err := reader.Next(until, want); err == nil || (until.Err() == nil && !errors.Is(err, ErrJournalClosed)) {
			stop()
			return lease, err
		} else if until.Err() == nil {
			f.forget(reader)
		}
		stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// set changes what next looks at, and makes it look again. Where the destination
// is paused now, the entries that are worked at begin with no more calls.
func (f *forwarder) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	switch {
	case f.paused:
		f.halt()
	case f.going.Err() != nil:
		f.going, f.halt = context.WithCancel(f.leasing)
	}
	if f.interrupt != nil {
		f.interrupt()
	}
}

// whileGoing returns the context in which calls may begin.
func (f *forwarder) whileGoing() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.going
}

// read goes on with another reader. The lock is held.
func (f *forwarder) read(r Reader) { f.reader, f.since = r, r.Since() }

// attachedSince tells when the destination was attached.
func (f *forwarder) attachedSince() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.since
}

// forget drops a reader that the journal has closed, until there is another.
func (f *forwarder) forget(closed Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == closed {
		f.reader = nil
	}
}

// reopen opens the queue again that the journal has closed: another process that
// shares the journal has detached the destination, and this one still has it. Where it
// is about to be removed here too, that comes first.
func (f *forwarder) reopen(ctx context.Context) {
	f.sleep(ctx, f.clock.Now().Add(journalPause))
	if ctx.Err() != nil {
		return
	}
	reader, err := f.attach(ctx, f)
	switch {
	case errors.Is(err, ErrJournalClosed):
		<-ctx.Done()
	case err != nil && ctx.Err() == nil:
		f.log.Error("a destination that was detached cannot be attached again; it is tried again", "destination", f.name, "error", err)
	case reader != nil:
		f.log.Warn("another collector has removed a destination that this one has; it gets calls from now on again", "destination", f.name)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.reader == nil {
			f.read(reader)
		}
	}
}

// sleep waits until ctx ends, or a time if it is not the zero time.
func (f *forwarder) sleep(ctx context.Context, until time.Time) {
	if until.IsZero() {
		<-ctx.Done()
		return
	}
	timer, stop := wakeAt(f.clock, until)
	defer stop()
	select {
	case <-timer:
	case <-ctx.Done():
	}
}

// laneOf returns the lane of an entry before the gate.
func laneOf(e *Entry) laneKey {
	if e.Attempt > 1 || len(e.Calls) == 0 {
		return laneKey{again: true}
	}
	return laneKey{source: e.Calls[0].Source}
}

// work brings every call of an entry to an end, or to its next attempt. Once the
// forwarder is drained or paused it begins with no more calls.
func (f *forwarder) work(lease Lease) {
	going, e := f.whileGoing(), lease.Entry()
	lane := laneOf(&e)
	defer f.gate.endEntry(lane, len(e.Calls))
	jobs, turns := make([]job, len(e.Calls)), make([]*turn, 0, len(e.Calls))
	for i := range jobs {
		j := &jobs[i]
		*j = job{forwarder: f, call: &e.Calls[i], note: e.note(i)}
		j.attempt = e.Attempt - j.note.skipped
		if going.Err() == nil && j.prepare() {
			turns = append(turns, &j.turn)
		}
	}
	left, late := f.gate.bring(going, lane, turns, e.Since.Add(webhook.Window+lastAttemptGrace))
	if late {
		for _, t := range left {
			t.call.(*job).delivery = expired("it could not be tried in that time")
		}
	}
	f.finish(lease, jobs)
}

// finish tells the journal how the entry ended, and the recorder of each call.
func (f *forwarder) finish(lease Lease, jobs []job) {
	e, now := lease.Entry(), f.clock.Now()
	result := Result{Outcomes: make([]Outcome, len(jobs)), RetryAt: now}
	interrupted, attempt := 0, 0 // the highest that failed: those that are left, if any, were not tried
	var retryAfter time.Duration
	for i := range jobs {
		d := &jobs[i].delivery
		retryAfter = max(retryAfter, d.retryAfter)
		if !d.decided {
			interrupted++
		} else if d.State == StatePending {
			attempt = max(attempt, jobs[i].attempt)
		}
	}
	if interrupted == len(jobs) {
		lease.Return()
		return
	}
	inTime := true
	if attempt > 0 {
		var next time.Time
		if next, inTime = webhook.Next(now, e.Since, attempt, retryAfter, f.random()); inTime {
			result.RetryAt = next
		}
	}
	for i := range jobs {
		d := &jobs[i].delivery
		switch {
		case !d.decided:
			skipped := jobs[i].note // as it was found
			skipped.skipped++
			d.Note = skipped.String()
		case d.State == StatePending && !inTime:
			*d = expired(d.Reason)
		}
		result.Outcomes[i] = d.Outcome
	}
	ctx, stop := f.untilDrained()
	defer stop()
	if err := lease.Finish(ctx, result); err != nil {
		f.log.Error("the journal did not take a result; its calls may be delivered again",
			"destination", f.name, "entry", e.ID, "calls", len(e.Calls), "error", err)
		return
	}
	f.logGivenUp(jobs, now)
	f.logFailing()
	for i, o := range result.Outcomes {
		if !jobs[i].delivery.decided {
			continue
		}
		c := &e.Calls[i]
		ended := Ended{
			CallID: c.ID, Source: c.Source, Destination: f.name,
			At: now, ReceivedAt: c.ReceivedAt, Attempt: jobs[i].attempt, Outcome: o, Call: c,
		}
		if o.State == StatePending {
			ended.RetryAt = result.RetryAt
		}
		f.record.Ended(ended)
	}
}

// finishPatience is how long a forwarder that is drained waits for the journal to take
// a result. Before it waits as long as that takes: a journal whose disk is full holds
// results until it has room.
const finishPatience = 5 * time.Second

// untilDrained returns a context that ends finishPatience after the forwarder was
// drained, or after now if it was before.
func (f *forwarder) untilDrained() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	unlink := context.AfterFunc(f.leasing, func() { time.AfterFunc(finishPatience, cancel) })
	return ctx, func() { unlink(); cancel() }
}

// logGivenUp logs that calls have failed for good.
func (f *forwarder) logGivenUp(jobs []job, now time.Time) {
	failed, why := 0, ""
	for i := range jobs {
		if d := &jobs[i].delivery; d.State == StateFailed {
			failed, why = failed+1, cmp.Or(jobs[i].turn.why, d.Reason)
		}
	}
	if failed == 0 {
		return
	}
	if say, unsaid := f.givingUp.say(now, givenUpEvery, failed); say {
		f.log.Warn("calls were given up; they can be replayed", "destination", f.name, "calls", failed, "error", why, "others since the last line", unsaid)
	}
}

// logStanding logs how the destination does now, seldom where that changes often: what
// is not said then is said once it has lasted.
func (f *forwarder) logStanding(is breakerState, why string) {
	switch {
	case is == unreachable:
		f.log.Warn("a destination cannot be reached: its calls wait, and now and then one is tried", "destination", f.name, "error", why)
	case is == failing:
		f.failsWith.Store(&why)
		f.logFailing()
		return
	case f.saidDown.Load():
		f.log.Info("a destination answers again", "destination", f.name)
	}
	f.failsWith.Store(nil)
	f.saidDown.Store(is != working)
}

// logFailing logs that the destination fails, if it does and that is to be said.
func (f *forwarder) logFailing() {
	why := f.failsWith.Load()
	if why == nil {
		return
	}
	if say, _ := f.goingDown.say(f.clock.Now(), givenUpEvery, 1); say && f.failsWith.CompareAndSwap(why, nil) {
		f.log.Warn("a destination takes no calls: they are tried at a lower rate", "destination", f.name, "error", *why)
		f.saidDown.Store(true)
	}
}

// rest tells whether nothing goes on here that does not wait for the clock to
// pass now, and until when at most. It is known of readers that tell what they
// have before them, as those of the journal in memory do.
func (f *forwarder) rest(now time.Time) (until time.Time, atRest bool) {
	f.mu.Lock()
	reader := f.reader
	if f.paused {
		reader = nil
	}
	f.mu.Unlock()
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	if until, atRest = f.gate.rest(now); !atRest {
		return until, false
	}
	r, known := reader.(interface {
		state(Want) (due time.Time, waiting bool, leased int)
	})
	if !known {
		return until, true
	}
	want, at, ok := f.gate.wanted(now)
	due, waiting, leased := r.state(want)
	if leased != f.gate.entries {
		return until, false // one is being taken up, or has just been finished
	}
	if !waiting || !ok && at.IsZero() {
		return until, true
	}
	if due.Before(at) {
		due = at
	}
	return earlier(until, due), now.Before(due)
}
