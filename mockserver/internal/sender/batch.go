package sender

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Batcher sends the requests of concurrent callers to one webhook in batches; see
// [webhook.Batch]. Its methods are safe for concurrent use.
type Batcher struct {
	format format
	limits webhook.Batch
	send   func(ctx context.Context, r Request) webhook.Attempt
	slots  chan struct{} // contains a value for each batch that is being sent

	mu   sync.Mutex // guards open
	open *batch     // accepts requests; nil if there is none
}

// A batch is a group of requests that are sent together. The caller that opens it sends it.
type batch struct {
	requests []Request
	bytes    int            // size of the body
	full     chan struct{}  // closed when the batch accepts no more requests
	obsolete []bool         // requests that must not be sent; each caller sets its element after full is closed
	checks   sync.WaitGroup // callers that have not set their element of obsolete
	results  []webhook.Attempt
	done     chan struct{} // closed after results is set
}

// NewBatcher returns a Batcher for one webhook of a destination. The settings must enable batches. The
// capacity of slots limits the number of batches in progress. Batchers with the same slots share this
// limit. send sends a request.
func NewBatcher(settings *webhook.Settings, slots chan struct{}, send func(ctx context.Context, r Request) webhook.Attempt) *Batcher {
	return &Batcher{format: formatOf(settings), limits: settings.Batches(), send: send, slots: slots}
}

// A format builds the batches of a destination. Its methods are safe for concurrent use.
type format interface {
	// element returns the part of the body for a call. The body of c is the stored call.
	element(c Content) ([]byte, error)
	// enclose returns the text before and after the elements in the body.
	enclose(now time.Time) (before, after string)
	// request returns the request with a body.
	request(c Content) (Request, error)
	// conclude adjusts the result of a request to the receiver's API. It returns the calls that the
	// response refuses, by messageId.
	conclude(a *webhook.Attempt) (refused map[string]webhook.FailedCall)
}

// formatOf returns the format of the batches of a destination.
func formatOf(s *webhook.Settings) format {
	if s.Type == webhook.TypeRelay {
		return &relay{}
	}
	return array{s}
}

// An array sends the bodies of webhook requests as a JSON array.
type array struct{ *webhook.Settings }

func (a array) element(c Content) ([]byte, error) { return webhookBody(a.Settings, c) }

func (array) enclose(time.Time) (before, after string) { return "[", "]" }

func (a array) request(c Content) (Request, error) { return NewRequest(a.Settings, c) }

// conclude reads the [webhook.BatchResponse].
func (array) conclude(a *webhook.Attempt) (refused map[string]webhook.FailedCall) {
	if a.Verdict != webhook.Success {
		return nil
	}
	problem := `cannot read "failed" in the response: use {"failed": [{"messageId": "m-17"}]}`
	if len(a.ResponseBody) >= maxBatchResponse { // it may refuse more calls
		problem = "the response to the batch is longer than 1 MB"
	} else if refused, ok := refusals(a.ResponseBody); ok {
		return refused
	}
	a.Verdict, a.Reason, a.Error = webhook.Temporary, webhook.ReasonStatus, problem
	return nil
}

// refusals returns the calls that the response to a batch refuses, by messageId. ok is false if the response
// has a field failed that cannot be read.
func refusals(body []byte) (refused map[string]webhook.FailedCall, ok bool) {
	var response struct{ Failed json.RawMessage }
	if json.Unmarshal(body, &response) != nil {
		return nil, !text.ContainsFold(body, []byte(`"failed"`))
	}
	switch string(response.Failed) {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return nil, true
	}
	var all []webhook.FailedCall
	ok = json.Unmarshal(response.Failed, &all) == nil
	refused = map[string]webhook.FailedCall{}
	for _, f := range all {
		refused[f.MessageID] = f
		ok = ok && f.MessageID != ""
	}
	return refused, ok
}

// Send adds a request of [NewElement] to a batch, waits for the response, and returns the result
// for its call. All requests must have the same Endpoint. The context of the batch's first request
// applies to the whole batch.
//
// Just before the batch is sent, Send calls isObsolete. If it returns true, the request is not sent, and
// the Attempt is canceled.
func (b *Batcher) Send(ctx context.Context, r Request, isObsolete func() bool) webhook.Attempt {
	group, index := b.add(r)
	if index == 0 {
		pause.Until(ctx, time.Now().Add(time.Duration(b.limits.Wait)), group.full)
		select { // in the meantime, the batch accepts requests
		case b.slots <- struct{}{}:
			defer func() { <-b.slots }()
		case <-ctx.Done():
		}
		b.close(group)
	}
	<-group.full
	group.obsolete[index] = isObsolete()
	group.checks.Done()
	if index == 0 {
		group.checks.Wait()
		b.exchangeCurrent(ctx, group)
		close(group.done)
	}
	<-group.done
	return group.results[index]
}

