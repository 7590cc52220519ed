package pipeline

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// maxResponse is the maximum number of response bytes to read so that the connection can
// be reused. The connection of a longer response is closed.
const maxResponse = 64 << 10

// sender sends batches one after another while its attempts succeed.
type sender struct {
	*Pipeline
	request *http.Request // the parts that all its requests share
	timer   *time.Timer   // cancels an attempt that takes too long
	buffer  []byte        // the buffer for response bodies

	// A transport may read a body after RoundTrip has returned, for example after a timeout.
	// readers counts the readers of the body, and read counts those that have finished.
	readers, read atomic.Int32
}

// outcome is the result of an attempt.
type outcome struct {
	job        *job
	handled    bool          // the sender has already recorded the result of the batch
	inUse      bool          // the transport may still read the body
	status     int           // HTTP status, or 0 without a response
	retryAfter time.Duration // the pause that the collector requires, or 0
	err        error         // nil if the batch was delivered
}

// send makes an attempt. While attempts succeed, it continues with queued batches. It passes the
// last outcome to the loop.
func (p *Pipeline) send(ctx context.Context, j *job, u upload) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sender{Pipeline: p, buffer: make([]byte, 512)}
	s.request = p.Request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { s.read.Add(1) },
	}))
	s.timer = time.AfterFunc(p.Timeout, func() {
		cancel(fmt.Errorf("no response within %v: %w", p.Timeout, context.DeadlineExceeded))
	})
	var o outcome
	defer func() { p.outcomes <- o }()
	for u.body != nil {
		o = outcome{job: j, inUse: true, err: errTransportExit} // the outcome if the transport calls runtime.Goexit
		o = s.attempt(u)
		o.job = j
		u = p.proceed(&o)
	}
}

// errTransportExit is the error of an attempt if the transport calls runtime.Goexit, as FailNow
// of a test does.
var errTransportExit = errors.New("the HTTP transport called runtime.Goexit")

// clippedError is err with a shorter text. The text is computed once and without a mutex,
// because the Error method of err may be the caller's code.
type clippedError struct {
	text string
	err  error
}

// transportError redacts and clips an error of the transport. It redacts the write key before it
// clips the text. Otherwise the text could end with a part of the key, which is not redacted.
func (p *Pipeline) transportError(err error) error {
	request, ok := err.(*url.Error) //nolint:errorlint // the outermost has the URL
	if !ok {
		return &clippedError{wire.Clip(p.log.secrets.redact(err.Error()), wire.MaxRepeated), err}
	}
	to := wire.Clip(p.log.secrets.redact(request.URL), wire.MaxRepeated/2)
	why := wire.Clip(p.log.secrets.redact(request.Err.Error()), wire.MaxRepeated-min(len(to), wire.MaxRepeated/2))
	return &clippedError{fmt.Sprintf("%s %q: %s", request.Op, to, why), err}
}

// panicked returns the error for a panic in the transport.
func (p *Pipeline) panicked(v interface{}) error {
	return errors.New("the HTTP transport panicked: " + wire.Clip(p.log.secrets.redact(fmt.Sprint(v)), wire.MaxRepeated))
}

func (e *clippedError) Error() string { return e.text }
func (e *clippedError) Unwrap() error { return e.err }

// proceed records the delivery of a batch and starts the next queued batch in the same job. It
// returns the upload of the new batch. The upload has no body if no batch is queued, or if the
// loop must handle the outcome. proceed also closes the gate, because the loop may be busy while
// other senders continue.
func (p *Pipeline) proceed(o *outcome) upload {
	now := time.Now()
	p.mu.Lock()
	defer p.unlock()
	if o.retryAfter > 0 {
		p.outbox.closeGate(now.Add(o.retryAfter))
	}
	if o.err != nil || o.inUse {
		return upload{}
	}
	j := o.job
	if len(j.todo) != 1 || j.parts != nil {
		return upload{}
	}
	p.stats.Attempts++
	p.noteOutage(retry.Delivered, *o, now)
	p.end(j.todo[0], nil)
	j.todo = j.todo[:0]
	o.handled = true
	if !p.outbox.gate.IsZero() {
		return upload{}
	}
	b := p.outbox.ready.pop()
	if b == nil {
		return upload{}
	}
	j.todo = append(j.todo, b)
	return b.upload(now)
}

// attempt sends a request once.
func (s *sender) attempt(u upload) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{err: s.panicked(r)}
		}
		o.inUse = !s.timer.Stop() || s.read.Load() < s.readers.Load()
	}()
	started := time.Now()
	s.timer.Reset(s.Timeout)
	o = s.post(u)
	if s.log.verbose {
		s.log.log(s.request.Context(), attempted(o, len(u.body), time.Since(started)))
	}
	return o
}

