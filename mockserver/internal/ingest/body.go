package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// maxPooledBody is the maximum size of bodies whose memory is reused.
	maxPooledBody = 1 << 20
	// packedSlack is how much longer than the body limit compressed data may be, in bytes.
	// Compression can make a body longer.
	packedSlack = 64 << 10
)

// A requestBody is reusable memory for reading and parsing a request.
type requestBody struct {
	bytes.Buffer
	post post
}

var requestBodies = sync.Pool{New: func() any { return new(requestBody) }}

// newBody returns an empty body from the pool.
func newBody() *requestBody {
	b := requestBodies.Get().(*requestBody)
	b.Reset()
	return b
}

// release returns the memory to the pool.
func (b *requestBody) release() {
	if b.Cap() > maxPooledBody {
		return
	}
	b.post = post{calls: b.post.calls[:0], members: b.post.members[:0]}
	requestBodies.Put(b)
}

var unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// readRequest reads and decompresses the body of a request, up to a limit.
func (b *requestBody) readRequest(r *http.Request, limit int) *requestError {
	var in io.Reader = r.Body
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		if r.ContentLength > int64(limit) {
			return tooLarge(limit)
		}
	case "gzip":
		packed := io.LimitReader(r.Body, int64(limit)+packedSlack)
		z := unzippers.Get().(*gzip.Reader)
		defer unzippers.Put(z)
		if err := z.Reset(packed); err != nil {
			return unreadable(err)
		}
		in = z
	default:
		return refuse(http.StatusUnsupportedMediaType, tracking.CodeBadEncoding, "Content-Encoding %.40q is not supported; use gzip", encoding)
	}
	// Do not allocate memory for the announced length. Grow the buffer as data arrives.
	switch n, err := b.ReadFrom(io.LimitReader(in, int64(limit)+1)); {
	case n > int64(limit):
		return tooLarge(limit)
	case err != nil:
		return unreadable(err)
	}
	return nil
}

func tooLarge(limit int) *requestError {
	return refuse(http.StatusRequestEntityTooLarge, tracking.CodeBodyTooLarge, "the body is larger than %d bytes", limit)
}

// unreadable returns the response to a body that is incomplete, too slow, or not compressed as its
// Content-Encoding announces.
func unreadable(err error) *requestError {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, tracking.CodeTimeout, "the body did not arrive in time")
	}
	return refuse(http.StatusBadRequest, tracking.CodeBadEncoding, "the body cannot be read: %v", err)
}
