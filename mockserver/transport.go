package mockserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
)

// NewTransport returns an http.RoundTripper that hands each request to a handler
// in the same process, without a network: for tests under testing/synctest, whose
// clock stands still while anything waits for the network. The handler runs in a
// goroutine of its own and its answer is streamed. A request whose context ends
// ends the handler's, and the reading of its answer. If the handler panics with
// http.ErrAbortHandler, the sender sees a connection that was reset.
//
// A webhook receiver is reached through it by [webhook.SenderConfig].Transport,
// and a collector by [Server.Transport].
func NewTransport(h http.Handler) http.RoundTripper { return handlerTransport{h} }

type handlerTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	w := &pipedResponse{header: http.Header{}, started: make(chan struct{}), head: r.Method == http.MethodHead}
	w.readable.L = &w.mu
	go func() {
		aborted := true
		defer func() {
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler {
				panic(cause)
			}
			w.finish(aborted)
			if r.Body != nil {
				_ = r.Body.Close()
			}
		}()
		t.handler.ServeHTTP(w, received(r, ctx))
		aborted = false
	}()
	select {
	case <-w.started:
	case <-r.Context().Done():
		cancel()
		return nil, context.Cause(r.Context())
	}
	if w.status == 0 {
		cancel()
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return w.response(r, cancel), nil
}

// received returns a request as a server sees it.
func received(r *http.Request, ctx context.Context) *http.Request {
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		in.Body, in.ContentLength = http.NoBody, 0
	case r.ContentLength > 0:
		in.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	default:
		in.ContentLength, in.TransferEncoding = -1, []string{"chunked"}
	}
	return in
}

// A pipedResponse is both ends of an answer.
type pipedResponse struct {
	header  http.Header   // the handler's
	started chan struct{} // closed when the status and the header are there, or none will be
	head    bool          // the answer has no body

	mu       sync.Mutex // guards what follows
	readable sync.Cond
	status   int // 0 if the handler ended without an answer
	sent     http.Header
	body     bytes.Buffer
	err      error // what reading the body ends with
}

// Header implements http.ResponseWriter.
func (w *pipedResponse) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pipedResponse) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start(status)
}

func (w *pipedResponse) start(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	close(w.started)
}

// Write implements http.ResponseWriter. It never blocks.
func (w *pipedResponse) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start(http.StatusOK)
	if w.err != nil {
		return 0, w.err // the sender has closed it
	}
	if !w.head {
		w.body.Write(b)
		w.readable.Broadcast()
	}
	return len(b), nil
}

// Flush implements http.Flusher.
func (w *pipedResponse) Flush() { w.WriteHeader(http.StatusOK) }

// finish ends the answer when the handler has returned.
func (w *pipedResponse) finish(aborted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := io.EOF
	if aborted {
		end = io.ErrUnexpectedEOF
	} else {
		w.start(http.StatusOK)
	}
	if w.status == 0 {
		close(w.started)
	}
	if w.err == nil {
		w.err = end
	}
	w.readable.Broadcast()
}

func (w *pipedResponse) response(r *http.Request, cancel context.CancelFunc) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	length, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &pipedBody{w, cancel, w.endWith(r.Context())}, ContentLength: length, Request: r,
	}
}

// endWith ends the answer with a context, unless stop is called before.
func (w *pipedResponse) endWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { w.end(context.Cause(ctx)) })
}

// end makes reading the body end with an error, once what was written is read.
func (w *pipedResponse) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.readable.Broadcast()
}

// A pipedBody is the sender's end.
type pipedBody struct {
	response *pipedResponse
	cancel   context.CancelFunc // ends the handler's context
	forget   func() bool        // makes the end of the sender's context do nothing
}

// Read implements io.Reader.
func (b *pipedBody) Read(p []byte) (int, error) {
	w := b.response
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.body.Len() == 0 && w.err == nil {
		w.readable.Wait()
	}
	if w.body.Len() > 0 {
		return w.body.Read(p)
	}
	return 0, w.err
}

// Close implements io.Closer.
func (b *pipedBody) Close() error {
	b.forget()
	b.cancel()
	b.response.end(io.ErrClosedPipe)
	return nil
}
