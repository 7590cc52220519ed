package analytics

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// maxAnswer is how much of an answer is read, so that its connection can be
	// used again. The connection of a longer one is closed.
	maxAnswer = 64 << 10
	// maxQuoted is how much of the text of an answer is quoted in an error.
	maxQuoted = 256
)

// sender makes attempts, one after the other, while they succeed.
type sender struct {
	*pipeline
	request *http.Request // what all its requests have in common
	timer   *time.Timer   // cancels them when an attempt has taken too long
	answer  []byte        // the buffer that answers are read into

	// A transport may read a body after RoundTrip has returned, when the answer
	// came early or the attempt timed out. It reports the end of each reader.
	readers, read atomic.Int32
}

// send makes an attempt, and goes on with the batches that wait while attempts
// succeed. It sends the last outcome to the loop.
func (p *pipeline) send(ctx context.Context, j *job, body []byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sender{pipeline: p, answer: make([]byte, 512)}
	s.request = p.request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { s.read.Add(1) },
	}))
	s.timer = time.AfterFunc(p.timeout, func() {
		cancel(fmt.Errorf("no answer within %v: %w", p.timeout, context.DeadlineExceeded))
	})
	var o outcome
	defer func() { p.outcomes <- o }()
	for body != nil {
		o = outcome{job: j, inUse: true, err: errTransportExit} // unless the attempt returns
		o = s.attempt(body)
		o.job = j
		body = p.proceed(&o)
	}
}

// errTransportExit is the error of an attempt whose transport ended the goroutine, as
// the FailNow of a test does.
var errTransportExit = errors.New("the HTTP transport called runtime.Goexit")

// transportError is the error of a transport. Its Error may be the caller's code, so
// it is called once, without a mutex.
type transportError struct {
	text string
	err  error
}

func (e *transportError) Error() string { return e.text }
func (e *transportError) Unwrap() error { return e.err }

// proceed ends a batch that was delivered, and replaces it in its job by the next one
// that waits, whose body it returns. It returns nil if there is none, or if the loop
// is to decide what is next. It also closes the gate: the loop may be busy while
// other senders go on.
func (p *pipeline) proceed(o *outcome) (body []byte) {
	p.mu.Lock()
	defer p.unlock()
	if o.retryAfter > 0 {
		p.outbox.hold(time.Now().Add(o.retryAfter))
	}
	if o.err != nil || o.inUse {
		return nil
	}
	j := o.job
	if len(j.todo) != 1 || j.parts != nil {
		return nil
	}
	p.stats.Attempts++
	p.end(j.todo[0], nil)
	j.todo = j.todo[:0]
	o.handled = true
	if !p.outbox.gate.IsZero() {
		return nil
	}
	b := p.outbox.ready.pop()
	if b == nil {
		return nil
	}
	j.todo = append(j.todo, b)
	return b.body(time.Now())
}

// attempt sends a body once.
func (s *sender) attempt(body []byte) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{err: fmt.Errorf("the HTTP transport panicked: %v", r)}
		}
		o.inUse = !s.timer.Stop() || s.read.Load() < s.readers.Load()
	}()
	started := time.Now()
	s.timer.Reset(s.timeout)
	o = s.post(body)
	if s.log.verbose {
		s.log.logAttempt(o, len(body), time.Since(started))
	}
	return o
}

func (l *logger) logAttempt(o outcome, size int, took time.Duration) {
	if o.err == nil {
		l.debugf("delivered a batch of %d bytes in %v", size, took)
	} else {
		l.debugf("an attempt to send a batch of %d bytes failed after %v: %v", size, took, o.err)
	}
}

func (s *sender) post(body []byte) outcome {
	ctx := s.request.Context()
	request := s.request.WithContext(ctx)
	if !s.direct() { // other code may write to it
		request = s.request.Clone(ctx)
	}
	s.readers.Store(0)
	s.read.Store(0)
	request.GetBody = func() (io.ReadCloser, error) {
		s.readers.Add(1)
		// net/http would flush before a body of another type.
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	request.Body, _ = request.GetBody()
	request.ContentLength = int64(len(body))
	res, err := s.do(request)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return outcome{err: cause}
	} else if err != nil {
		return outcome{err: &transportError{err.Error(), err}}
	}
	defer res.Body.Close()
	var text []byte
	if res.StatusCode != http.StatusSwitchingProtocols { // a read after it would not time out
		text = s.readAnswer(res)
	}
	if classify(res.StatusCode) == delivered {
		return outcome{status: res.StatusCode}
	}
	o := outcome{status: res.StatusCode, err: s.answerError(res.StatusCode, text)}
	if classify(res.StatusCode) == retry {
		o.retryAfter = parseRetryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	return o
}

// direct reports whether requests go to the transport without an http.Client, whose
// redirects are not wanted and whose copies of the header and the URL are an eighth
// of the allocations of a request.
func (s *sender) direct() bool { return s.ownTransport != nil && s.client.Jar == nil }

// do makes a request. Its errors are those of an http.Client.
func (s *sender) do(request *http.Request) (*http.Response, error) {
	if !s.direct() {
		return s.client.Do(request)
	}
	res, err := s.ownTransport.RoundTrip(request)
	if err == nil {
		return res, nil
	}
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	return nil, &url.Error{Op: "Post", URL: request.URL.Redacted(), Err: err}
}

// readAnswer reads an answer to its end, within bounds, and returns its start: as much
// as fits the buffer, or more if the answer may say what is wrong.
func (s *sender) readAnswer(res *http.Response) []byte {
	n, err := io.ReadFull(res.Body, s.answer)
	if err != nil { // the end
		return s.answer[:n]
	}
	rest := io.LimitReader(res.Body, maxAnswer)
	if classify(res.StatusCode) == delivered {
		_, _ = io.Copy(io.Discard, rest)
		return s.answer
	}
	more, _ := io.ReadAll(rest)
	return slices.Concat(s.answer, more)
}

// answerError returns the error of an answer that is not a success. Text is the
// server's.
func (p *pipeline) answerError(status int, text []byte) error {
	s := fmt.Sprintf("the collector answered %d %s", status, http.StatusText(status))
	if status >= 300 && status <= 399 {
		s += " (redirects are not followed; Endpoint must be the collector's own URL)"
	}
	// The write key is redacted before the text is cut: a part of the key would
	// not be recognized.
	said := p.log.secrets.redact(answerMessage(text))
	if strings.ContainsFunc(said, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		said = strconv.QuoteToASCII(said)
	}
	if len(said) > maxQuoted {
		said = strings.ToValidUTF8(said[:maxQuoted], "") + "…"
	}
	if said != "" {
		s += ": " + said
	}
	return errors.New(s)
}

// answerMessage returns the text of an answer for people: the message or error of a
// JSON object, or else all of it.
func answerMessage(text []byte) string {
	var answer struct{ Message, Error interface{} }
	if json.Unmarshal(text, &answer) == nil {
		for _, field := range []interface{}{answer.Message, answer.Error} {
			if message, ok := field.(string); ok && message != "" {
				return message
			}
		}
	}
	return strings.TrimSpace(string(text))
}
