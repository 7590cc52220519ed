package mockserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// singleCallPaths are the endpoints that take one call, with their short forms.
var singleCallPaths = map[string]string{
	"/v1/identify": "identify", "/v1/i": "identify",
	"/v1/track": "track", "/v1/t": "track",
	"/v1/page": "page", "/v1/p": "page",
	"/v1/screen": "screen", "/v1/s": "screen",
	"/v1/group": "group", "/v1/g": "group",
	"/v1/alias": "alias", "/v1/a": "alias",
}

// batchPaths are the endpoints that take a batch.
var batchPaths = map[string]bool{"/v1/batch": true, "/v1/import": true, "/v1/b": true}

// answer is the body of every response of the tracking API.
type answer struct {
	Success bool        `json:"success"`
	Code    Code        `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
	Error   string      `json:"error,omitempty"` // the same as Message, for libraries that look here
	Calls   []Rejection `json:"calls,omitempty"`
}

// requestError is a request that was refused as a whole.
type requestError struct {
	status     int
	code       Code
	message    string
	retryAfter time.Duration
	calls      []Rejection
}

func (e *requestError) Error() string { return string(e.code) + ": " + e.message }

func refuse(status int, code Code, format string, args ...any) *requestError {
	return &requestError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// serveTracking answers a request to the tracking API.
func (c *Collector) serveTracking(w http.ResponseWriter, r *http.Request) {
	allowOrigin(w, r)
	path := strings.TrimSuffix(r.URL.Path, "/")
	typ, single := singleCallPaths[path]
	switch {
	case path == "/health" && r.Method == http.MethodGet:
		c.serveHealth(w)
	case path == "/ready" && r.Method == http.MethodGet:
		c.serveReady(w, r)
	case !single && !batchPaths[path]:
		respond(w, refuse(http.StatusNotFound, CodeNotFound, "there is no %s here; batches go to /v1/batch", r.URL.Path))
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST, OPTIONS")
		respond(w, refuse(http.StatusMethodNotAllowed, CodeWrongMethod, "%s takes POST, not %s", path, r.Method))
	default:
		refused := c.ingest(r, typ)
		if refused != nil {
			c.record.Refused(Refusal{At: c.clock.Now(), Path: path, Status: refused.status, Code: refused.code, Message: refused.message})
		}
		respond(w, refused)
	}
}

// ingest takes one request. It returns nil once every good call in it is
// stored, else what is to be answered.
func (c *Collector) ingest(r *http.Request, typ string) *requestError {
	body := requestBodies.Get().(*requestBody)
	defer body.release()
	if refused := body.read(r, c.limits.BodyBytes); refused != nil {
		return refused
	}
	return c.take(r.Context(), body, typ, headerKey(r))
}

// take stores the calls of a body that has been read.
func (c *Collector) take(ctx context.Context, body *requestBody, typ, key string) *requestError {
	p := &body.post
	if refused := p.parse(body.bytes, typ, c.limits); refused != nil {
		return refused
	}
	batches, refused := c.sort(p, key, typ)
	if refused != nil {
		return refused
	}
	if source, wait := c.rates.admit(batches, c.rateLimit); wait > 0 {
		return &requestError{status: http.StatusTooManyRequests, code: CodeRateLimited, retryAfter: wait,
			message: fmt.Sprintf("source %q sends more than its %d calls a second; send again in %v", source, c.rateLimit(source), wait)}
	}
	for _, b := range batches {
		if refused := c.accept(ctx, b); refused != nil {
			return refused
		}
	}
	for _, rejection := range p.rejected {
		c.record.Rejected(rejection)
	}
	return nil
}

// parse reads a body by the shape of its endpoint: a batch, or one call of a
// type.
func (p *post) parse(body []byte, typ string, limits Limits) *requestError {
	var err error
	if typ == "" {
		err = p.parseBatch(body, limits)
	} else {
		err = p.parseSingle(body)
	}
	var shape errNotBatch
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooManyCalls):
		return refuse(http.StatusRequestEntityTooLarge, CodeTooManyCalls, "the batch has more than %d calls", limits.BatchCalls)
	case errors.As(err, &shape):
		return refuse(http.StatusBadRequest, CodeInvalidBatch, "%s", shape.problem)
	}
	return refuse(http.StatusBadRequest, CodeInvalidJSON, "%v", err)
}

// sort checks every call of a post and sorts the good ones by their source.
func (c *Collector) sort(p *post, key, typ string) ([]Batch, *requestError) {
	s := sorter{collector: c, post: p, completer: newCompleter(p, c.limits, c.clock.Now())}
	if s.key = key; key == "" {
		s.key = p.writeKey
	}
	s.source, s.known = c.sourceOf(s.key)
	for i := range p.calls {
		s.draft.read(p, i, c.limits, typ)
		s.sort()
		if s.completer.full() {
			return nil, refuse(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
				"with the context and the integrations of the batch in each call, the calls have more than %d bytes", growth*c.limits.BodyBytes)
		}
	}
	if !s.known && !s.anyKnown {
		return nil, c.unknownKey(cmp.Or(s.key, s.unknown))
	}
	if c.config.Strict && len(p.rejected) > 0 {
		e := refuse(http.StatusBadRequest, CodeInvalidCalls, "%d of %d calls are wrong; the first is call %d: %s",
			len(p.rejected), len(p.calls), p.rejected[0].Index, p.rejected[0].Message)
		e.calls = p.rejected
		for _, r := range p.rejected {
			c.record.Rejected(r)
		}
		return nil, e
	}
	return s.batches, nil
}

// A sorter sorts the calls of one post.
type sorter struct {
	collector *Collector
	post      *post
	completer *completer
	draft     draft
	batches   []Batch

	key, source string // of the request
	known       bool   // whether key is that of a source
	anyKnown    bool   // whether a call has a key of its own that is
	unknown     string // the last key of a call that is not
}

// sort puts the call of the draft into the batch of its source, or among those
// that are rejected.
func (s *sorter) sort() {
	d, source, known := &s.draft, s.source, s.known
	if d.writeKey != "" && d.writeKey != s.key {
		if source, known = s.collector.sourceOf(d.writeKey); !known {
			s.unknown = d.writeKey
		}
		s.anyKnown = s.anyKnown || known
	}
	switch {
	case known:
	case d.writeKey == "" && s.key == "":
		d.reject(CodeUnknownWriteKey, "writeKey", "neither the call nor its request has a write key")
	default:
		d.reject(CodeUnknownWriteKey, "writeKey", "no source has the write key "+redact(cmp.Or(d.writeKey, s.key)))
	}
	var call Call
	if d.bad.Code == "" {
		call, _ = s.completer.complete(d, source)
	}
	if d.bad.Code != "" {
		d.bad.Source, d.bad.ReceivedAt, d.bad.Body = source, s.completer.received, bytes.Clone(d.raw[:min(len(d.raw), keptBody)])
		s.post.rejected = append(s.post.rejected, d.bad)
		return
	}
	for i := range s.batches {
		if s.batches[i].Source == source {
			s.batches[i].Calls = append(s.batches[i].Calls, call)
			return
		}
	}
	calls := make([]Call, 0, len(s.post.calls)-d.index)
	s.batches = append(s.batches, Batch{Source: source, ReceivedAt: call.ReceivedAt, Calls: append(calls, call)})
}

// accept stores a batch, without the calls that were stored before.
func (c *Collector) accept(ctx context.Context, b Batch) *requestError {
	fresh, repeated, done, err := c.dedup.reserve(ctx, b)
	if err != nil {
		return &requestError{status: http.StatusServiceUnavailable, code: CodeUnavailable, retryAfter: time.Second,
			message: "another request was storing the same calls, and this one did not wait for its end; send again"}
	}
	if len(repeated.Calls) > 0 {
		c.record.Repeated(repeated)
	}
	if len(fresh.Calls) == 0 {
		done(true)
		return nil
	}
	err = c.journal.Append(ctx, fresh)
	done(err == nil)
	switch {
	case err == nil:
		c.record.Accepted(fresh)
		return nil
	case errors.Is(err, ErrJournalFull):
		c.log.Warn("a batch was refused: the journal is full", "source", b.Source, "calls", len(b.Calls), "error", err)
		return &requestError{status: http.StatusServiceUnavailable, code: CodeQueueFull, retryAfter: 5 * time.Second,
			message: "the queue is full; send again later"}
	}
	c.log.Error("a batch was refused: it could not be stored", "source", b.Source, "calls", len(b.Calls), "error", err)
	return &requestError{status: http.StatusServiceUnavailable, code: CodeUnavailable, retryAfter: 5 * time.Second,
		message: "the calls could not be stored; send again later"}
}

func (c *Collector) unknownKey(key string) *requestError {
	if key == "" {
		return refuse(http.StatusUnauthorized, CodeUnknownWriteKey, "the request has no write key; send it as the user of Basic auth")
	}
	return refuse(http.StatusUnauthorized, CodeUnknownWriteKey, "no source has the write key %s", redact(key))
}

// headerKey returns the write key of the Authorization header: the user of Basic
// auth, also where the colon is missing, or a bearer token.
func headerKey(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return user
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return decodeKey(strings.TrimSpace(value))
	case "bearer":
		return strings.TrimSpace(value)
	}
	return ""
}

// allowOrigin lets browsers of any site send calls, without credentials.
func allowOrigin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Content-Encoding, X-Retry-Count")
		h.Set("Access-Control-Max-Age", "86400")
	}
}

// respond answers success, or says what was refused and why.
func respond(w http.ResponseWriter, refused *requestError) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if refused == nil {
		_, _ = io.WriteString(w, `{"success": true}`)
		return
	}
	if refused.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(refused.retryAfter/time.Second)))
	}
	w.WriteHeader(refused.status)
	_ = json.NewEncoder(w).Encode(answer{Code: refused.code, Message: refused.message, Error: refused.message, Calls: refused.calls})
}
