//go:build !unix

package http1

import "net"

// probe would look at a socket. Without it, a connection that a server has closed fails
// the next request.
type probe struct{}

func newProbe(net.Conn) probe { return probe{} }

func (*probe) readable() bool { return false }
