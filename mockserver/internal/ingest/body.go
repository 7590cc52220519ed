package ingest

import (
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
	// firstRead is how much is read of a body before more room is made for it: a
	// sender's word for its length is no reason to set memory aside.
	firstRead = 4 << 10
	// pooledBody bounds the bodies whose memory is used again.
	pooledBody = 1 << 20
	// packedSlack is how much larger than a body its packed form may be.
	packedSlack = 64 << 10
)

// A requestBody is the memory that a request is read into, and parsed in.
type requestBody struct {
	bytes []byte
	post  post
}

var requestBodies = sync.Pool{New: func() any { return &requestBody{bytes: make([]byte, 0, firstRead)} }}

// release lets the next request have the memory.
func (b *requestBody) release() {
	if cap(b.bytes) > pooledBody {
		return
	}
	b.post = post{calls: b.post.calls[:0], members: b.post.members[:0]}
	requestBodies.Put(b)
}

var unzippers sync.Pool // of *gzip.Reader

// read reads and unpacks the body of a request, up to a limit.
func (b *requestBody) read(r *http.Request, limit int) *requestError {
	var in io.Reader = r.Body
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		if r.ContentLength > int64(limit) {
			return tooLarge(limit)
		}
	case "gzip":
		packed := io.LimitReader(r.Body, int64(limit)+packedSlack)
		z, _ := unzippers.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		defer unzippers.Put(z)
		if err := z.Reset(packed); err != nil {
			return unreadable(err)
		}
		in = z
	default:
		return refuse(http.StatusUnsupportedMediaType, tracking.CodeBadEncoding, "Content-Encoding %.40q is not supported; gzip is", encoding)
	}
	b.bytes = b.bytes[:0]
	for limited := io.LimitReader(in, int64(limit)+1); ; {
		if len(b.bytes) == cap(b.bytes) {
			b.bytes = append(b.bytes, 0)[:len(b.bytes)]
		}
		n, err := limited.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > limit:
			return tooLarge(limit)
		case err == io.EOF:
			return nil
		case err != nil:
			return unreadable(err)
		}
	}
}

func tooLarge(limit int) *requestError {
	return refuse(http.StatusRequestEntityTooLarge, tracking.CodeBodyTooLarge, "the body has more than %d bytes", limit)
}

// unreadable is a body that breaks off, comes too slowly, or is not packed as its
// Content-Encoding says.
func unreadable(err error) *requestError {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, tracking.CodeTimeout, "the body did not come in time")
	}
	return refuse(http.StatusBadRequest, tracking.CodeBadEncoding, "the body cannot be read: %v", err)
}
