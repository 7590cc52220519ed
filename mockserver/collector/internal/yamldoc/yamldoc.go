// Package yamldoc decodes YAML and JSON documents with the line numbers of their values.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
)

// MaxBytes is the maximum size of a document.
const MaxBytes = 1 << 20

// A Document is a decoded document with line numbers.
type Document struct {
	Value any // the types of encoding/json, with json.Number for numbers
	root  ast.Node
}

// maxDepth is the maximum number of nested levels of a document.
const maxDepth = 100

// A SyntaxError is a syntax error in a document.
type SyntaxError struct {
	Line, Column int // from 1; 0 if unknown
	Problem      string
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Problem }

// Parse returns the root node of a document, or nil if the document is empty. Syntax errors
// have the type *SyntaxError.
func Parse(data []byte) (ast.Node, error) {
	if len(data) > MaxBytes {
		return nil, &SyntaxError{Problem: fmt.Sprintf("larger than %d bytes", MaxBytes)}
	}
	text, err := textfile.Decode(data)
	if err != nil {
		return nil, &SyntaxError{Problem: err.Error()}
	}
	tokens := lexer.Tokenize(string(text))
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	var root ast.Node
	for _, part := range file.Docs {
		if part.Body == nil {
			continue
		}
		if root != nil {
			return nil, errorAt(part.Body.GetToken(), "a second YAML document starts here: use one document per file")
		}
		root = part.Body
	}
	return root, nil
}

// checkDepth refuses deeply nested documents before the recursive parser reads them. Levels
// that begin on different lines need indentation, so MaxBytes limits their number.
func checkDepth(tokens token.Tokens) error {
	flow, line, onLine := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType, token.MappingValueType:
			if t.Position.Line != line {
				line, onLine = t.Position.Line, 0
			}
			if flow == 0 {
				onLine++
			}
		}
		if max(flow, onLine) > maxDepth {
			return errorAt(t, fmt.Sprintf("more than %d nested levels", maxDepth))
		}
	}
	return nil
}

// Read decodes a document. Syntax errors have the type *SyntaxError.
func Read(data []byte) (*Document, error) {
	root, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, &SyntaxError{Problem: "the document is empty"}
	}
	d := &Document{root: root}
	if aliases := ast.Filter(ast.AliasType, root); len(aliases) > 0 {
		return nil, errorAt(aliases[0].GetToken(), "aliases are not supported; write out the value")
	}
	text, err := textfile.Decode(data)
	if err != nil {
		return nil, err
	}
	if json.Valid(text) { // YAML parses some numbers differently
		return d, d.decode(text)
	}
	var value any
	if err := yaml.NodeToValue(d.root, &value); err != nil {
		return nil, syntaxError(err)
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return nil, &SyntaxError{Problem: "cannot be converted to JSON: " + err.Error()}
	}
	return d, d.decode(asJSON)
}

func (d *Document) decode(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(&d.Value)
}

func syntaxError(err error) error {
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		return errorAt(syntax.GetToken(), "invalid YAML: "+syntax.GetMessage())
	}
	return &SyntaxError{Problem: "invalid YAML: " + err.Error()}
}

func errorAt(t *token.Token, problem string) *SyntaxError {
	e := &SyntaxError{Line: lineOf(t), Problem: problem}
	if e.Line > 0 {
		e.Column = t.Position.Column
	}
	return e
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 0
	}
	return t.Position.Line
}

// Line returns the line of the value at a path of field names and indexes. If the value does
// not exist, it returns the line of its nearest parent.
func (d *Document) Line(path []any) int {
	node, line := d.root, lineOf(d.root.GetToken())
	if values := Members(node); len(values) > 0 {
		line = lineOf(values[0].Key.GetToken())
	}
	for _, step := range path {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// child returns a field or element of a node with its line, or nil.
func child(node ast.Node, step any) (ast.Node, int) {
	if anchor, ok := node.(*ast.AnchorNode); ok {
		node = anchor.Value
	}
	switch step := step.(type) {
	case string:
		for _, m := range Members(node) {
			if m.Key.GetToken().Value == step {
				return m.Value, lineOf(m.Key.GetToken())
			}
		}
	case int:
		list, ok := node.(*ast.SequenceNode)
		if !ok || step >= len(list.Values) {
			return nil, 0
		}
		item := list.Values[step]
		if members := Members(item); len(members) > 0 {
			return item, lineOf(members[0].Key.GetToken())
		}
		return item, lineOf(item.GetToken())
	}
	return nil, 0
}

// Members returns the fields of a mapping. It returns nil for other nodes, and for anchors and tags.
func Members(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}
