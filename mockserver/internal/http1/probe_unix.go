//go:build unix

package http1

import (
	"net"
	"syscall"
)

// A probe checks an idle socket.
type probe struct {
	socket syscall.RawConn // nil for connections that are not sockets, such as pipes
	read   func(fd uintptr) (done bool)
	silent *bool // set by read if there is nothing to read
}

func newProbe(c net.Conn) (p probe) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return p
	}
	p.socket, _ = s.SyscallConn()
	p.silent = new(bool)
	p.read = func(fd uintptr) bool {
		n, err := syscall.Read(int(fd), make([]byte, 1))
		*p.silent = n < 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
		return true
	}
	return p
}

// readable reports whether a read would return immediately, with unexpected data, an error or the
// end of the connection. It does not block.
func (p probe) readable() bool {
	return p.socket != nil && (p.socket.Read(p.read) != nil || !*p.silent)
}
