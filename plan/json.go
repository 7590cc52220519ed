package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// Limits of a plan file.
const (
	// MaxFileBytes is the maximum size of a plan file.
	MaxFileBytes = 8 << 20

	maxNodes = 400_000
	maxDepth = 100
)

var (
	errTooManyNodes = fmt.Errorf("has more than %d values, including values that aliases repeat", maxNodes)
	errTooDeep      = fmt.Errorf("has more than %d nested levels", maxDepth)
)

// A lineError is an error that has a line number.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

// isJSON reports whether a file is JSON. Any other file is YAML.
func isJSON(file string, text []byte) bool {
	if strings.HasSuffix(strings.ToLower(file), ".json") {
		return true
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
}

// A jsonReader converts JSON to nodes.
type jsonReader struct {
	*jsonscan.Scanner
	text   []byte
	nodes  *int
	line   int // the line of offset
	offset int
}

// parseJSON parses a text that consists of one JSON value.
func parseJSON(text []byte, nodes *int) (*node, error) {
	r := &jsonReader{Scanner: jsonscan.New(text), text: text, nodes: nodes, line: 1}
	n, err := r.value(0)
	if err == nil {
		err = r.End()
	}
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		err = &lineError{r.lineAt(syntax.Offset), fmt.Errorf("is not valid JSON: %s", syntax.Problem)}
	}
	return n, err
}

// lineAt returns the line number of an offset. An offset must not be smaller than the previous one.
func (r *jsonReader) lineAt(offset int) int {
	r.line += bytes.Count(r.text[r.offset:offset], []byte("\n"))
	r.offset = offset
	return r.line
}

func (r *jsonReader) value(depth int) (*node, error) {
	kind := r.Kind()
	n := &node{line: r.lineAt(r.Offset())}
	if *r.nodes--; *r.nodes < 0 {
		return nil, &lineError{n.line, errTooManyNodes}
	}
	if depth > maxDepth {
		return nil, &lineError{n.line, errTooDeep}
	}
	switch kind {
	case '{':
		return n, r.object(n, depth)
	case '[':
		n.kind = arrayNode
		return n, r.Array(func() error {
			item, err := r.value(depth + 1)
			n.items = append(n.items, item)
			return err
		})
	}
	text, err := r.Value()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '"':
		n.kind, n.text = stringNode, string(jsonscan.Unquote(text))
	case '0':
		n.kind, n.text = numberNode, string(text)
	case 't', 'f':
		n.kind, n.text = boolNode, string(text)
	}
	return n, nil
}

func (r *jsonReader) object(n *node, depth int) error {
	n.kind = objectNode
	seen := map[string]bool{}
	return r.Object(func(quoted []byte) error {
		key, line := string(jsonscan.Unquote(quoted)), r.lineAt(r.KeyOffset())
		if seen[key] {
			return &lineError{line, fmt.Errorf("has the duplicate key %q", key)}
		}
		seen[key] = true
		value, err := r.value(depth + 1)
		n.fields = append(n.fields, field{key, line, value})
		return err
	})
}
