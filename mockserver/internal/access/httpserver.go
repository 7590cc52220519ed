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
	writeTimeout      = 20 * time.Second // for each write
	maxHeaderBytes    = 64 << 10
)

// NewHTTPServer returns an http.Server with timeouts and limits against slow and hostile clients. It
// disconnects a client that does not read a response for 20 seconds. It does not limit the duration
// of the handler.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           guardedConnection{h},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// A guardedConnection sets a timeout for each write, and prevents request smuggling.
type guardedConnection struct{ next http.Handler }

// ServeHTTP implements http.Handler.
func (g guardedConnection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// net/http ignores a Content-Length in addition to Transfer-Encoding. If a proxy uses it,
		// the proxy may treat the end of this body as another request.
		w.Header().Set("Connection", "close")
	}
	timed := &timedResponse{w, http.NewResponseController(w)}
	g.next.ServeHTTP(timed, r)
	timed.extend() // for data that is still buffered
}

// A timedResponse sets a deadline for each write. http.Server.WriteTimeout is not suitable, because it
// limits the whole response, even of a stream.
type timedResponse struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (t *timedResponse) extend() { _ = t.control.SetWriteDeadline(time.Now().Add(writeTimeout)) }

// Write implements http.ResponseWriter.
func (t *timedResponse) Write(b []byte) (int, error) {
	t.extend()
	return t.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped ResponseWriter. http.ResponseController calls it.
func (t *timedResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }
