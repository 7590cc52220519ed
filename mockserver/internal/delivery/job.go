package delivery

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A job delivers one call to the webhooks of a destination.
type job struct {
	*Worker
	requests    *requests
	destination *target
	call        *tracking.Call
	trace       *event.Trace // trace context of the request that contained the call, or nil
	attempt     int          // number of the next attempt
	note        note
	webhooks    []endpoint
	ticket      ticket
	accepted    atomic.Bool // a webhook accepted the call
	delivery    delivery    // the result
	cause       string      // error of the last webhook, without the URL, which may contain secrets
}

// jobsOf returns one job for each call of an entry.
func (w *Worker) jobsOf(e *journal.Entry, rs *requests) []job {
	jobs := make([]job, len(e.Calls))
	for i := range jobs {
		n := noteOf(e, i)
		jobs[i] = job{Worker: w, requests: rs, call: &e.Calls[i], trace: e.Traces.At(i), attempt: e.Attempt - n.skipped, note: n}
	}
	return jobs
}

// A delivery is the result of one attempt at a call.
type delivery struct {
	tracking.Outcome
	decided   bool      // false if the attempt was canceled or the call was postponed
	kept      bool      // filtered, but kept for replay
	due       time.Time // time of a pending call's next attempt, with ordered delivery; zero if it may begin now or after earlier calls
	notBefore time.Time // earliest time of the next attempt according to Retry-After, or zero
	missed    bool      // no webhook accepted a connection
}

func failed(reason string) delivery {
	return delivery{Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: reason}, decided: true}
}

func filtered(reason string) delivery {
	return delivery{Outcome: tracking.Outcome{State: tracking.StateFiltered, Reason: reason}, decided: true}
}

func expired(why string) delivery {
	return failed(sender.WindowPassed + why)
}

// prepare selects the webhooks for the call. If there are none, it sets the result and returns
// false.
func (j *job) prepare() (send bool) {
	j.destination = j.settings.Load()
	if deliver, reason := routing.Route(j.destination.Destination, j.call); !deliver {
		j.delivery = filtered(reason)
		return false
	}
	if reason := j.quarantine(); reason != "" {
		j.delivery = delivery{Outcome: tracking.Outcome{State: tracking.StateFiltered, Reason: reason}, decided: true, kept: true}
		return false
	}
	if !j.destination.GoneSince.IsZero() {
		j.delivery = failed("the destination is stopped: its webhooks responded with 410 (Gone)")
		return false
	}
	if j.webhooks = j.note.refused.others(j.destination); len(j.webhooks) == 0 {
		j.delivery = failed("every webhook has refused the call permanently")
		return false
	}
	j.ticket.call = j
	return true
}

func (j *job) quarantine() (reason string) {
	if j.Quarantine == nil {
		return ""
	}
	return j.Quarantine(j.call)
}

func (j *job) superseded() (reason string) {
	if j.Superseded == nil {
		return ""
	}
	return j.Superseded(j.requests.parent, j.call)
}

// run delivers the call. The gate calls it when it admits the call.
func (j *job) run() (o outcome, cause string) {
	batched := j.destination.isBatched() // if so, j.send checks superseded, after the call has waited for its batch
	if !batched {
		if reason := j.superseded(); reason != "" {
			j.delivery = filtered(reason)
			return outcomeUnknown, ""
		}
	}
	// The settings and the gate may have changed while the call waited. The request follows without
	// another wait.
	if j.destination != j.settings.Load() && !j.prepare() || !j.gate.isOpen(&j.ticket) || batched && !j.destination.isBatched() {
		return outcomeUnknown, ""
	}
	request, err := j.destination.newRequest(sender.Content{ID: j.call.ID, Body: j.destination.body(j.call), Number: j.attempt, Trace: j.trace, At: time.Now(), Transform: j.destination.transform})
	if err != nil {
		o = j.unsendable(err)
		return o, j.cause
	}
	v := verdict{job: j, sum: webhook.Permanent}
	if len(j.webhooks) == 1 {
		v.add(j.send(request, j.webhooks[0]))
	} else {
		j.sendAll(request, &v)
	}
	j.ticket.shared = !v.counts
	return v.conclude(), j.cause
}

// unsendable sets the result of a call without a request.
func (j *job) unsendable(err error) outcome {
	switch {
	case errors.Is(err, webhook.ErrRetryTransform):
		j.cause = err.Error()
		v := verdict{job: j, sum: webhook.Temporary, reasons: []string{err.Error()}, sent: true}
		return v.conclude()
	case errors.Is(err, sender.ErrFiltered):
		j.delivery = filtered(err.Error())
	default:
		j.delivery = failed(err.Error())
	}
	return outcomeUnknown
}

// body returns the body of a call with the redaction of the destination.
func (t *target) body(c *tracking.Call) []byte {
	if t.redaction == nil {
		return c.Body
	}
	return t.redaction.Apply(nil, c.Body)
}

// newRequest returns the request for a call: an element if it will be sent in a batch.
func (t *target) newRequest(c sender.Content) (sender.Request, error) {
	if t.isBatched() {
		return sender.NewElement(&t.Settings, c)
	}
	return sender.NewCallRequest(&t.Settings, c)
}

