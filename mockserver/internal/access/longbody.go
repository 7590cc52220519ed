package access

import (
	"io"
	"net/http"
	"time"
)

// maxUnread is the maximum number of bytes that ReadRest reads.
const maxUnread = 256 << 20

// A LongBody is a request body without a time limit for the whole body. Each read extends the
// deadline, because long lists take longer than other requests.
type LongBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// NewLongBody returns a LongBody that reads from r.Body.
func NewLongBody(w http.ResponseWriter, r *http.Request) LongBody {
	return LongBody{r.Body, http.NewResponseController(w)}
}

// Read implements io.Reader.
func (b LongBody) Read(p []byte) (int, error) {
	// The error can be ignored: without a connection, there is no deadline.
	_ = b.connection.SetReadDeadline(time.Now().Add(readTimeout))
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		// From now on, net/http reads to detect a disconnect. At the deadline it would cancel the handler.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	if err != nil && err != io.EOF {
		err = Errorf(http.StatusBadRequest, "invalid_body", "cannot read the body: %v", err)
	}
	return n, err
}

// ReadRest reads the rest of a rejected body. Otherwise a client that is still sending would not
// receive the response.
func ReadRest(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, maxUnread) }
