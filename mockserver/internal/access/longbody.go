package access

import (
	"io"
	"net/http"
	"time"
)

// maxUnread is how much of a list that was refused is still read, in bytes.
const maxUnread = 256 << 20

// A LongBody is the body of a request that lasts as long as its body keeps coming: to
// send a long list takes longer than the server waits for other requests.
type LongBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// NewLongBody returns the body of a request, for r.Body.
func NewLongBody(w http.ResponseWriter, r *http.Request) LongBody {
	return LongBody{r.Body, http.NewResponseController(w)}
}

// Read implements io.Reader.
func (b LongBody) Read(p []byte) (int, error) {
	// Where there is no connection, there is no deadline either.
	_ = b.connection.SetReadDeadline(time.Now().Add(readTimeout))
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = Errorf(http.StatusBadRequest, "invalid_body", "cannot read the body: %v", err)
	}
	return n, err
}

// ReadRest reads what is left of the body of a request that is refused: a client that
// is still sending does not see the answer.
func ReadRest(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, maxUnread) }