// exchangeCurrent sends the requests of a batch that are not obsolete, and sets results.
func (b *Batcher) exchangeCurrent(ctx context.Context, group *batch) {
	var current []Request
	for i, r := range group.requests {
		if !group.obsolete[i] {
			current = append(current, r)
		}
	}
	var sent []webhook.Attempt
	if len(current) > 0 {
		sent = b.exchange(ctx, current)
	}
	group.results = make([]webhook.Attempt, len(group.requests))
	for i, obsolete := range group.obsolete {
		if obsolete {
			group.results[i] = webhook.Attempt{Verdict: webhook.Temporary, Reason: webhook.ReasonCanceled}
		} else {
			group.results[i], sent = sent[0], sent[1:]
		}
	}
}

// add adds a request to the open batch, and returns its index in the batch.
func (b *Batcher) add(r Request) (group *batch, index int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := len(r.Body) + len(",")
	if b.open != nil && b.open.bytes+size > b.limits.Bytes {
		b.closeOpen()
	}
	if b.open == nil {
		before, after := b.format.enclose(time.Time{})
		b.open = &batch{bytes: len(before + after), full: make(chan struct{}), done: make(chan struct{})}
	}
	group = b.open
	group.requests = append(group.requests, r)
	group.checks.Add(1)
	group.bytes += size
	if len(group.requests) == b.limits.Calls || group.bytes >= b.limits.Bytes {
		b.closeOpen()
	}
	return group, len(group.requests) - 1
}

// close makes a batch accept no more requests.
func (b *Batcher) close(group *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == group {
		b.closeOpen()
	}
}

// closeOpen closes the open batch. The lock must be held.
func (b *Batcher) closeOpen() {
	b.open.obsolete = make([]bool, len(b.open.requests))
	close(b.open.full)
	b.open = nil
}

// exchange sends requests as one batch and returns the result for each. If the receiver refuses the
// batch, exchange sends its halves.
func (b *Batcher) exchange(ctx context.Context, requests []Request) []webhook.Attempt {
	r, err := newBatchRequest(b.format, requests, time.Now())
	if err != nil {
		return share(webhook.Attempt{Time: time.Now().UTC(), URL: requests[0].Endpoint.URL, Verdict: webhook.Permanent, Reason: webhook.ReasonRequest, Error: err.Error()}, requests, nil)
	}
	a := b.send(ctx, r)
	refused := b.format.conclude(&a)
	if half := len(requests) / 2; half > 0 && isRefusal(a.Status) {
		return append(b.exchange(ctx, requests[:half]), b.exchange(ctx, requests[half:])...)
	}
	return share(a, requests, refused)
}

// isRefusal reports whether a response can be caused by a single call of a batch.
func isRefusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// NewElement returns a request for [Batcher.Send], which is an element of a batch: it is not signed,
// and its body contains the messageId. The body of c is the stored call. The caller sets the Endpoint.
// The error reports a call that cannot be sent, or is ErrFiltered.
func NewElement(s *webhook.Settings, c Content) (Request, error) {
	body, err := Body(s, c)
	return Request{Body: body, MessageID: c.ID, Number: c.Number}, err
}

// newBatchRequest returns a request that sends elements as one batch. All elements have the same
// Endpoint. The error reports an invalid secret.
func newBatchRequest(f format, requests []Request, now time.Time) (Request, error) {
	before, after := f.enclose(now)
	size := len(before + after)
	for i := range requests {
		size += len(requests[i].Body) + len(",")
	}
	body, id, number := append(make([]byte, 0, size), before...), sha256.New(), 0
	for i := range requests {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, requests[i].Body...)
		id.Write([]byte(requests[i].MessageID + "\n"))
		number = max(number, requests[i].Number)
	}
	r, err := f.request(Content{ID: "batch_" + hex.EncodeToString(id.Sum(nil)[:16]), Body: append(body, after...), Number: number, At: now})
	r.Endpoint, r.Calls = requests[0].Endpoint, len(requests)
	return r, err
}

// share returns the result of a batch for each of its calls.
func share(a webhook.Attempt, requests []Request, refused map[string]webhook.FailedCall) []webhook.Attempt {
	if len(a.ResponseBody) > KeptBody {
		a.ResponseBody = bytes.Clone(a.ResponseBody[:KeptBody]) // does not retain the rest
	}
	a.Calls, a.Shared = len(requests), true
	results, lowest := make([]webhook.Attempt, len(requests)), 0
	for i, r := range requests {
		results[i] = a
		results[i].RequestBody, results[i].Number = r.Body, r.Number
		if f, ok := refused[r.MessageID]; ok {
			refuse(&results[i], f)
		}
		if r.Number < requests[lowest].Number {
			lowest = i
		}
	}
	results[lowest].Shared = false
	return results
}

// maxReason is the maximum length of a receiver's reason in bytes.
const maxReason = 200

// refuse changes the result of a call that the receiver did not accept.
func refuse(a *webhook.Attempt, f webhook.FailedCall) {
	a.Verdict, a.Reason, a.Error = webhook.Permanent, webhook.ReasonStatus, "refused in the response to the batch"
	if f.Retry {
		a.Verdict, a.Error = webhook.Temporary, "not accepted, according to the response to the batch"
	}
	if f.Reason != "" {
		a.Error += ": " + text.CutBytes(maxReason, f.Reason)
	}
}