// attempted returns the verbose log entry for an attempt to send a batch of size bytes.
func attempted(o outcome, size int, took time.Duration) entry {
	e := entry{
		level: slog.LevelDebug, message: "batch delivered",
		attrs: []slog.Attr{slog.Int("bytes", size), slog.Duration("duration", took)},
		line:  fmt.Sprintf("delivered a batch of %d bytes in %v", size, took),
	}
	if o.status != 0 {
		e.attrs = append(e.attrs, slog.Int("status", o.status))
	}
	if o.err != nil {
		e.message, e.attrs = "attempt failed", append(e.attrs, errorAttr(o.err))
		e.line = fmt.Sprintf("an attempt to send a batch of %d bytes failed after %v: %v", size, took, o.err)
	}
	return e
}

func (s *sender) post(u upload) outcome {
	ctx := s.request.Context()
	if s.Values {
		ctx = context.WithValue(ctx, idsKey{}, u.ids)
	}
	request := s.request.WithContext(ctx)
	if !s.Transport.direct { // other code may change the request
		request = s.request.Clone(ctx)
	}
	if u.retries > 0 {
		request.Header = s.request.Header.Clone()
		request.Header.Set(retry.HeaderCount, strconv.Itoa(u.retries))
	}
	s.readers.Store(0)
	s.read.Store(0)
	request.GetBody = func() (io.ReadCloser, error) {
		s.readers.Add(1)
		// With other types, net/http would flush its buffer before the body.
		return io.NopCloser(bytes.NewReader(u.body)), nil
	}
	request.Body, _ = request.GetBody()
	request.ContentLength = int64(len(u.body))
	res, err := s.do(request)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return outcome{err: cause}
	} else if err != nil {
		return outcome{err: s.transportError(err)}
	}
	defer res.Body.Close()
	var text []byte
	if res.StatusCode != http.StatusSwitchingProtocols { // reading after a 101 response would not time out
		text = s.readResponse(res)
	}
	policy := s.policy.Load()
	if policy.Classify(res.StatusCode) == retry.Delivered {
		return outcome{status: res.StatusCode}
	}
	return outcome{
		status:     res.StatusCode,
		retryAfter: policy.RetryAfter(res.StatusCode, res.Header, time.Now()),
		err:        s.responseError("the collector", "Endpoint", res.StatusCode, text),
	}
}

// do sends a request. Its errors have the same format as the errors of an http.Client.
func (s *sender) do(request *http.Request) (*http.Response, error) {
	if !s.Transport.direct {
		return s.Transport.client.Do(request)
	}
	res, err := s.Transport.own.RoundTrip(request)
	if err == nil {
		return res, nil
	}
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	return nil, &url.Error{Op: "Post", URL: request.URL.Redacted(), Err: err}
}

// readResponse reads the body of a response, up to maxResponse. It returns the start of the
// body. If the body may contain an error message, it returns the whole body.
func (s *sender) readResponse(res *http.Response) []byte {
	n, err := io.ReadFull(res.Body, s.buffer)
	if err != nil { // the body ends
		return s.buffer[:n]
	}
	rest := io.LimitReader(res.Body, maxResponse)
	if s.policy.Load().Classify(res.StatusCode) == retry.Delivered {
		_, _ = io.Copy(io.Discard, rest)
		return s.buffer
	}
	more, _ := io.ReadAll(rest)
	return slices.Concat(s.buffer, more)
}

// pause returns the pause after a failed attempt. The caller must not hold mu, because
// Config.Backoff is the caller's code. If Backoff panics, pause uses the default.
func (p *Pipeline) pause(tries *retry.Tries, retryAfter time.Duration) (pause retry.Pause) {
	defer func() {
		if v := recover(); v != nil {
			said := wire.Clip(p.log.secrets.redact(fmt.Sprint(v)), wire.MaxRepeated)
			p.results.note(entry{
				slog.LevelError, "backoff panicked", []slog.Attr{slog.String("panic", said)},
				"Config.Backoff panicked: " + said,
			})
			pause = (&retry.Policy{Backoff: retry.DefaultBackoff(), Persist: true}).Pause(tries, 0)
		}
	}()
	return p.policy.Load().Pause(tries, retryAfter)
}

// responseError returns the error for an unsuccessful response of a server. setting is the name of
// the field with the server's URL, and text is the response body.
func (p *Pipeline) responseError(server, setting string, status int, text []byte) error {
	s := strings.TrimSpace(fmt.Sprintf("%s responded with %d %s", server, status, http.StatusText(status)))
	if status >= 300 && status <= 399 {
		s += fmt.Sprintf(" (the client does not follow redirects; set %s to the URL of %s)", setting, server)
	}
	// Redact the write key before clipping the text. Otherwise the text could end with a
	// part of the key, which is not redacted.
	said := p.log.secrets.redact(responseMessage(text))
	if strings.ContainsFunc(said, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		said = strconv.QuoteToASCII(said)
	}
	if said != "" {
		s += ": " + wire.Clip(said, wire.MaxRepeated)
	}
	return errors.New(s)
}

// responseMessage returns the readable text of a response body. This is the field message or
// error of a JSON object, or otherwise the whole text.
func responseMessage(text []byte) string {
	var response struct{ Message, Error interface{} }
	if json.Unmarshal(text, &response) == nil {
		for _, field := range []interface{}{response.Message, response.Error} {
			if message, ok := field.(string); ok && message != "" {
				return message
			}
		}
	}
	return strings.TrimSpace(string(text))
}
