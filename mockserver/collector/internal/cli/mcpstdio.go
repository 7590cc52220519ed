package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newStdio returns a transport that reads messages from in and writes messages to out. Invalid
// messages do not end the connection.
func newStdio(in io.Reader, out io.Writer) mcp.Transport {
	shared := &sharedWriter{out: out}
	return &mcp.IOTransport{
		Reader: io.NopCloser(&messageReader{in: bufio.NewReader(in), out: shared}), Writer: shared,
		MaxLineLength: -1, // messageReader limits messages
	}
}

// A sharedWriter writes the messages of several goroutines. Close does nothing.
type sharedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *sharedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

func (w *sharedWriter) Close() error { return nil }

// A messageReader reads JSON-RPC messages, one per line. mcp.IOTransport closes the connection at
// the first invalid message. JSON-RPC requires an error response instead, so messageReader writes
// this response to out and skips the message.
type messageReader struct {
	in      *bufio.Reader
	out     io.Writer
	message []byte // unread part of the current message
}

func (r *messageReader) Read(p []byte) (int, error) {
	for len(r.message) == 0 {
		line, size, err := r.line()
		if problem := problemOf(line, size); problem != nil {
			response, _ := json.Marshal(errorResponse{JSONRPC: "2.0", Error: problem}) // cannot fail
			if _, err := r.out.Write(append(response, '\n')); err != nil {
				return 0, err
			}
			line = nil
		}
		if len(line) > 0 {
			r.message = append(line, '\n')
		} else if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.message)
	r.message = r.message[n:]
	return n, nil
}

// line reads a line. It returns the line without surrounding white space, and the size in bytes. If the
// size exceeds maxMessage, line contains only a part. If err is not nil, the line is the last one.
func (r *messageReader) line() (line []byte, size int, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSpace(line), size, err
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

// problemOf returns the error in the response to a line, or nil if the line is a message or empty.
func problemOf(line []byte, size int) *jsonrpc.Error {
	if size > maxMessage {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the message has more than %d bytes", maxMessage)}
	}
	if len(line) == 0 {
		return nil
	}
	var value json.RawMessage
	if err := json.Unmarshal(line, &value); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "invalid JSON: " + err.Error() + "; send one JSON-RPC message per line"}
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: `not a JSON-RPC message; send an object with "jsonrpc":"2.0" and "method", not a batch`}
	}
	return nil
}
