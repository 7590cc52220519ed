package mockserver

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
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
	received := c.clock.Now()
	body, refused := c.readBody(r)
	if refused != nil {
		return refused
	}
	p, refused := parsePost(body, typ, c.limits)
	if refused != nil {
		return refused
	}
	batches, refused := c.sort(p, headerKey(r), typ, received, len(body))
	if refused != nil {
		return refused
	}
	if source, wait := c.rates.admit(batches, c.rateLimit); wait > 0 {
		return &requestError{status: http.StatusTooManyRequests, code: CodeRateLimited, retryAfter: wait,
			message: fmt.Sprintf("source %q sends more than its %d calls a second; send again in %v", source, c.rateLimit(source), wait)}
	}
	for _, b := range batches {
		if refused := c.accept(r.Context(), b); refused != nil {
			return refused
		}
	}
	for _, rejection := range p.rejected {
		c.record.Rejected(rejection)
	}
	return nil
}

// readBody reads and decompresses the body, up to the limit.
func (c *Collector) readBody(r *http.Request) ([]byte, *requestError) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, CodeBodyTooLarge, "the body has more than %d bytes", c.limits.BodyBytes)
	if r.ContentLength > int64(c.limits.BodyBytes) {
		return nil, tooLarge
	}
	var in io.Reader = r.Body
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, CodeBadEncoding, "the body is not gzip, as its Content-Encoding says: %v", err)
		}
		in = z
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, CodeBadEncoding, "Content-Encoding %.40q is not supported; gzip is", encoding)
	}
	size := max(r.ContentLength, 512) + 1
	body := make([]byte, 0, size)
	for limited := io.LimitReader(in, int64(c.limits.BodyBytes)+1); ; {
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > c.limits.BodyBytes:
			return nil, tooLarge
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, refuse(http.StatusBadRequest, CodeBadEncoding, "the body cannot be read: %v", err)
		case len(body) == cap(body):
			body = append(body, 0)[:len(body)]
		}
	}
}

// parsePost reads a body by the shape of its endpoint: a batch, or one call of
// a type.
func parsePost(body []byte, typ string, limits Limits) (*post, *requestError) {
	var p *post
	var err error
	if typ == "" {
		p, err = parseBatch(body, limits)
	} else {
		p, err = parseSingle(body)
	}
	var shape errNotBatch
	var syntax *jsonscan.SyntaxError
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, errTooManyCalls):
		return nil, refuse(http.StatusRequestEntityTooLarge, CodeTooManyCalls, "the batch has more than %d calls", limits.BatchCalls)
	case errors.As(err, &shape):
		return nil, refuse(http.StatusBadRequest, CodeInvalidBatch, "%s", shape.problem)
	case errors.As(err, &syntax):
		return nil, refuse(http.StatusBadRequest, CodeInvalidJSON, "%v", syntax)
	}
	return nil, refuse(http.StatusBadRequest, CodeInvalidJSON, "%v", err)
}

// sort checks every call of a post and sorts the good ones by their source.
func (c *Collector) sort(p *post, key, typ string, received time.Time, size int) ([]Batch, *requestError) {
	if key == "" {
		key = p.writeKey
	}
	if _, known := c.sourceOf(key); !known && len(p.calls) == 0 {
		return nil, c.unknownKey(key)
	}
	bodies := make([]byte, 0, size+size/8+192*len(p.calls))
	var batches []Batch
	for i := range p.calls {
		call := &p.calls[i]
		call.read(c.limits, typ)
		own := key
		if call.writeKey != "" {
			own = call.writeKey
		}
		source, known := c.sourceOf(own)
		if !known {
			if call.writeKey == "" || typ != "" {
				return nil, c.unknownKey(own)
			}
			call.reject(CodeUnknownWriteKey, "writeKey", "no source has the write key "+redact(own))
		}
		if call.bad.Code != "" {
			call.bad.Source, call.bad.ReceivedAt = source, received
			p.rejected = append(p.rejected, call.bad)
			continue
		}
		var done Call
		done, bodies = call.complete(bodies, p, source, received)
		batches = addTo(batches, done)
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
	return batches, nil
}

// addTo puts a call into the batch of its source.
func addTo(batches []Batch, call Call) []Batch {
	for i := range batches {
		if batches[i].Source == call.Source {
			batches[i].Calls = append(batches[i].Calls, call)
			return batches
		}
	}
	return append(batches, Batch{Source: call.Source, ReceivedAt: call.ReceivedAt, Calls: []Call{call}})
}

// accept stores a batch, without the calls that were stored before.
func (c *Collector) accept(ctx context.Context, b Batch) *requestError {
	fresh, repeated, done := c.dedup.reserve(ctx, b)
	if len(repeated.Calls) > 0 {
		c.record.Repeated(repeated)
	}
	if len(fresh.Calls) == 0 {
		done(true)
		return nil
	}
	err := c.journal.Append(ctx, fresh)
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
