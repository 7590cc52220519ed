package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// tally is what a collector was sent.
type tally struct {
	Calls    int64 // in requests that were answered
	Requests int64 // answered
	Bytes    int64 // read, headers included
	Conns    int64 // accepted
}

// A collector reads requests, counts the calls in them and answers 200. It
// speaks just enough HTTP to cost as little as possible beside the client.
type collector struct {
	addr string

	calls, requests, bytes, conns atomic.Int64

	mu       sync.Mutex // guards all below
	listener net.Listener
	open     map[net.Conn]bool
	up       chan struct{} // closed while requests are answered
}

// runCollector serves on a port of its choice, which it prints, and does what
// the lines on standard input say until they end.
//
//	refuse   nothing listens
//	hang     connections are accepted and requests read, and nothing is answered
//	serve    requests are answered, as they are at the start
//	tally    print the counts
func runCollector() error {
	c := &collector{addr: "127.0.0.1:0", open: map[net.Conn]bool{}}
	if err := c.serve(); err != nil {
		return err
	}
	fmt.Println(c.addr)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var err error
		switch lines.Text() {
		case "refuse":
			c.cut()
		case "hang":
			c.hang()
		case "serve":
			err = c.serve()
		case "tally":
		}
		if err != nil {
			return err
		}
		text, err := json.Marshal(tally{c.calls.Load(), c.requests.Load(), c.bytes.Load(), c.conns.Load()})
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", text)
	}
	return nil
}

// serve ends an outage: connections that hang are cut, new ones answered.
func (c *collector) serve() error {
	c.cut()
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

// cut stops listening and closes all connections.
func (c *collector) cut() {
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

// hang lets the requests that follow wait for an answer for good.
func (c *collector) hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = make(chan struct{})
}

func (c *collector) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		c.conns.Add(1)
		c.mu.Lock()
		c.open[conn] = true
		c.mu.Unlock()
		go c.answer(conn)
	}
}

func (c *collector) answer(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	}()
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"success\": true}"
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
			_, _ = in.Peek(1) // until the client, or cut, closes the connection
			return
		}
		c.calls.Add(calls)
		c.requests.Add(1)
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

var errRequest = errors.New("not a request a client under test makes")

// read reads one request and returns the number of calls in it.
func (c *collector) read(in *bufio.Reader) (calls int64, err error) {
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
