package access

import (
	"net/http"
	"time"
)

// Time-outs of the HTTP server, so that a slow sender cannot hold a connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = 20 * time.Second // of each write
	maxHeaderBytes    = 64 << 10
)

// NewHTTPServer returns an http.Server for a handler, with the time-outs and
// limits that a collector needs against slow and hostile senders. Whoever does not
// read what the handler writes for 20 seconds is cut off; how long the handler takes
// is not limited.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           guardedConnection{h},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// A guardedConnection keeps those who send a request from holding its connection.
type guardedConnection struct{ next http.Handler }

// ServeHTTP implements http.Handler.
func (g guardedConnection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// It may have had a Content-Length too, which net/http removes. A proxy that
		// goes by that one takes the end of this body for another request.
		w.Header().Set("Connection", "close")
	}
	timed := &timedResponse{w, http.NewResponseController(w)}
	g.next.ServeHTTP(timed, r)
	timed.extend() // for what is flushed now
}

// A timedResponse gives each write a time-out. http.Server.WriteTimeout would be one
// for the whole answer, streams too.
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

// Unwrap lets an http.ResponseController find what this one lacks.
func (t *timedResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }
