package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxAnswer is how much of an answer is read so that its connection can
	// be used again; a longer one costs the connection.
	maxAnswer = 64 << 10
	// maxQuoted is how much of an answer's text is kept to say what was wrong.
	maxQuoted = 256
)

// outcome is what one attempt came to. The loop acts on it.
type outcome struct {
	job        *job
	settled    bool          // the sender has ended the job's last batch already
	status     int           // 0 if there was no answer
	retryAfter time.Duration // 0 if none was asked for
	err        error         // what was wrong, unless status is a success
}

// httpClient is the client that the requests are made with: a copy of what the
// caller gave. The transport is returned as well if it is not the caller's.
func httpClient(given http.Client, conns int) (*http.Client, *http.Transport) {
	client := given
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0 // a sender sees to it
	if client.Transport != nil {
		return &client, nil
	}
	// A test that replaced http.DefaultTransport means us as well.
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return &client, nil
	}
	own := base.Clone()
	own.MaxIdleConnsPerHost = conns
	own.DisableCompression = true  // answers are a few bytes
	own.WriteBufferSize = 64 << 10 // most requests are one write
	own.DialContext = directDial(own.DialContext)
	client.Transport = own
	return &client, own
}

// sender makes attempts, one after the other. What they have in common is made
// once.
type sender struct {
	*pipeline
	request *http.Request
	cancel  context.CancelCauseFunc // ends the requests, all of them
	timer   *time.Timer             // cancels when an attempt has taken too long
	answer  []byte                  // the buffer that answers are read into
}

// send makes an attempt, and goes on with the batches that wait as long as all
// goes well. It posts one outcome to the loop, as it ends.
func (p *pipeline) send(ctx context.Context, j *job, pl *payload) {
	s := p.newSender(ctx)
	defer s.cancel(nil)
	var o outcome
	for pl != nil {
		var again bool
		o, again = s.attempt(pl)
		o.job = j
		pl = p.proceed(&o, again)
	}
	p.results <- o
}

func (p *pipeline) newSender(ctx context.Context) *sender {
	s := &sender{pipeline: p, answer: make([]byte, 512)}
	ctx, s.cancel = context.WithCancelCause(ctx)
	request := http.Request{
		Method:     http.MethodPost,
		URL:        p.url,
		Host:       p.url.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {"analytics-go (version: " + Version + ")"},
		},
	}
	if p.gzip {
		request.Header["Content-Encoding"] = []string{"gzip"}
	}
	request.SetBasicAuth(p.writeKey, "")
	s.request = request.WithContext(ctx)
	s.timer = time.AfterFunc(p.timeout, func() { s.cancel(errTimeout(p.timeout)) })
	return s
}

// proceed ends a batch that was delivered and gives its job the next one that
// waits. It is nil if there is none, or if what comes next is for the loop to
// decide.
func (p *pipeline) proceed(o *outcome, able bool) *payload {
	if o.err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.unlock()
	j := o.job
	if len(j.todo) != 1 || j.todo[0].half != nil {
		return nil
	}
	p.stats.Attempts++
	p.failure = nil
	p.end(j.todo[0], nil)
	j.todo = j.todo[:0]
	o.settled = true
	if !able || !p.gate.IsZero() {
		return nil
	}
	b := p.ready.pop()
	if b == nil {
		return nil
	}
	j.todo = append(j.todo, b)
	return newPayload(b, time.Now())
}

// attempt sends one batch once. The sender is able to make another attempt,
// unless this one ran into the time limit.
func (s *sender) attempt(pl *payload) (o outcome, able bool) {
	defer pl.detach()
	defer func() {
		if r := recover(); r != nil {
			o, able = outcome{err: fmt.Errorf("the HTTP transport panicked: %v", r)}, false
		}
	}()
	started := time.Now()
	s.timer.Reset(s.timeout)
	o = s.post(pl)
	able = s.timer.Stop()
	if s.log.verbose {
		s.log.logAttempt(o, pl, time.Since(started))
	}
	return o, able
}

func (l *logger) logAttempt(o outcome, pl *payload, took time.Duration) {
	if o.err == nil {
		l.logf("delivered %d calls, %d bytes, in %v", pl.calls, pl.size, took)
	} else {
		l.logf("an attempt of %d calls, %d bytes, failed after %v: %v", pl.calls, pl.size, took, o.err)
	}
}

