package ingest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// receive processes a request with calls. If typ is empty, the body is a batch; otherwise it is
// one call of this type. receive returns nil when all valid calls are stored, and otherwise the
// response.
func (h *Handler) receive(r *http.Request, typ string) *requestError {
	if id := r.Header.Get(webhook.RelayHeader); id != "" && id == h.config.RelayID {
		return refuse(http.StatusLoopDetected, tracking.CodeRelayLoop, "the request comes from a relay of this collector; set its endpoint to another collector")
	}
	body := newBody()
	defer body.release()
	keys := WriteKeysOf(r)
	if refused := body.readRequest(r, h.config.Limits.BodyBytes); refused != nil {
		refused.body = h.redactedBody(body.Bytes(), keys)
		return refused
	}
	return h.processBody(r, body, typ, keys, r.Header)
}

// retryCount returns the number of earlier requests with the same calls, according to the
// X-Retry-Count header. It is 0 if the header is missing or invalid.
func retryCount(header http.Header) int {
	text := header.Get("X-Retry-Count")
	if text == "" {
		return 0 // an error of ParseUint would allocate
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// processBody processes the calls of a body. header is the header of the request, or nil if
// it does not apply to the calls.
func (h *Handler) processBody(r *http.Request, body *requestBody, typ string, keys WriteKeys, header http.Header) *requestError {
	refused := h.processCalls(r, body, typ, keys, header)
	if refused != nil {
		refused.body, refused.library = h.redactedBody(body.Bytes(), keys), body.post.library()
		refused.source = cmp.Or(refused.source, body.post.source)
	}
	return refused
}

func (h *Handler) processCalls(r *http.Request, body *requestBody, typ string, keys WriteKeys, header http.Header) *requestError {
	p := &body.post
	if refused := p.parse(body.Bytes(), typ, h.config.Limits); refused != nil {
		return refused
	}
	sources := h.config.Sources()
	s := newSorter(p, sources, h.config.Limits, typ, cmp.Or(keys.Basic, p.writeKey, keys.Other))
	s.plans = h.config.Plans
	if refused := s.sort(); refused != nil {
		return refused
	}
	if h.config.Strict && len(p.rejected) > 0 {
		h.observeRejected(r, p)
		return invalidCalls(p)
	}
	if refused := h.limitRate(s.batches, sources); refused != nil {
		return refused
	}
	retries, trace := retryCount(header), event.TraceOf(header)
	for _, b := range s.batches {
		b.RetryCount, b.Trace = retries, trace
		if refused := h.store(r.Context(), b, s.heldBytes()); refused != nil {
			return refused
		}
	}
	// If a report cannot be stored, the sender repeats the whole request. Stored calls are
	// then recognized as duplicates.
	for _, b := range s.reports.batches {
		b.Trace = trace
		if refused := h.store(r.Context(), b, b.Size()); refused != nil {
			return refused
		}
	}
	h.observeRejected(r, p)
	return nil
}

// invalidCalls returns the response of strict mode to a request with invalid calls.
func invalidCalls(p *post) *requestError {
	refused := refuse(http.StatusBadRequest, tracking.CodeInvalidCalls, "%d of %d calls are invalid; the first is call %d: %s",
		len(p.rejected), len(p.calls), p.rejected[0].Index, p.rejected[0].Message)
	refused.calls = slices.Clone(p.rejected)
	for i := range refused.calls {
		refused.calls[i].Sender = tracking.Sender{} // the sender does not need it
	}
	return refused
}

func (h *Handler) observeRejected(r *http.Request, p *post) {
	if len(p.rejected) == 0 {
		return
	}
	from := h.senderOf(r)
	for _, rejected := range p.rejected {
		rejected.Sender.Address, rejected.Sender.UserAgent = from.Address, from.UserAgent
		h.config.Observer.Observe(rejected)
	}
}

// limitRate refuses the request if one of its sources exceeds its rate.
func (h *Handler) limitRate(batches []event.Batch, sources *SourceTable) *requestError {
	limitOf := func(source string) int { return cmp.Or(sources.callsPerSecond(source), h.config.Limits.CallsPerSecond) }
	source, wait := h.rates.admit(batches, limitOf)
	if wait == 0 {
		return nil
	}
	return &requestError{status: http.StatusTooManyRequests, code: tracking.CodeRateLimited, retryAfter: wait,
		source: source, message: fmt.Sprintf("source %q exceeds its limit of %d calls per second; send again in %v", source, limitOf(source), wait)}
}
