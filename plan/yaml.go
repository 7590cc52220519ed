package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML parses a text that consists of one YAML document. It expands aliases and merge keys.
func parseYAML(text []byte, nodes *int) (*node, error) {
	tokens := lexer.Tokenize(string(text))
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			return nil, &lineError{lineOf(syntax.GetToken()), fmt.Errorf("is not valid YAML: %s", syntax.GetMessage())}
		}
		return nil, fmt.Errorf("is not valid YAML: %w", err)
	}
	r := &yamlReader{nodes: nodes, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	var body ast.Node
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if body != nil {
			return nil, &lineError{lineOf(document.Body.GetToken()), errors.New("has more than one YAML document")}
		}
		body = document.Body
	}
	if body == nil {
		return nil, errors.New("is empty")
	}
	return r.value(body, 0)
}

// checkDepth rejects deeply nested documents. It runs before the parser, which is recursive.
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
		if flow > maxDepth || onLine > maxDepth || t.Position.Column > 100*maxDepth && flow == 0 && t.Type == token.MappingValueType {
			return &lineError{t.Position.Line, errTooDeep}
		}
	}
	return nil
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 0
	}
	return t.Position.Line
}

// A yamlReader converts a YAML syntax tree to nodes.
type yamlReader struct {
	nodes   *int
	anchors map[string]ast.Node
	open    map[string]bool // the anchors whose values are being read; used to detect cycles
}

func failedAt(n ast.Node, format string, args ...any) error {
	return &lineError{lineOf(n.GetToken()), fmt.Errorf(format, args...)}
}

func (r *yamlReader) value(a ast.Node, depth int) (*node, error) {
	if *r.nodes--; *r.nodes < 0 {
		return nil, &lineError{lineOf(a.GetToken()), errTooManyNodes}
	}
	if depth > maxDepth {
		return nil, &lineError{lineOf(a.GetToken()), errTooDeep}
	}
	n := &node{line: lineOf(a.GetToken())}
	switch a := a.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.text = boolNode, strconv.FormatBool(a.Value)
	case *ast.IntegerNode:
		n.kind, n.text = numberNode, fmt.Sprint(a.Value)
	case *ast.FloatNode:
		n.kind, n.text = numberNode, floatText(a)
	case *ast.StringNode:
		n.kind, n.text = stringNode, a.Value
		if a.Token.Type == token.StringType && json.Valid([]byte(a.Value)) && strings.Trim(a.Value, "-.0123456789eE+") == "" {
			n.kind = numberNode // an integer that does not fit into 64 bits
		}
	case *ast.LiteralNode:
		n.kind, n.text = stringNode, a.Value.Value
	case *ast.SequenceNode:
		n.kind = arrayNode
		for _, item := range a.Values {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	case *ast.MappingNode:
		return r.mapping(n, a.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping(n, []*ast.MappingValueNode{a}, depth)
	case *ast.AnchorNode:
		if err := r.anchor(a); err != nil {
			return nil, err
		}
		name := a.Name.String()
		r.open[name] = true
		defer delete(r.open, name)
		return r.value(a.Value, depth)
	case *ast.AliasNode:
		return r.alias(a, depth)
	case *ast.TagNode:
		return nil, failedAt(a, "has the unsupported tag %s", a.Start.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return nil, failedAt(a, "has %s, which is not a JSON number", a.String())
	default:
		return nil, failedAt(a, "has the unsupported YAML type %s", a.Type())
	}
	return n, nil
}

// floatText returns a number as JSON. It keeps the original digits if they are valid JSON.
func floatText(a *ast.FloatNode) string {
	if json.Valid([]byte(a.Token.Value)) {
		return a.Token.Value
	}
	if math.IsInf(a.Value, 0) {
		return "1e999" // the number is out of range, which checkSchema reports
	}
	return strconv.FormatFloat(a.Value, 'g', -1, 64)
}

// anchor adds an anchor. It may be called again for the same node, because aliases repeat values.
func (r *yamlReader) anchor(a *ast.AnchorNode) error {
	name := a.Name.String()
	if other := r.anchors[name]; other != nil && other != a.Value {
		return failedAt(a, "defines the anchor &%s twice", name)
	}
	r.anchors[name] = a.Value
	return nil
}

func (r *yamlReader) alias(a *ast.AliasNode, depth int) (*node, error) {
	name := a.Value.String()
	target := r.anchors[name]
	if target == nil {
		return nil, failedAt(a, "has the alias *%s without a preceding anchor &%s", name, name)
	}
	if r.open[name] {
		return nil, failedAt(a, "has the alias *%s inside its anchor &%s", name, name)
	}
	return r.value(target, depth+1)
}

func (r *yamlReader) mapping(n *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = objectNode
	seen := map[string]bool{}
	var merged []*node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			m, err := r.value(v.Value, depth+1)
			if err != nil {
				return nil, err
			}
			merged = append(merged, m)
			continue
		}
		key, err := r.key(v.Key)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, failedAt(v.Key, "has the duplicate key %q", key)
		}
		seen[key] = true
		value, err := r.value(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{key, lineOf(v.Key.GetToken()), value})
	}
	if len(values) > 0 {
		n.line = lineOf(values[0].Key.GetToken())
	}
	return n, n.merge(merged, seen)
}

// merge adds the keys of merged mappings to n. It skips keys that n already has.
func (n *node) merge(from []*node, seen map[string]bool) error {
	for _, m := range from {
		switch m.kind {
		case objectNode:
			for _, member := range m.fields {
				if !seen[member.key] {
					seen[member.key] = true
					n.fields = append(n.fields, member)
				}
			}
		case arrayNode:
			if err := n.merge(m.items, seen); err != nil {
				return err
			}
		default:
			return &lineError{m.line, fmt.Errorf("merges %s with <<, which allows only mappings", m.kind)}
		}
	}
	return nil
}

// key returns a mapping key as a string. A number or boolean keeps its original text.
func (r *yamlReader) key(a ast.MapKeyNode) (string, error) {
	switch a := a.(type) {
	case *ast.StringNode:
		return a.Value, nil
	case *ast.NullNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return a.GetToken().Value, nil
	case *ast.AnchorNode:
		if err := r.anchor(a); err != nil {
			return "", err
		}
		if s, ok := a.Value.(*ast.StringNode); ok {
			return s.Value, nil
		}
	case *ast.AliasNode:
		if s, ok := r.anchors[a.Value.String()].(*ast.StringNode); ok {
			return s.Value, nil
		}
	}
	return "", failedAt(a, "has a key of type %s; keys must be strings", a.Type())
}
