package mockserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
)

// NewTransport returns an http.RoundTripper that passes each request to a handler in the
// same process. Use it under testing/synctest, where time does not advance while a
// goroutine waits for the network. The handler runs on its own goroutine, and its
// response is streamed. Canceling a request cancels the handler's context and ends
// reading of the response. If the handler panics with http.ErrAbortHandler, the sender
// sees a connection reset.
//
// Set [webhook.SenderConfig].Transport to reach a webhook receiver this way. Use
// [Server.Transport] to reach a collector.
func NewTransport(h http.Handler) http.RoundTripper { return handlerTransport{h} }

type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, end := io.Pipe()
	w := &pipedResponse{header: http.Header{}, started: make(chan struct{}), head: r.Method == http.MethodHead, body: end}
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
	}
	if r.Context().Err() != nil { // the handler may have ended because of it
		cancel()
		_ = body.Close()
		return nil, context.Cause(r.Context())
	}
	if w.status == 0 {
		cancel()
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	forget := context.AfterFunc(r.Context(), func() { _ = end.CloseWithError(context.Cause(r.Context())) })
	return w.response(r, &pipedBody{body, cancel, forget}), nil
}

// received returns a copy of the request as a server would receive it.
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

// A pipedResponse is the handler's side of a response. Write blocks until the sender has
// read the data or closed the body.
type pipedResponse struct {
	header  http.Header
	head    bool // response to a HEAD request, without a body
	body    *io.PipeWriter
	once    sync.Once     // guards the closing of started
	started chan struct{} // closed when status and header are set, or the handler has ended
	status  int           // set before started is closed; 0 if the handler wrote no response
	sent    http.Header   // set before started is closed
}

func (w *pipedResponse) Header() http.Header { return w.header }

func (w *pipedResponse) WriteHeader(status int) {
	if status < 200 {
		return
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *pipedResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.head {
		return len(b), nil
	}
	return w.body.Write(b)
}

func (w *pipedResponse) Flush() { w.WriteHeader(http.StatusOK) }

// finish ends the response after the handler has returned.
func (w *pipedResponse) finish(aborted bool) {
	if aborted {
		w.once.Do(func() { close(w.started) })
		_ = w.body.CloseWithError(io.ErrUnexpectedEOF)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = w.body.Close()
}

func (w *pipedResponse) response(r *http.Request, body io.ReadCloser) *http.Response {
	length, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: length, Request: r,
	}
}

// A pipedBody is the sender's side of a response.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelFunc // cancels the handler's context
	forget func() bool        // stops watching the sender's context
}

func (b *pipedBody) Close() error {
	b.forget()
	b.cancel()
	return b.PipeReader.Close()
}
