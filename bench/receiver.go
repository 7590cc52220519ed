package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A tally contains the amounts of data that a receiver has read.
type tally struct {
	Calls    int64 // number of calls in requests that received a response
	Requests int64 // number of requests that received a response
	Bytes    int64 // bytes, including headers
	Conns    int64 // number of accepted connections
}

// A receiver reads requests, counts their calls and responds with 200. It implements only
// the necessary part of HTTP, because it runs on the same processors as the programs that are
// measured.
type receiver struct {
	addr string

	calls, requests, bytes, conns atomic.Int64
	delay                         atomic.Int64 // time before each response in nanoseconds

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	open     map[net.Conn]bool
	up       chan struct{} // closed while the receiver responds to requests
}

func newReceiver() (*receiver, error) {
	c := &receiver{addr: "127.0.0.1:0", open: map[net.Conn]bool{}}
	return c, c.serve()
}

func (c *receiver) url() string { return "http://" + c.addr }

func (c *receiver) tally() tally {
	return tally{c.calls.Load(), c.requests.Load(), c.bytes.Load(), c.conns.Load()}
}

// serve makes the receiver respond to new connections. It closes connections that were hanging.
func (c *receiver) serve() error {
	c.refuse()
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addr = listener.Addr().String()
	c.listener = listener
	c.up = make(chan struct{})
	close(c.up)
	go c.accept(listener)
	return nil
}

// refuse makes the receiver refuse connections. It closes all open connections.
func (c *receiver) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener != nil {
		_ = c.listener.Close()
		c.listener = nil
	}
	for conn := range c.open {
		_ = conn.Close()
	}
}

// hang makes the receiver read requests without responding.
func (c *receiver) hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = make(chan struct{})
}

func (c *receiver) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		c.conns.Add(1)
		c.mu.Lock()
		c.open[conn] = true
		c.mu.Unlock()
		go c.respond(conn)
	}
}

func (c *receiver) respond(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	}()
	const response = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"success\": true}"
	in := bufio.NewReaderSize(conn, 256<<10)
	for {
		calls, err := c.read(in)
		if err != nil {
			return
		}
		c.mu.Lock()
		up := c.up
		c.mu.Unlock()
		select {
		case <-up:
		default:
			_, _ = in.Peek(1) // wait until the client or refuse closes the connection
			return
		}
		time.Sleep(time.Duration(c.delay.Load()))
		c.calls.Add(calls)
		c.requests.Add(1)
		if _, err := io.WriteString(conn, response); err != nil {
			return
		}
	}
}

var errRequest = errors.New("request without Content-Length")

// read reads one request and returns the number of calls in it.
func (c *receiver) read(in *bufio.Reader) (calls int64, err error) {
	length, zipped := -1, false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		c.bytes.Add(int64(len(line)))
		if len(line) <= len("\r\n") {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		switch strings.ToLower(name) {
		case "content-length":
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, err
			}
		case "content-encoding":
			zipped = strings.TrimSpace(value) == "gzip"
		}
	}
	if length < 0 {
		return 0, errRequest
	}
	c.bytes.Add(int64(length))
	if zipped {
		return countZipped(io.LimitReader(in, int64(length)))
	}
	for length > 0 {
		if in.Buffered() == 0 {
			if _, err := in.Peek(1); err != nil {
				return 0, err
			}
		}
		part, _ := in.Peek(min(length, in.Buffered()))
		calls += int64(bytes.Count(part, []byte{mark}))
		length -= len(part)
		_, _ = in.Discard(len(part))
	}
	return calls, nil
}

func countZipped(body io.Reader) (int64, error) {
	z, err := gzip.NewReader(body)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, body)
	return int64(bytes.Count(text, []byte{mark})), err
}
