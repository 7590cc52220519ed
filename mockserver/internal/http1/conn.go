package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"
)

// bufferSize is the buffer size in bytes. Most requests and responses fit into one buffer, and so
// need only one system call.
const bufferSize = 4 << 10

var (
	errNoResponse = errors.New("the server closed the connection without a response")
	errLineBreak  = errors.New("the URL or a header has a line break")
	errBodyLength = errors.New("the length of the request body differs from Content-Length")
)

// past is a deadline that interrupts all reads and writes.
var past = time.Unix(1, 0)

// A conn is a connection to a server. It performs one exchange at a time.
type conn struct {
	net.Conn                   // socket, or a TLS connection that uses it
	socket    net.Conn         // allows closing without a TLS alert
	probe     probe            // checks whether the idle socket is still usable
	keep      func(*conn) bool // makes the connection idle after an exchange; returns false if it is not needed
	idleSince time.Time        // set by keep
	maxHeader int

	in     *bufio.Reader
	out    *bufio.Writer
	room   int   // number of bytes that may be read
	left   int64 // number of bytes that may be written
	broken bool  // a write failed
}

func newConn(network, socket net.Conn, maxHeader int, keep func(*conn) bool) *conn {
	c := &conn{Conn: network, socket: socket, probe: newProbe(socket), keep: keep, maxHeader: maxHeader}
	c.in, c.out = bufio.NewReaderSize(c, bufferSize), bufio.NewWriterSize(c, bufferSize)
	return c
}

// Read reads at most room bytes.
func (c *conn) Read(p []byte) (int, error) {
	if c.room <= 0 {
		return 0, fmt.Errorf("the header of the response is longer than %d bytes", c.maxHeader)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.room)])
	c.room -= n
	return n, err
}

// Write records errors. It refuses bytes after the end of the request, which the server would
// interpret as another request.
func (c *conn) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errBodyLength
	}
	n, err := c.Conn.Write(p)
	c.broken = c.broken || err != nil
	return n, err
}

// isDrained reports whether all received data has been read. A read is necessary because TLS has its
// own buffer.
func (c *conn) isDrained() bool {
	_ = c.SetReadDeadline(past)
	_, err := c.in.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// end closes the connection in the background, because closing TLS takes five seconds if the server
// does not read.
func (c *conn) end() { go func() { _ = c.Close() }() }

// exchange writes a request and reads the response header.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(past) })
	response, err := c.roundTrip(r)
	if err != nil {
		stop()
		_ = c.socket.Close()
		return nil, err
	}
	b := &body{Reader: response.Body, conn: c, stop: stop}
	b.last = response.Close || c.broken || response.StatusCode == http.StatusSwitchingProtocols
	if response.Body == http.NoBody {
		b.ended = true
		_ = b.Close()
	} else {
		response.Body = b
	}
	return response, nil
}

func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	unsent := c.writeRequest(r)
	if unsent != nil && !c.broken {
		return nil, unsent
	}
	// A server may respond and close the connection before it has read the whole request. Its
	// response explains the problem better than the error.
	response, err := c.readHeader(r)
	if err != nil && unsent != nil {
		return nil, unsent
	}
	return response, err
}

// writeRequest writes a request. The headers have the same order as in net/http.
func (c *conn) writeRequest(r *http.Request) error {
	header, err := appendHeader(c.out.AvailableBuffer(), r)
	if err != nil {
		return err
	}
	c.left = int64(len(header)) + r.ContentLength
	_, _ = c.out.Write(header) // Flush returns the error
	body := int64(0)
	if r.Body != nil {
		if body, err = io.Copy(c.out, r.Body); err != nil {
			return err
		}
	}
	if body != r.ContentLength {
		return errBodyLength
	}
	return c.out.Flush()
}

// appendHeader appends the request line and the header.
func appendHeader(b []byte, r *http.Request) ([]byte, error) {
	var array [16]string
	names, lines := array[:0], 3 // counts the request line, Content-Length and the empty line
	for name := range r.Header {
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	add := func(name string, values ...string) {
		for _, value := range values {
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
			lines++
		}
	}
	b = append(append(append(append(b, r.Method...), ' '), r.URL.RequestURI()...), " HTTP/1.1\r\n"...)
	add("Host", cmp.Or(r.Host, r.URL.Host))
	add("User-Agent", r.Header["User-Agent"]...)
	b = append(strconv.AppendInt(append(b, "Content-Length: "...), r.ContentLength, 10), "\r\n"...)
	for _, name := range names {
		add(name, r.Header[name]...)
	}
	b = append(b, "\r\n"...)
	if bytes.Count(b, []byte{'\n'}) != lines || bytes.Count(b, []byte{'\r'}) != lines {
		return nil, errLineBreak
	}
	return b, nil
}

// readHeader reads a response header and skips 1xx responses.
func (c *conn) readHeader(r *http.Request) (*http.Response, error) {
	c.room = c.maxHeader
	for {
		response, err := http.ReadResponse(c.in, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) && c.room == c.maxHeader:
			return nil, errNoResponse
		case err != nil:
			return nil, err
		case response.StatusCode/100 != 1 || response.StatusCode == http.StatusSwitchingProtocols:
			c.room = math.MaxInt
			return response, nil
		}
	}
}

// A body is the body of a response.
type body struct {
	io.Reader
	conn   *conn
	stop   func() bool // stops watching the context; returns false if the context is done
	last   bool        // the connection cannot be reused
	ended  bool
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.Reader.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// Close makes the connection idle if the response was read completely, or closes it.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	switch inTime := b.stop(); {
	case !inTime || !b.ended:
		_ = b.conn.socket.Close()
	case b.last || !b.conn.isDrained() || !b.conn.keep(b.conn):
		b.conn.end()
	}
	return nil
}
