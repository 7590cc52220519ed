//go:build unix

package http1

import (
	"net"
	"syscall"
)

// probe looks at a socket.
type probe struct {
	socket syscall.RawConn // nil if it is none
	read   func(fd uintptr) (done bool)
	silent *bool // set by read
}

func newProbe(c net.Conn) probe {
	s, ok := c.(syscall.Conn)
	if !ok {
		return probe{}
	}
	socket, err := s.SyscallConn()
	if err != nil {
		return probe{}
	}
	silent := new(bool)
	return probe{socket: socket, silent: silent, read: func(fd uintptr) bool {
		var one [1]byte
		n, err := syscall.Read(int(fd), one[:])
		*silent = n < 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
		return true
	}}
}

// readable reports whether there is something to read: bytes that nobody asked for, an
// error, or the end.
func (p *probe) readable() bool {
	if p.socket == nil {
		return false
	}
	return p.socket.Read(p.read) != nil || !*p.silent
}
