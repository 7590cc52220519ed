package access

import (
	"net/http"
	"time"
)

// Timeouts of the HTTP server.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = 20 * time.Second // per write
	maxHeaderBytes    = 64 << 10
)

// NewHTTPServer returns an http.Server with timeouts and limits against slow and hostile
// clients. A client that does not read a response for 20 seconds is disconnected. The
// duration of the handler is not limited.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           guardedConnection{h},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// A guardedConnection applies the write timeout and prevents request smuggling.
type guardedConnection struct{ next http.Handler }

// ServeHTTP implements http.Handler.
func (g guardedConnection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// The request may have had a Content-Length as well, which net/http removes. A proxy
		// that uses it would treat the end of this body as another request.
		w.Header().Set("Connection", "close")
	}
	timed := &timedResponse{w, http.NewResponseController(w)}
	g.next.ServeHTTP(timed, r)
	timed.extend() // for buffered data
}

// A timedResponse sets a deadline for each write. http.Server.WriteTimeout limits the whole
// response, including streams.
type timedResponse struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (t *timedResponse) extend() { _ = t.control.SetWriteDeadline(time.Now().Add(answerTimeout)) }

// Write implements http.ResponseWriter.
func (t *timedResponse) Write(b []byte) (int, error) {
	t.extend()
	return t.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (t *timedResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }
