package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
)

// maxLine is the maximum length of an input line without its end, in bytes.
const maxLine = 16 << 20

// A callSource reads calls from files, standard input or a collector.
type callSource struct {
	client    client
	query     url.Values
	collector bool
}

func (s *callSource) addTo(cmd *cobra.Command) {
	s.query = s.client.filterFlags(cmd)
	cmd.Flags().BoolVar(&s.collector, "collector", false, "read the recent calls of the collector at --url")
	s.client.addAccessTo(cmd)
}

// filters are the flags that require --collector.
var filters = []string{"id", "source", "type", "event", "user-id", "text", "since", "until", "where", "url", "token-file", "ca-file"}

// each calls f with each call and its location.
func (s *callSource) each(cmd *cobra.Command, files []string, f func(place string, call []byte)) error {
	shown := newProgress(cmd.ErrOrStderr())
	defer shown.clear()
	n := 0
	counted := func(place string, call []byte) {
		f(place, call)
		if n++; n%1000 == 0 {
			shown.say(count(n, "call") + " read")
		}
	}
	if s.collector {
		if len(files) > 0 {
			return usagef("specify files or --collector, not both")
		}
		return s.client.eachBody(cmd.Context(), s.query, counted)
	}
	for _, name := range filters {
		if cmd.Flags().Changed(name) {
			return usagef("--%s requires --collector", name)
		}
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err := readFile(cmd, name, counted); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the calls of a file, or of standard input for "-".
func readFile(cmd *cobra.Command, name string, each func(place string, call []byte)) error {
	in, _, err := openFile(cmd, name, "calls, one per line")
	if err != nil {
		return usageError{err}
	}
	if name == "-" {
		name = "standard input"
	}
	defer in.Close()
	r := textfile.NewReader(in)
	first, err := firstByte(r)
	if err == nil && first == '[' {
		err = readArray(r, name, each)
	} else if err == nil {
		err = readLines(r, name, each)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	return cmd.Context().Err()
}

// firstByte returns the first byte that is not white space, without consuming it.
func firstByte(r *bufio.Reader) (byte, error) {
	for n := 1; ; n++ {
		text, err := r.Peek(n)
		if err != nil {
			return 0, err
		}
		if c := text[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c, nil
		}
	}
}

// readArray reads a JSON array of calls.
func readArray(r io.Reader, name string, each func(place string, call []byte)) error {
	decoder := json.NewDecoder(r)
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for n := 1; decoder.More(); n++ {
		var call json.RawMessage
		if err := decoder.Decode(&call); err != nil {
			return fmt.Errorf("call %d: %w", n, err)
		}
		call, err := callOf(call)
		if err != nil {
			return fmt.Errorf("call %d %w", n, err)
		}
		each(fmt.Sprintf("%s, call %d", name, n), call)
	}
	_, err := decoder.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF // the array has no closing bracket
	}
	if err == nil {
		if _, err = decoder.Token(); err == nil {
			err = errors.New("there is data after the array of calls: use one array per file")
		}
	}
	return err
}

// readLines reads one call per line and skips empty lines.
func readLines(r io.Reader, name string, each func(place string, call []byte)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+len("\n"))
	for n := 1; lines.Scan(); n++ {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			call, err := callOf(bytes.Clone(line))
			if err != nil {
				return fmt.Errorf("line %d %w", n, err)
			}
			each(fmt.Sprintf("%s:%d", name, n), call)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d MiB: use one call per line", maxLine>>20)
	}
	return lines.Err()
}

// callOf returns the call in a line or an array element. The input is the call itself, or an entry in the
// output of collector calls.
func callOf(line []byte) ([]byte, error) {
	if len(line) == 1 && line[0] == '{' {
		return nil, errors.New("starts an object that spans lines: use one call per line, as in the output of collector calls --output jsonl")
	}
	var printed struct {
		Ref, Kind string
		Body      json.RawMessage
	}
	if bytes.Contains(line, []byte(`"ref"`)) {
		_ = json.Unmarshal(line, &printed) // the caller reports invalid JSON
	}
	switch {
	case printed.Ref == "" || printed.Kind == "" && printed.Body == nil:
		return line, nil
	case printed.Kind != "":
		return nil, errors.New("is activity without properties: use the output of collector calls --output jsonl without --follow")
	}
	var rejected string // body of a rejected call, which may be invalid JSON
	if json.Unmarshal(printed.Body, &rejected) == nil {
		return []byte(rejected), nil
	}
	return printed.Body, nil
}

// eachBody passes the matching calls that a collector retains to f, newest first.
func (c *client) eachBody(ctx context.Context, q url.Values, f func(id string, body []byte)) error {
	q.Set("bodies", "true")
	return eachPage(ctx, c, q, 0, func(page response[callPage[call]]) error {
		for _, one := range page.read.Calls {
			f(one.MessageID, one.Body)
		}
		return nil
	})
}
