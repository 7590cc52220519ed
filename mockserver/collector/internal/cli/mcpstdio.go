package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newStdio returns a transport that reads messages from in, one per line, and writes messages to out.
// mcp.IOTransport closes the connection at the first invalid message. JSON-RPC requires an error
// response instead.
func newStdio(in io.Reader, out io.Writer) mcp.Transport {
	shared := &sharedWriter{out: out}
	messages, valid := io.Pipe()
	go func() { _ = valid.CloseWithError(copyMessages(valid, bufio.NewReader(in), shared)) }()
	return &mcp.IOTransport{Reader: messages, Writer: shared, MaxLineLength: -1} // copyMessages limits messages
}

// copyMessages copies the valid messages, and responds to the others.
func copyMessages(to io.Writer, in *bufio.Reader, out io.Writer) error {
	for {
		line, size, end := readMessage(in)
		var err error
		if problem := problemOf(line, size); problem != nil {
			line, _ = json.Marshal(errorResponse{JSONRPC: "2.0", Error: problem}) // cannot fail
			_, err = out.Write(append(line, '\n'))
		} else if len(line) > 0 {
			_, err = to.Write(append(line, '\n'))
		}
		if err = cmp.Or(err, end); err != nil {
			return err
		}
	}
}

// readMessage reads a line. It returns the line without surrounding white space, and the size in bytes. If
// the size exceeds maxMessage, line contains only a part. If err is not nil, the line is the last one.
func readMessage(in *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSpace(line), size, err
		}
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
