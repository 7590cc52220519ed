package mockserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A job is one call that is brought to the webhooks of a destination.
type job struct {
	*forwarder
	destination *Destination
	call        *Call
	attempt     int // how many were made, with the one that is about to be
	note        note
	webhooks    []webhook.Endpoint
	turn        turn
	delivery    delivery // what came of it
}

// A delivery is what one attempt to bring a call to its webhooks came to.
type delivery struct {
	Outcome
	decided    bool          // false where it was interrupted
	retryAfter time.Duration // asked for by a receiver
}

func failed(reason string) delivery {
	return delivery{Outcome: Outcome{State: StateFailed, Reason: reason}, decided: true}
}

func expired(why string) delivery {
	return failed("4 hours have passed since the call was accepted; " + why)
}

// prepare finds the webhooks that are to get the call. Without any, it is decided,
// and there is nothing to send.
func (j *job) prepare() (send bool) {
	j.destination = j.settings.Load()
	if deliver, reason := route(j.destination, j.call); !deliver {
		j.delivery = delivery{Outcome: Outcome{State: StateFiltered, Reason: reason}, decided: true}
		return false
	}
	if j.webhooks = j.note.refused.others(j.destination); len(j.webhooks) == 0 {
		j.delivery = failed("each webhook has refused the call for good")
		return false
	}
	j.turn.call, j.turn.needs = j, len(j.webhooks)
	return true
}

// run delivers the call, which the gate let pass.
func (j *job) run() tidings {
	// The settings may have changed while it waited, perhaps because it was down for a wrong URL.
	if j.destination != j.settings.Load() && !j.prepare() {
		return nothing
	}
	body, err := webhook.Payload(j.call.Body, j.destination.AliasFields)
	if err != nil {
		j.delivery = failed(err.Error())
		return nothing
	}
	request := webhook.Request{Body: body, MessageID: j.call.ID, Number: j.attempt}
	if j.destination.SharedSecret != "" {
		request.Signature = webhook.Sign(j.destination.SharedSecret, body)
	}
	v := verdict{job: j, sum: webhook.Permanent}
	if len(j.webhooks) == 1 {
		v.add(j.webhooks[0], j.send(request, j.webhooks[0]))
	} else {
		j.sendAll(request, &v)
	}
	return v.conclude()
}

// sendAll sends the request to all webhooks at once. The first that takes it
// decides; the others are left to end by themselves.
func (j *job) sendAll(request webhook.Request, v *verdict) {
	type answer struct {
		from webhook.Endpoint
		webhook.Attempt
	}
	answers := make(chan answer)   // never closed; nobody receives once it is decided
	decided := make(chan struct{}) // closed when nobody receives any more
	defer close(decided)
	j.gate.split(&j.turn, len(j.webhooks))
	for _, to := range j.webhooks {
		j.requests.Go(func() {
			a := answer{to, j.send(request, to)}
			j.gate.requestEnded()
			select {
			case answers <- a: // the receiver takes over this activity
			case <-decided:
				j.gate.end()
			}
		})
	}
	for i := range j.webhooks {
		a := <-answers
		if v.add(a.from, a.Attempt); v.sum == webhook.Success || i == len(j.webhooks)-1 {
			return // with the activity of the last
		}
		j.gate.end()
	}
}

// send makes one attempt and records it.
func (j *job) send(r webhook.Request, to webhook.Endpoint) webhook.Attempt {
	r.Endpoint = to
	ctx := j.timeouts.begin()
	a := j.sender.Send(withDelivery(ctx, deliveryInfo{Destination: j.name, Source: j.call.Source}), r)
	j.timeouts.end(ctx)
	j.record.Attempted(Attempt{CallID: j.call.ID, Source: j.call.Source, Destination: j.name, Attempt: a, Call: j.call})
	return a
}

// A deliveryInfo names the destination that a request to a webhook is for, and the
// source of the call that it delivers.
type deliveryInfo struct{ Destination, Source string }

// deliveryKey is the key of a deliveryInfo in the context of a request.
type deliveryKey struct{}

func withDelivery(ctx context.Context, info deliveryInfo) context.Context {
	return context.WithValue(ctx, deliveryKey{}, info)
}

// deliveryOf returns what the context of a request to a webhook says about it, for an
// http.RoundTripper set by webhook.SenderConfig.Wrap. It is not ok for other contexts.
func deliveryOf(ctx context.Context) (info deliveryInfo, ok bool) {
	info, ok = ctx.Value(deliveryKey{}).(deliveryInfo)
	return info, ok
}

// A verdict is what the answers of the webhooks come to.
type verdict struct {
	job        *job
	sum        webhook.Verdict // of those that have answered
	reasons    []string
	refusing   []webhook.Endpoint
	retryAfter time.Duration
	asked      bool // a webhook was asked: it may have given no answer
}

func (v *verdict) add(from webhook.Endpoint, a webhook.Attempt) {
	v.sum = webhook.Combine(v.sum, a.Verdict)
	v.asked = v.asked || !a.NotConnected && a.Reason != webhook.ReasonRequest && a.Reason != webhook.ReasonPolicy && a.Reason != webhook.ReasonSelfSigned
	switch a.Verdict {
	case webhook.Success:
		return
	case webhook.Temporary:
		v.retryAfter = max(v.retryAfter, a.RetryAfter)
	default:
		v.refusing = append(v.refusing, from)
	}
	v.reasons = append(v.reasons, a.URL+": "+a.Error)
	v.job.turn.why = a.Error
}

// conclude decides what becomes of the call, and what it tells of the destination.
func (v *verdict) conclude() tidings {
	j := v.job
	reason := strings.Join(v.reasons, "; ")
	switch {
	case v.sum == webhook.Success:
		j.delivery = delivery{Outcome: Outcome{State: StateDelivered}, decided: true}
		return itAnswers
	case j.timeouts.parent.Err() != nil:
		return nothing // we broke it off ourselves
	case v.sum == webhook.Permanent:
		j.delivery = failed(reason)
		if !v.asked {
			return nothing // it cannot be sent: that says nothing of the receiver
		}
		return itAnswers // a receiver that refuses a call is not down
	}
	next := note{skipped: j.note.skipped, refused: j.note.refused.with(j.destination, v.refusing)}
	j.delivery = delivery{Outcome: Outcome{State: StatePending, Reason: reason, Note: next.String()}, decided: true, retryAfter: v.retryAfter}
	switch {
	case !v.asked:
		return itIsNotThere
	case j.attempt > 1:
		return itFailsAgain
	}
	return itFails
}

// A note is what is to be known of a call at its next attempt. Between attempts the
// journal keeps it.
type note struct {
	skipped int // attempts at its entry that did not come to the call, or were broken off
	refused refusals
}

// String writes the note: the number, if it is not 0, behind it a colon, and the
// refusals.
func (n note) String() string {
	if n.skipped == 0 {
		return string(n.refused)
	}
	return strconv.Itoa(n.skipped) + ":" + string(n.refused)
}

// note reads that of a call.
func (e *Entry) note(call int) (n note) {
	if e.Notes == nil {
		return n
	}
	skipped, refused, found := strings.Cut(e.Notes[call], ":")
	if !found {
		return note{refused: refusals(skipped)}
	}
	n.skipped, _ = strconv.Atoi(skipped) // as String wrote it
	n.refused = refusals(refused)
	return n
}

// refusals name the webhooks that have refused a call for good, while others may
// still take it: they are not asked again. A webhook whose settings have changed is
// another one.
type refusals string

// others returns the webhooks of a destination that have not refused the call.
func (r refusals) others(d *Destination) []webhook.Endpoint {
	if r == "" {
		return d.Webhooks
	}
	var others []webhook.Endpoint
	for _, w := range d.Webhooks {
		if !r.have(d, w) {
			others = append(others, w)
		}
	}
	return others
}

// with adds those that have refused it now, and leaves out those that are gone.
func (r refusals) with(d *Destination, refusing []webhook.Endpoint) refusals {
	var ids []string
	for _, w := range d.Webhooks {
		if r.have(d, w) {
			ids = append(ids, webhookID(d, w))
		}
	}
	for _, w := range refusing {
		ids = append(ids, webhookID(d, w))
	}
	return refusals(strings.Join(ids, "."))
}

func (r refusals) have(d *Destination, w webhook.Endpoint) bool {
	return r != "" && slices.Contains(strings.Split(string(r), "."), webhookID(d, w))
}

// webhookID tells a webhook from others, and from itself with other settings.
func webhookID(d *Destination, w webhook.Endpoint) string {
	h := sha256.New()
	for _, text := range []string{d.SharedSecret, string(d.AliasFields), w.URL} {
		_, _ = h.Write(append([]byte(text), 0))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		_, _ = h.Write(append([]byte(name+"\x00"+w.Headers[name]), 0))
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}