// sendAll sends the request to all webhooks at the same time. After the first success the
// other requests continue as trailing requests. sendAll waits for all responses if the delivery is
// ordered, if the destination sets the concurrency, or if there are too many trailing requests.
func (j *job) sendAll(request sender.Request, v *verdict) {
	mayLeave := !j.destination.IsOrdered() && j.destination.Concurrency == 0
	answers := make(chan answer, len(j.webhooks)) // never closed
	for _, to := range j.webhooks {
		j.requests.concurrent.Go(func() { answers <- j.send(request, to) })
	}
	for left := len(j.webhooks) - 1; left >= 0; left-- {
		a := <-answers
		if v.add(a); v.sum == webhook.Success && mayLeave && j.requests.leave(answers, left) {
			return
		}
	}
}

// send makes one attempt and notifies the observer.
func (j *job) send(r sender.Request, to endpoint) answer {
	r.Endpoint = to.Endpoint
	ctx := j.requests.context(Info{Destination: j.name, Source: j.call.Source, Trace: j.trace})
	a := answer{from: to.Endpoint}
	if to.batcher != nil {
		a.Attempt = to.batcher.Send(ctx, r, func() bool {
			a.superseded = j.superseded()
			return a.superseded != ""
		})
	} else {
		a.Attempt = j.Sender.Send(ctx, r)
	}
	if a.Reason == webhook.ReasonCanceled && a.RequestHeader == nil {
		return a // nothing was sent
	}
	late := a.Verdict == webhook.Success && j.accepted.Swap(true)
	j.Observer.Observe(tracking.Attempt{CallID: j.call.ID, Source: j.call.Source, Destination: j.name, Attempt: a.Attempt, Late: late, Call: j.call})
	return a
}

// A verdict combines the results of all webhooks.
type verdict struct {
	job        *job
	sum        webhook.Verdict // combined result so far
	reasons    []string
	refusing   []webhook.Endpoint
	retryAfter time.Duration
	pause      time.Duration // pause that a receiver requested
	gone       int           // number of 410 responses
	counts     bool          // the call represents a request
	sent       bool          // a request was sent to at least one webhook
	superseded string        // the reason why the call was not sent to a webhook, or empty
	canceled   bool          // a request was canceled, or not sent because its batch had to wait too long
}

func (v *verdict) add(a answer) {
	if a.superseded != "" {
		v.superseded = a.superseded
		return
	}
	v.counts = v.counts || !a.Shared
	v.sum = min(v.sum, a.Verdict) // one success is enough; otherwise one temporary failure causes a retry
	v.sent = v.sent || !a.NotConnected && a.Reason != webhook.ReasonRequest && a.Reason != webhook.ReasonPolicy && a.Reason != webhook.ReasonSelfSigned
	v.canceled = v.canceled || a.Reason == webhook.ReasonCanceled
	switch a.Verdict {
	case webhook.Success:
		return
	case webhook.Temporary:
		v.retryAfter = max(v.retryAfter, a.RetryAfter)
		v.pause = max(v.pause, sender.RequestedPause(&a.Attempt))
	default:
		if a.Status == http.StatusGone {
			v.gone++
		}
		v.refusing = append(v.refusing, a.from)
	}
	v.reasons = append(v.reasons, a.URL+": "+sender.Cause(&a.Attempt))
	v.job.cause = a.Error
}

// conclude sets the result of the call, and returns the outcome for the breaker.
func (v *verdict) conclude() outcome {
	j := v.job
	reason := strings.Join(v.reasons, "; ")
	switch {
	case v.sum == webhook.Success:
		j.delivery = delivery{Outcome: tracking.Outcome{State: tracking.StateDelivered}, decided: true}
		return outcomeWorking
	case v.superseded != "":
		j.delivery = filtered(v.superseded)
		return outcomeUnknown
	case j.requests.parent.Err() != nil || v.canceled:
		return outcomeUnknown
	case v.sum == webhook.Permanent:
		j.delivery = failed(reason)
		if !v.sent {
			return outcomeUnknown // nothing was sent, so the receiver is not the cause
		}
		if v.gone == len(j.destination.endpoints) {
			j.OnGone(j.destination.Destination)
		}
		return outcomeWorking // a receiver that refuses a call is working
	}
	if v.pause > 0 && sameWebhooks(j.destination.Destination, j.Destination()) {
		now := time.Now()
		j.gate.pauseUntil(now.Add(v.pause))
		if j.OnPause != nil {
			j.OnPause(j.destination.Destination, now.Add(v.pause))
		}
		j.status.pauseRequested(now, v.pause, j.cause)
	}
	var notBefore time.Time
	if v.retryAfter > 0 {
		notBefore = time.Now().Add(v.retryAfter)
	}
	next := note{skipped: j.note.skipped, refused: j.note.refused.with(j.destination, v.refusing)}
	if j.destination.IsOrdered() {
		next.failing = j.note.failedSince(time.Now())
	}
	j.delivery = delivery{Outcome: tracking.Outcome{State: tracking.StatePending, Reason: reason, Note: next.String()}, decided: true, notBefore: notBefore, missed: !v.sent}
	switch {
	case !v.sent:
		return outcomeUnreachable
	case j.attempt > 1:
		return outcomeRetryFailed
	}
	return outcomeFailed
}
