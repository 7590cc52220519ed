package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	status     int           // 0 if there was no answer
	retryAfter time.Duration // 0 if none was asked for
	err        error         // what was wrong, unless status is a success
}

// httpClient is the client that the requests are made with: a copy of what the
// caller gave. The transport is returned as well if it is not the caller's. The
// time-out is left to each attempt's context, which costs no goroutine.
func httpClient(given http.Client, conns int) (*http.Client, *http.Transport) {
	client := given
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
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
	own.DisableCompression = true // answers are a few bytes
	client.Transport = own
	return &client, own
}

// attempt sends one batch once and posts what came of it.
func (p *pipeline) attempt(ctx context.Context, j *job, b *batch) {
	o := outcome{job: j}
	defer func() {
		if r := recover(); r != nil {
			o.err = fmt.Errorf("the HTTP transport panicked: %v", r)
		}
		p.results <- o
	}()
	started := time.Now()
	pl := newPayload(b, started)
	defer pl.detach()
	o.status, o.retryAfter, o.err = p.post(ctx, pl)
	if o.err == nil {
		p.log.debugf("delivered %d calls, %d bytes, in %v", b.calls, pl.len(), time.Since(started))
	} else {
		p.log.debugf("attempt %d of %d calls, %d bytes, failed after %v: %v", b.attempts+1, b.calls, pl.len(), time.Since(started), o.err)
	}
}

func (p *pipeline) post(ctx context.Context, pl *payload) (status int, retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no answer within %v: %w", p.timeout, context.DeadlineExceeded))
	defer cancel()
	res, err := p.client.Do(p.request(ctx, pl))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return 0, 0, cause
	} else if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if judge(res.StatusCode) == delivered {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
		return res.StatusCode, 0, nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxQuoted))
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	retryAfter = parseRetryAfter(res.Header.Get("Retry-After"), time.Now())
	return res.StatusCode, retryAfter, p.answerError(res.StatusCode, text)
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

func (p *pipeline) request(ctx context.Context, pl *payload) *http.Request {
	header := http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"analytics-go (version: " + Version + ")"},
	}
	if pl.gzip {
		header["Content-Encoding"] = []string{"gzip"}
	}
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           p.url,
		Host:          p.url.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          pl.reader(),
		GetBody:       func() (io.ReadCloser, error) { return pl.reader(), nil },
		ContentLength: int64(pl.len()),
	}
	req.SetBasicAuth(p.writeKey, "")
	return req.WithContext(ctx)
}

// payload is the body of one attempt: a batch's bytes, which are shared with
// other attempts, and an end of its own.
//
// net/http may go on reading a body after the answer has come, and says when it
// ends only by an asynchronous Close. So the attempt detaches the payload as it
// ends: a late read fails, and the batch's buffer can be used again.
type payload struct {
	gzip bool
	size int

	mu    sync.Mutex // guards parts
	parts [2][]byte  // nil once detached
}

func newPayload(b *batch, now time.Time) *payload {
	tail := appendTail(make([]byte, 0, 64), now)
	pl := &payload{}
	if b.zip != nil {
		pl.gzip = true
		pl.parts = [2][]byte{b.zip.data, b.zip.appendEnd(nil, tail)}
	} else {
		pl.parts = [2][]byte{b.buf, tail}
	}
	pl.size = len(pl.parts[0]) + len(pl.parts[1])
	return pl
}

func (pl *payload) len() int { return pl.size }

func (pl *payload) detach() {
	pl.mu.Lock()
	pl.parts = [2][]byte{}
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
	if r.pl.parts[0] == nil {
		return 0, errDetached
	}
	if first := len(r.pl.parts[0]); r.off < first {
		n = copy(dst, r.pl.parts[0][r.off:])
	} else {
		n = copy(dst, r.pl.parts[1][r.off-first:])
	}
	r.off += n
	return n, nil
}

func (r *payloadReader) Close() error { return nil }
