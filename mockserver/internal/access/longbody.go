package access

import (
	"io"
	"net/http"
	"time"
)

// maxUnread limits the rest of a rejected list that is read, in bytes.
const maxUnread = 256 << 20

// A LongBody is a request body without total read timeout. Its deadline is extended with
// each read, because long lists take longer than other requests.
type LongBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// NewLongBody wraps r.Body.
func NewLongBody(w http.ResponseWriter, r *http.Request) LongBody {
	return LongBody{r.Body, http.NewResponseController(w)}
}

// Read implements io.Reader.
func (b LongBody) Read(p []byte) (int, error) {
	// Without a connection, there is no deadline.
	_ = b.connection.SetReadDeadline(time.Now().Add(readTimeout))
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = Errorf(http.StatusBadRequest, "invalid_body", "cannot read the body: %v", err)
	}
	return n, err
}

// ReadRest reads the rest of a rejected body, because a client that is still sending does not
// see the response.
func ReadRest(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, maxUnread) }