func (s *sender) post(pl *payload) outcome {
	request := new(http.Request)
	*request = *s.request
	if s.ownTransport == nil || s.client.Jar != nil {
		request.Header = request.Header.Clone() // to whom it is not ours to trust
	}
	request.Body = pl.reader()
	request.GetBody = func() (io.ReadCloser, error) { return pl.reader(), nil }
	request.ContentLength = int64(pl.size)
	res, err := s.client.Do(request)
	if err != nil {
		return outcome{err: s.cause(err)}
	}
	defer res.Body.Close()
	text := s.read(res.Body)
	if judge(res.StatusCode, 1) == delivered {
		return outcome{status: res.StatusCode}
	}
	return outcome{
		status:     res.StatusCode,
		retryAfter: parseRetryAfter(res.Header.Get("Retry-After"), time.Now()),
		err:        s.answerError(res.StatusCode, text),
	}
}

// read reads an answer to its end, within bounds, and returns how it starts.
func (s *sender) read(body io.Reader) (text []byte) {
	n, err := io.ReadFull(body, s.answer)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxAnswer))
	}
	return s.answer[:min(n, maxQuoted)]
}

// cause says what is behind the error of a request that was cancelled.
func (s *sender) cause(err error) error {
	if cause := context.Cause(s.request.Context()); cause != nil {
		return fmt.Errorf("%w (%v)", cause, err)
	}
	return err
}

func errTimeout(limit time.Duration) error {
	return fmt.Errorf("no complete answer within %v", limit)
}

// answerError quotes an answer that is not a success. The text is the server's.
func (p *pipeline) answerError(status int, text []byte) error {
	s := fmt.Sprintf("the collector answered %d %s", status, http.StatusText(status))
	if status >= 300 && status <= 399 {
		s += " (redirects are not followed; Endpoint must be the collector's own URL)"
	}
	if len(text) > 0 {
		s += fmt.Sprintf(": %q", text)
	}
	return errors.New(p.log.secrets.Replace(s))
}

// payload is the body of one attempt: a batch's bytes and the tail. It lies in
// the batch's own buffer.
//
// net/http may go on reading a body after the answer has come, and says when it
// ends only by an asynchronous Close. So the attempt detaches the payload as it
// ends: a late read fails, and the batch's buffer can be used again.
type payload struct {
	calls int
	size  int

	mu   sync.Mutex // guards body, also while it is written from
	body []byte     // nil once detached
}

// newPayload completes a batch for an attempt. There is one at a time.
func newPayload(b *batch, now time.Time) *payload {
	pl := &payload{calls: b.calls}
	if b.zip != nil {
		var tail [tailLen]byte
		pl.body = b.zip.appendEnd(b.zip.data, appendTail(tail[:0], now))
	} else {
		pl.body = appendTail(b.buf, now)
	}
	pl.size = len(pl.body)
	return pl
}

func (pl *payload) detach() {
	pl.mu.Lock()
	pl.body = nil
	pl.mu.Unlock()
}

func (pl *payload) reader() io.ReadCloser { return &payloadReader{pl: pl} }

var errDetached = errors.New("analytics: the attempt that this body belongs to has ended")

type payloadReader struct {
	pl  *payload
	off int
}

func (r *payloadReader) Read(dst []byte) (n int, err error) {
	if r.off == r.pl.size {
		return 0, io.EOF
	}
	r.pl.mu.Lock()
	defer r.pl.mu.Unlock()
	if r.pl.body == nil {
		return 0, errDetached
	}
	n = copy(dst, r.pl.body[r.off:])
	r.off += n
	return n, nil
}

// WriteTo writes what is left in one go.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	if r.off == r.pl.size {
		return 0, nil
	}
	r.pl.mu.Lock()
	defer r.pl.mu.Unlock()
	if r.pl.body == nil {
		return 0, errDetached
	}
	n, err := w.Write(r.pl.body[r.off:])
	r.off += n
	return int64(n), err
}

func (r *payloadReader) Close() error { return nil }

// directDial makes connections that take a batch's bytes without a copy.
func directDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok {
			conn = directConn{tcp}
		}
		return conn, err
	}
}

type directConn struct{ *net.TCPConn }

// ReadFrom is what net/http writes a body with, after what fitted into its
// write buffer.
func (c directConn) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(*payloadReader); ok {
			return body.WriteTo(c.TCPConn)
		}
	}
	return c.TCPConn.ReadFrom(r)
}
