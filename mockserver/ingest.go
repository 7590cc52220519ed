package mockserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ingest takes one request. It returns nil once every good call in it is
// stored, else what is to be answered.
func (c *Collector) ingest(r *http.Request, typ string) *requestError {
	body := requestBodies.Get().(*requestBody)
	defer body.release()
	if refused := body.read(r, c.limits.BodyBytes); refused != nil {
		return refused
	}
	return c.take(r.Context(), body, typ, keysOf(r))
}

// take stores the calls of a body that has been read.
func (c *Collector) take(ctx context.Context, body *requestBody, typ string, keys writeKeys) *requestError {
	p := &body.post
	if refused := p.parse(body.bytes, typ, c.limits); refused != nil {
		return refused
	}
	batches, held, refused := c.sort(p, typ, cmp.Or(keys.basic, p.writeKey, keys.other))
	if refused != nil {
		return refused
	}
	if source, wait := c.rates.admit(batches, c.rateLimit); wait > 0 {
		return &requestError{status: http.StatusTooManyRequests, code: CodeRateLimited, retryAfter: wait,
			message: fmt.Sprintf("source %q sends more than its %d calls a second; send again in %v", source, c.rateLimit(source), wait)}
	}
	for _, b := range batches {
		if refused := c.accept(ctx, b, held); refused != nil {
			return refused
		}
	}
	for _, rejection := range p.rejected {
		c.observer.Observe(rejection)
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

// sort checks every call of a post and sorts the good ones by their source,
// which key names for those that name none. held is how many bytes of memory all
// of them hold.
func (c *Collector) sort(p *post, typ, key string) (batches []Batch, held int, refused *requestError) {
	s := sorter{collector: c, post: p, completer: newCompleter(p, c.limits, c.clock.Now()), key: key, typ: typ}
	s.source, s.known = c.sourceOf(s.key)
	for i := range p.calls {
		s.draft.read(p, i, c.limits, typ)
		s.sort()
		if s.completer.full() {
			return nil, 0, refuse(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
				"with the context and the integrations of the batch in each call, the calls have more than %d bytes", growth*c.limits.BodyBytes)
		}
	}
	if !s.known && !s.anyKnown {
		return nil, 0, c.unknownKey(cmp.Or(s.key, s.unknown))
	}
	if c.config.Strict && len(p.rejected) > 0 {
		e := refuse(http.StatusBadRequest, CodeInvalidCalls, "%d of %d calls are wrong; the first is call %d: %s",
			len(p.rejected), len(p.calls), p.rejected[0].Index, p.rejected[0].Message)
		e.calls = p.rejected
		for _, r := range p.rejected {
			c.observer.Observe(r)
		}
		return nil, 0, e
	}
	return s.batches, cap(s.completer.dst), nil
}

// A sorter sorts the calls of one post.
type sorter struct {
	collector *Collector
	post      *post
	completer *completer
	draft     draft
	batches   []Batch

	key, source string // of the request
	typ         string // of its endpoint; empty where calls name theirs
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
		d.bad.Source, d.bad.ReceivedAt, d.bad.Body = source, s.completer.received, s.post.kept(d)
		d.bad.Type = cut(keptType, cmp.Or(s.typ, d.Type))
		s.post.rejected = append(s.post.rejected, d.bad)
		return
	}
	for i := range s.batches {
		if s.batches[i].Source == source {
			s.batches[i].Calls = append(s.batches[i].Calls, call)
			return
		}
	}
	var calls []Call
	if len(s.batches) == 0 { // most requests have one source
		calls = make([]Call, 0, len(s.post.calls)-d.index)
	}
	s.batches = append(s.batches, Batch{Source: source, ReceivedAt: call.ReceivedAt, Calls: append(calls, call)})
}

// keptType is how many characters of its type a Rejection has.
const keptType = 40

// accept stores a batch, without the calls that were stored before. held is how
// many bytes of memory it holds.
func (c *Collector) accept(ctx context.Context, b Batch, held int) *requestError {
	fresh, repeated, reserved, err := c.dedup.reserve(ctx, b)
	if err != nil {
		return &requestError{status: http.StatusServiceUnavailable, code: CodeUnavailable, retryAfter: storeAgainIn,
			message: "another request has brought the same calls, and they are not stored yet; send again"}
	}
	if 2*fresh.Size()+spareBytes < held {
		fresh.Calls = copyCalls(fresh.Calls)
	}
	if err := c.append(ctx, fresh, reserved); err != nil {
		return c.notStored(fresh, err)
	}
	if len(repeated.Calls) > 0 {
		c.observer.Observe(Repeated{repeated})
	}
	return nil
}

// append stores the calls of a reservation and settles it. It does not end with
// ctx: a sender that no longer waits sends its calls again, and they must be known
// by then.
func (c *Collector) append(ctx context.Context, b Batch, reserved *reservation) error {
	stored := 0
	defer func() {
		if reserved != nil {
			c.settle(b, reserved, stored)
		}
	}()
	if len(b.Calls) == 0 {
		return nil
	}
	err := c.journal.Append(context.WithoutCancel(ctx), b)
	var partly *AppendError
	switch {
	case err == nil:
		stored = len(b.Calls)
	case errors.As(err, &partly):
		unknown := reserved
		reserved = nil
		c.dedup.doubt(unknown)
		go func() { c.settle(b, unknown, partly.Stored()) }() // ends with the journal
	}
	return err
}

// settle ends a reservation whose first calls are stored, so many of them.
func (c *Collector) settle(b Batch, reserved *reservation, stored int) {
	c.dedup.settle(reserved, stored)
	if b.Calls = b.Calls[:stored]; stored > 0 {
		c.observer.Observe(Accepted{b})
	}
}

// spareBytes is how much memory a batch may hold beyond twice what it needs.
const spareBytes = 512

// copyCalls moves calls to memory of their own. One that is kept would else keep
// all that came with it: white space, calls that were wrong, calls that came again.
func copyCalls(calls []Call) []Call {
	calls = slices.Clone(calls)
	bodies := make([]byte, 0, Batch{Calls: calls}.Size())
	for i := range calls {
		start := len(bodies)
		bodies = append(bodies, calls[i].Body...)
		calls[i].Body = bodies[start:len(bodies):len(bodies)]
	}
	return calls
}

// storeAgainIn is when a sender should try again whose calls were not stored.
const storeAgainIn = 5 * time.Second

func (c *Collector) notStored(b Batch, err error) *requestError {
	refused := &requestError{status: http.StatusServiceUnavailable, code: CodeUnavailable, retryAfter: storeAgainIn,
		message: "the calls could not be stored; send again later"}
	level, what := slog.LevelError, "a batch was refused: it could not be stored"
	if errors.Is(err, ErrJournalFull) {
		refused.status, refused.code, refused.message = http.StatusTooManyRequests, CodeQueueFull, "the queue is full; send again later"
		level, what = slog.LevelWarn, "a batch was refused: the journal is full"
	}
	if say, unsaid := c.refusing.say(c.clock.Now(), refusalsEvery, 1); say {
		c.log.Log(context.Background(), level, what, "source", b.Source, "calls", len(b.Calls), "error", err, "others since the last line", unsaid)
	}
	return refused
}

func (c *Collector) unknownKey(key string) *requestError {
	if key == "" {
		return refuse(http.StatusUnauthorized, CodeUnknownWriteKey, "the request has no write key; send it as the user of Basic auth")
	}
	return refuse(http.StatusUnauthorized, CodeUnknownWriteKey, "no source has the write key %s", redact(key))
}

// writeKeys are those that a request came with, outside its body.
type writeKeys struct {
	basic string // the user of Basic auth
	other string // counts where the body has none: a bearer token may be meant for a gateway before us
}

// keysOf returns the write keys of a request's header, or else of its query: what
// browsers send by navigator.sendBeacon has no header of its own. The colon behind
// the user of Basic auth may be missing.
func keysOf(r *http.Request) writeKeys {
	keys := headerKeys(r)
	if keys == (writeKeys{}) && r.URL.RawQuery != "" {
		keys.other = r.URL.Query().Get("writeKey")
	}
	return keys
}

func headerKeys(r *http.Request) writeKeys {
	if user, _, ok := r.BasicAuth(); ok {
		return writeKeys{basic: user}
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return writeKeys{basic: decodeKey(strings.TrimSpace(value))}
	case "bearer":
		return writeKeys{other: strings.TrimSpace(value)}
	}
	return writeKeys{}
}
