package mockserver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// leases is how many entries of one destination are worked at at once. What
	// is beyond stays in the journal.
	leases = 4
	// stragglers is how many requests of one destination may still be waiting for
	// an answer after another webhook has taken their call.
	stragglers = 1024
	// lastAttemptGrace is how late the last attempt, which is due when the window
	// ends, may still be made.
	lastAttemptGrace = time.Minute
	// journalPause is how long a forwarder waits after the journal failed it.
	journalPause = time.Second
)

// A forwarder brings the calls of one destination to its webhooks. One goroutine
// leases entries from the journal; each entry is worked at by one of its own, and
// each call of it by another, no more at once than there are slots. A destination
// that hangs fills its own slots and nobody else's.
type forwarder struct {
	name     string
	settings atomic.Pointer[Destination]
	sender   *webhook.Sender
	clock    Clock
	record   Recorder
	log      *slog.Logger
	breaker  *breaker
	slots    chan struct{} // one token for each call under way
	waiting  chan struct{} // one token for each straggler
	requests sync.WaitGroup

	drain  context.CancelFunc // makes run lease no more, and end once the calls under way have
	cancel context.CancelFunc // breaks off the requests under way
	done   chan struct{}      // closed when run has ended
	since  time.Time          // when it was attached

	mu        sync.Mutex // guards what follows
	reader    Reader     // nil while it is not attached
	paused    bool
	interrupt context.CancelFunc // makes next look again
}

// run works until ctx ends. Requests go on until requests ends, which is later.
func (f *forwarder) run(ctx, requests context.Context) {
	defer close(f.done)
	var work sync.WaitGroup
	defer work.Wait()
	free := make(chan struct{}, leases)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		lease, err := f.next(ctx)
		switch {
		case err == nil:
			work.Go(func() {
				f.work(ctx, requests, lease)
				<-free
			})
			continue
		case ctx.Err() != nil:
			return
		case !errors.Is(err, ErrJournalClosed):
			f.log.Error("the journal hands out nothing", "destination", f.name, "error", err)
			f.sleep(ctx, journalPause)
		}
		<-free
	}
}

