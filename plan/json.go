package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of a plan's file.
const (
	// MaxFileBytes is how large the file of a plan may be.
	MaxFileBytes = 8 << 20

	maxNodes = 400_000
	maxDepth = 100
)

var (
	errTooManyNodes = fmt.Errorf("has more than %d values, those that aliases repeat counted", maxNodes)
	errTooDeep      = fmt.Errorf("is nested more than %d deep", maxDepth)
)

// A lineError is an error with its line.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

// isJSON reports whether a file is JSON rather than other YAML.
func isJSON(file string, text []byte) bool {
	if strings.HasSuffix(strings.ToLower(file), ".json") {
		return true
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
}

// A jsonReader turns JSON into nodes.
type jsonReader struct {
	decoder *json.Decoder
	text    []byte
	nodes   *int
	line    int // of offset
	offset  int64
}

// parseJSON returns the one value of a JSON text.
func parseJSON(text []byte, nodes *int) (*node, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	r := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(text)), text: text, nodes: nodes, line: 1}
	r.decoder.UseNumber()
	token, err := r.next()
	if err != nil {
		return nil, err
	}
	n, err := r.value(token, 0)
	if err != nil {
		return nil, err
	}
	if _, err := r.decoder.Token(); err != io.EOF {
		return nil, r.failed(errors.New("has more than one value"))
	}
	return n, nil
}

func (r *jsonReader) failed(err error) error {
	var syntax *json.SyntaxError
	at := r.decoder.InputOffset()
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	line := 1 + bytes.Count(r.text[:min(at, int64(len(r.text)))], []byte("\n"))
	return &lineError{line, err}
}

// next returns the next token, and counts lines up to its end.
func (r *jsonReader) next() (json.Token, error) {
	token, err := r.decoder.Token()
	if err == io.EOF {
		err = errors.New("ends too early")
	}
	if err != nil {
		return nil, r.failed(fmt.Errorf("is not JSON: %w", err))
	}
	end := r.decoder.InputOffset()
	r.line += bytes.Count(r.text[r.offset:end], []byte("\n"))
	r.offset = end
	return token, nil
}

func (r *jsonReader) value(token json.Token, depth int) (*node, error) {
	if *r.nodes--; *r.nodes < 0 {
		return nil, r.failed(errTooManyNodes)
	}
	if depth > maxDepth {
		return nil, r.failed(errTooDeep)
	}
	n := &node{line: r.line}
	switch t := token.(type) {
	case bool:
		n.kind, n.text = boolNode, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = numberNode, t.String()
	case string:
		n.kind, n.text = stringNode, t
	case json.Delim:
		if t == '[' {
			return n, r.array(n, depth)
		}
		return n, r.object(n, depth)
	}
	return n, nil
}

func (r *jsonReader) array(n *node, depth int) error {
	n.kind = arrayNode
	for {
		token, err := r.next()
		if err != nil || token == json.Delim(']') {
			return err
		}
		item, err := r.value(token, depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
}

func (r *jsonReader) object(n *node, depth int) error {
	n.kind = objectNode
	seen := map[string]bool{}
	for {
		token, err := r.next()
		if err != nil || token == json.Delim('}') {
			return err
		}
		key, line := token.(string), r.line // encoding/json has checked that it is a string
		if seen[key] {
			return r.failed(fmt.Errorf("has the key %q twice", key))
		}
		seen[key] = true
		if token, err = r.next(); err != nil {
			return err
		}
		value, err := r.value(token, depth+1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{key, line, value})
	}
}
