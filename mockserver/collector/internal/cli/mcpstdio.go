package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	input io.Closer
	lines *bufio.Reader // of input

	writing sync.Mutex // guards out
	out     io.Writer

	mu     sync.Mutex          // guards the fields below
	calls  map[jsonrpc.ID]bool // calls without a response
	closed bool
	ended  sync.Cond // signals that a call has a response, or that the connection is closed
}

// newStdio returns a transport that reads messages from in, and writes messages to out. in.Close must
// unblock pending reads.
func newStdio(in io.ReadCloser, out io.Writer) mcp.Transport {
	s := &lineConn{input: in, lines: bufio.NewReader(in), out: out, calls: map[jsonrpc.ID]bool{}}
	s.ended.L = &s.mu
	return s
}

// Connect implements mcp.Transport.
func (s *lineConn) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements mcp.Connection.
func (*lineConn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (s *lineConn) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ended.Broadcast()
	return s.input.Close()
}

// Read returns the next valid message, and responds to the others. At the end of the input, it first waits
// until every call has its response, because the server cancels running calls when Read returns an error.
func (s *lineConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, size, err := readLine(s.lines)
		if err != nil && (err != io.EOF || size == 0) {
			s.awaitResponses()
			if errors.Is(err, errCanceled) || errors.Is(err, io.ErrClosedPipe) {
				err = io.EOF
			}
			return nil, err
		}
		message, problem := decodeMessage(line, size)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.calls) > 0 && !s.closed {
		s.ended.Wait()
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
		s.ended.Broadcast()
	}
	return nil
}

func (s *lineConn) writeLine(message []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(message, '\n'))
	return err
}

// readLine reads a line and returns its size in bytes. If size exceeds maxMessage, line contains only the
// beginning. If the input ends without a line break, readLine returns the last line together with io.EOF.
func readLine(in *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, size, err
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

// decodeMessage returns the message in a line, or the error to respond with. Both are nil if the line is
// blank.
func decodeMessage(line []byte, size int) (jsonrpc.Message, *jsonrpc.Error) {
	if size > maxMessage {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the message has more than %d bytes", maxMessage)}
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil, nil
	}
	var value json.RawMessage
	if err := json.Unmarshal(line, &value); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "invalid JSON: " + err.Error() + "; send one JSON-RPC message per line"}
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: `not a JSON-RPC message; send an object with "jsonrpc":"2.0" and "method", not a batch`}
	}
	return message, nil
}