// next waits until the destination is not paused and an entry is due.
func (f *forwarder) next(ctx context.Context) (Lease, error) {
	for {
		until, stop := context.WithCancel(ctx)
		f.mu.Lock()
		reader := f.reader
		if f.paused {
			reader = nil
		}
		f.interrupt = stop
		f.mu.Unlock()
		if reader == nil {
			<-until.Done()
		} else if lease, err := reader.Next(until); err == nil || (until.Err() == nil && !errors.Is(err, ErrJournalClosed)) {
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

// set changes what next looks at, and makes it look again.
func (f *forwarder) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	if f.interrupt != nil {
		f.interrupt()
	}
}

// forget drops a reader that the journal has closed, until there is another.
func (f *forwarder) forget(closed Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == closed {
		f.reader = nil
	}
}

func (f *forwarder) sleep(ctx context.Context, d time.Duration) {
	timer, stop := f.clock.After(d)
	defer stop()
	select {
	case <-timer:
	case <-ctx.Done():
	}
}

// work brings every call of an entry to an end, or to its next attempt. Once
// ctx ends it begins with no more calls; requests breaks off those under way.
func (f *forwarder) work(ctx, requests context.Context, lease Lease) {
	e, d := lease.Entry(), f.settings.Load()
	results := make([]delivery, len(e.Calls))
	var calls sync.WaitGroup
	for i := range e.Calls {
		if deliver, reason := route(d, &e.Calls[i]); !deliver {
			results[i] = delivery{Outcome: Outcome{State: StateFiltered, Reason: reason}, decided: true}
			continue
		}
		if !f.admit(ctx, e) {
			if ctx.Err() != nil {
				continue // left undecided
			}
			results[i] = f.expired("it could not be tried in that time")
			continue
		}
		calls.Go(func() {
			results[i] = f.deliver(requests, d, &e.Calls[i], e)
			<-f.slots
		})
	}
	calls.Wait()
	f.finish(ctx, lease, results)
}

// admit waits for a slot and for the breaker. It is false where the window
// closes first, or ctx ends.
func (f *forwarder) admit(ctx context.Context, e Entry) bool {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if f.breaker.wait(ctx, e.Since.Add(webhook.Window+lastAttemptGrace)) {
		return true
	}
	<-f.slots
	return false
}

// A delivery is what one attempt to bring a call to its webhooks came to.
type delivery struct {
	Outcome
	decided    bool          // false where it was interrupted
	retryAfter time.Duration // asked for by a receiver
}

func (f *forwarder) expired(why string) delivery {
	return delivery{Outcome: Outcome{State: StateFailed, Reason: "4 hours have passed since the call was accepted; " + why}, decided: true}
}

// deliver sends one call to all webhooks of its destination at once. The first
// that takes it decides; the others are left to end by themselves.
func (f *forwarder) deliver(ctx context.Context, d *Destination, c *Call, e Entry) delivery {
	body, err := webhook.Payload(c.Body, d.AliasFields)
	if err != nil {
		f.breaker.abandon()
		return delivery{Outcome: Outcome{State: StateFailed, Reason: err.Error()}, decided: true}
	}
	request := webhook.Request{Body: body, MessageID: c.ID, Number: e.Attempt}
	if d.SharedSecret != "" {
		request.Signature = webhook.Sign(d.SharedSecret, body)
	}
	attempts := make(chan webhook.Attempt, len(d.Webhooks))
	for _, endpoint := range d.Webhooks[1:] {
		f.waiting <- struct{}{}
		f.requests.Go(func() {
			attempts <- f.send(ctx, c, request, endpoint)
			<-f.waiting
		})
	}
	if len(d.Webhooks) == 1 {
		attempts <- f.send(ctx, c, request, d.Webhooks[0])
	} else {
		f.waiting <- struct{}{}
		f.requests.Go(func() {
			attempts <- f.send(ctx, c, request, d.Webhooks[0])
			<-f.waiting
		})
	}
	return f.decide(ctx, attempts, len(d.Webhooks))
}

// send makes one attempt and records it.
func (f *forwarder) send(ctx context.Context, c *Call, r webhook.Request, to webhook.Endpoint) webhook.Attempt {
	r.Endpoint = to
	a := f.sender.Send(ctx, r)
	f.record.Attempted(Attempt{CallID: c.ID, Source: c.Source, Destination: f.name, Attempt: a})
	return a
}

// decide waits for the first success, or for all to fail.
func (f *forwarder) decide(ctx context.Context, attempts <-chan webhook.Attempt, n int) delivery {
	var result delivery
	temporary := false
	for range n {
		a := <-attempts
		switch a.Verdict {
		case webhook.Success:
			f.breaker.report(true)
			return delivery{Outcome: Outcome{State: StateDelivered}, decided: true}
		case webhook.Temporary:
			temporary = true
			result.retryAfter = max(result.retryAfter, a.RetryAfter)
		}
		if result.Reason != "" {
			result.Reason += "; "
		}
		result.Reason += a.URL + ": " + a.Error
	}
	if ctx.Err() != nil {
		f.breaker.abandon()
		return delivery{} // we broke it off ourselves
	}
	result.decided = true
	result.State = StatePending
	if !temporary {
		result.State = StateFailed
	}
	f.breaker.report(!temporary) // a receiver that refuses a call is not down
	return result
}

// finish tells the journal how the entry ended, and the recorder of each call.
func (f *forwarder) finish(ctx context.Context, lease Lease, results []delivery) {
	e, now := lease.Entry(), f.clock.Now()
	result := Result{Outcomes: make([]Outcome, len(results)), RetryAt: now}
	interrupted := 0
	var retryAfter time.Duration
	for _, r := range results {
		retryAfter = max(retryAfter, r.retryAfter)
		if !r.decided {
			interrupted++
		}
	}
	if interrupted == len(results) {
		lease.Return()
		return
	}
	next, inTime := webhook.Next(now, e.Since, e.Attempt, retryAfter, rand.Float64())
	if inTime {
		result.RetryAt = next
	}
	for i, r := range results {
		if r.decided && r.State == StatePending && !inTime {
			r = f.expired(r.Reason)
		}
		result.Outcomes[i] = r.Outcome
	}
	if err := lease.Finish(context.WithoutCancel(ctx), result); err != nil {
		f.log.Error("the journal did not take a result; its calls may be delivered again",
			"destination", f.name, "entry", e.ID, "calls", len(e.Calls), "error", err)
		return
	}
	for i, o := range result.Outcomes {
		c := &e.Calls[i]
		ended := Ended{
			CallID: c.ID, Source: c.Source, Destination: f.name,
			At: now, ReceivedAt: c.ReceivedAt, Attempt: e.Attempt, Outcome: o,
		}
		if o.State == StatePending {
			ended.RetryAt = result.RetryAt
		}
		f.record.Ended(ended)
	}
}
