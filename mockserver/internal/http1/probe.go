//go:build !unix

package http1

import (
	"errors"
	"net"
	"os"
	"time"
)

// A probe checks an idle socket.
type probe struct{ net.Conn }

func newProbe(c net.Conn) probe { return probe{c} }

// readable reports whether a read returns within one millisecond. The result of such a read is
// unexpected data, an error, or the end of the connection. readable consumes the data.
func (p probe) readable() bool {
	_ = p.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = p.SetReadDeadline(time.Time{}) }()
	_, err := p.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
