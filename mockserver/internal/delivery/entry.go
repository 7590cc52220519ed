package delivery

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// lastAttemptGrace is how long after the end of the window the last attempt may be made.
	lastAttemptGrace = time.Minute
	// finishTimeout is how long a drained worker waits for the journal to store a result. A
	// running worker waits without a limit: a journal with a full disk blocks until there is
	// space.
	finishTimeout = 5 * time.Second
)

// windowEnd returns the end of the retry window of an entry.
func windowEnd(e *journal.Entry) time.Time { return e.Since.Add(webhook.Window) }

// deliver delivers the calls of an entry or schedules their retries. It starts no requests if the
// worker is not running.
func (w *Worker) deliver(lease journal.Lease) {
	admitting := w.admission()
	e := lease.Entry()
	lane := laneOf(&e)
	defer w.gate.endEntry(lane, len(e.Calls))
	jobs, tickets := w.jobsOf(&e, &w.requests), make([]*ticket, 0, len(e.Calls))
	for i := range jobs {
		if admitting.Err() == nil && jobs[i].prepare() {
			tickets = append(tickets, &jobs[i].ticket)
		}
	}
	left, late := w.gate.run(admitting, lane, tickets, windowEnd(&e).Add(lastAttemptGrace))
	if late {
		for _, t := range left {
			t.call.(*job).delivery = expired("it could not be attempted in that time")
		}
	}
	if r, ok := w.result(&e, jobs, time.Now()); ok {
		w.finish(lease, jobs, r)
	} else {
		lease.Return()
	}
}

// admission returns a context that is canceled when no more calls may begin.
func (w *Worker) admission() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.admitting
}

// finish stores the result of an entry and notifies the observer. It reports whether the
// result is stored.
func (w *Worker) finish(lease journal.Lease, jobs []job, result journal.Result) (stored bool) {
	e, now := lease.Entry(), time.Now()
	result.Kept = keptOf(jobs)
	defer w.ending.Begin(w.name)()
	ctx, stop := w.untilDrained()
	defer stop()
	if err := lease.Finish(ctx, result); err != nil {
		w.Log.Error("could not store a result in the journal; its calls may be delivered again",
			"destination", w.name, "entry", e.ID, "calls", len(e.Calls), "error", err)
		return false
	}
	w.logFailures(jobs, now)
	for i, o := range result.Outcomes {
		if !jobs[i].delivery.decided {
			continue
		}
		c := &e.Calls[i]
		ended := tracking.Ended{
			CallID: c.ID, Source: c.Source, Destination: w.name,
			At: now, ReceivedAt: c.ReceivedAt, Attempt: jobs[i].attempt, Outcome: o, Shared: jobs[i].ticket.shared, Call: c,
		}
		if o.State == tracking.StatePending {
			ended.RetryAt = cmp.Or(jobs[i].delivery.due, result.RetryAt)
		}
		w.Observer.Observe(ended)
	}
	return true
}

// result returns the result of an entry for the journal. ok is false if no call was attempted.
// Temporary failures are retried until the window of the entry ends.
func (w *Worker) result(e *journal.Entry, jobs []job, now time.Time) (r journal.Result, ok bool) {
	interrupted, attempt := 0, 0 // attempt is the highest number of a failed attempt
	var notBefore time.Time
	for i := range jobs {
		d := &jobs[i].delivery
		if d.notBefore.After(notBefore) {
			notBefore = d.notBefore
		}
		if !d.decided {
			interrupted++
		} else if d.State == tracking.StatePending {
			attempt = max(attempt, jobs[i].attempt)
		}
	}
	if interrupted == len(jobs) {
		return r, false
	}
	r = journal.Result{Outcomes: make([]tracking.Outcome, len(jobs)), RetryAt: now, MayWait: true}
	inTime := true
	if attempt > 0 {
		var next time.Time
		if next, inTime = sender.Next(now, windowEnd(e), attempt, notBefore.Sub(now), w.Jitter()); inTime {
			r.RetryAt = next
		}
	}
	for i := range jobs {
		d := &jobs[i].delivery
		switch {
		case !d.decided:
			d.Note = jobs[i].note.skippedOnce().String()
		case d.State == tracking.StatePending && !inTime:
			*d = expired(d.Reason)
		}
		r.Outcomes[i] = d.Outcome
	}
	return r, true
}

// resultInOrder is like result, for ordered delivery: the journal parks pending calls until the
// queues resume their entry, and their notes contain the due times. The result must be stored
// even if no call was attempted: later calls may already be stored as waiting, and a new process
// must find both the earlier and the later calls.
func resultInOrder(jobs []job) (r journal.Result) {
	r.Outcomes, r.Parked = make([]tracking.Outcome, len(jobs)), true
	for i := range jobs {
		d := &jobs[i].delivery
		if !d.decided || d.State == tracking.StatePending {
			next := jobs[i].note.skippedOnce()
			if d.decided {
				next = parseNote(d.Note)
			}
			if next.due, next.wait = d.due, 0; !d.due.IsZero() {
				next.wait = max(time.Until(d.due), 0)
			}
			d.Note = next.String()
		}
		r.Outcomes[i] = d.Outcome
	}
	return r
}

// keptOf reports for each call whether it is filtered but kept for replay. It returns nil if
// there are no such calls.
func keptOf(jobs []job) (kept []bool) {
	for i := range jobs {
		if !jobs[i].delivery.kept {
			continue
		}
		if kept == nil {
			kept = make([]bool, len(jobs))
		}
		kept[i] = true
	}
	return kept
}

// untilDrained returns a context that is canceled finishTimeout after the worker is drained. If
// the worker is already drained, the timeout starts now.
func (w *Worker) untilDrained() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	unlink := context.AfterFunc(w.leasing, func() { time.AfterFunc(finishTimeout, cancel) })
	return ctx, func() { unlink(); cancel() }
}

// logFailures logs calls that failed permanently, and failures of the destination.
func (w *Worker) logFailures(jobs []job, now time.Time) {
	failed, cause := 0, ""
	for i := range jobs {
		if d := &jobs[i].delivery; d.State == tracking.StateFailed {
			failed, cause = failed+1, cmp.Or(jobs[i].cause, d.Reason)
		}
	}
	if failed > 0 {
		w.status.gaveUp(now, failed, cause)
	}
	w.status.flush(now)
}
