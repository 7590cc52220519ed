package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A lineConn is a connection over a reader and a writer, with one message per line. Unlike
// mcp.IOTransport, it responds to an invalid message with an error, as JSON-RPC requires, and it waits
// for the responses to running calls at the end of the input.
type lineConn struct {
	end      <-chan struct{} // closed to end the input
	lines    chan inputLine
	inputErr error // set before lines is closed
	closed   chan struct{}

	writing sync.Mutex // guards out
	out     io.Writer

	mu        sync.Mutex          // guards calls
	calls     map[jsonrpc.ID]bool // calls without a response
	responded chan struct{}       // receives a value after a response; has a buffer
}

// newStdio returns a transport that reads messages from in until ctx ends, and writes messages to out.
func newStdio(ctx context.Context, in io.Reader, out io.Writer) mcp.Transport {
	s := &lineConn{end: ctx.Done(), lines: make(chan inputLine), closed: make(chan struct{}), out: out, calls: map[jsonrpc.ID]bool{}, responded: make(chan struct{}, 1)}
	go s.readLines(bufio.NewReader(in)) // reads of standard input cannot be canceled
	return s
}

// Connect implements mcp.Transport.
func (s *lineConn) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements mcp.Connection.
func (*lineConn) SessionID() string { return "" }

// Close implements mcp.Connection. The server calls it once.
func (s *lineConn) Close() error {
	close(s.closed)
	return nil
}

// Read returns the next valid message, and responds to the others. At the end of the input, it first waits
// until every call has its response, because the server cancels running calls when Read returns an error.
func (s *lineConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		var line inputLine
		var more bool
		err := io.EOF
		select {
		case line, more = <-s.lines:
			if !more {
				err = s.inputErr
			}
		case <-s.end:
		case <-s.closed:
		}
		if !more {
			s.awaitResponses()
			return nil, err
		}
		message, problem := line.message()
		switch {
		case problem != nil:
			response, _ := json.Marshal(errorResponse{JSONRPC: "2.0", Error: problem}) // cannot fail
			if err := s.writeLine(response); err != nil {
				return nil, err
			}
		case message != nil:
			s.expectResponse(message)
			return message, nil
		}
	}
}

// expectResponse records a message if it is a call.
func (s *lineConn) expectResponse(message jsonrpc.Message) {
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[request.ID] = true
	}
}

// awaitResponses waits until each call has a response, or the connection is closed.
func (s *lineConn) awaitResponses() {
	for {
		s.mu.Lock()
		open := len(s.calls)
		s.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-s.responded:
		case <-s.closed:
			return
		}
	}
}

// Write implements mcp.Connection.
func (s *lineConn) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if err := s.writeLine(data); err != nil {
		return err
	}
	if response, ok := message.(*jsonrpc.Response); ok {
		s.mu.Lock()
		delete(s.calls, response.ID)
		s.mu.Unlock()
		select {
		case s.responded <- struct{}{}:
		default:
		}
	}
	return nil
}

func (s *lineConn) writeLine(message []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(message, '\n'))
	return err
}

// An inputLine is a line of the input.
type inputLine struct {
	text []byte // without surrounding white space; only a part if size exceeds maxMessage
	size int    // in bytes
}

// readLines sends each line to the channel, until the input ends or the connection is closed.
func (s *lineConn) readLines(in *bufio.Reader) {
	defer close(s.lines)
	for s.inputErr == nil {
		var line inputLine
		line, s.inputErr = readLine(in)
		select {
		case s.lines <- line:
		case <-s.closed:
			return
		}
	}
}

// readLine reads a line. If err is not nil, the line is the last one.
func readLine(in *bufio.Reader) (line inputLine, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line.size += len(part); line.size <= maxMessage {
			line.text = append(line.text, part...)
		}
		if err != bufio.ErrBufferFull {
			line.text = bytes.TrimSpace(line.text)
			return line, err
		}
	}
}

// An errorResponse is the response to a message without a usable ID. Its ID is null, which
// jsonrpc.EncodeMessage would omit.
type errorResponse struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      *int           `json:"id"`
	Error   *jsonrpc.Error `json:"error"`
}

// message returns the message in a line, or the error to respond with. Both are nil if the line is empty.
func (l *inputLine) message() (jsonrpc.Message, *jsonrpc.Error) {
	if l.size > maxMessage {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the message has more than %d bytes", maxMessage)}
	}
	if len(l.text) == 0 {
		return nil, nil
	}
	var value json.RawMessage
	if err := json.Unmarshal(l.text, &value); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "invalid JSON: " + err.Error() + "; send one JSON-RPC message per line"}
	}
	message, err := jsonrpc.DecodeMessage(l.text)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: `not a JSON-RPC message; send an object with "jsonrpc":"2.0" and "method", not a batch`}
	}
	return message, nil
}
