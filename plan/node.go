package plan

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// A node is a value in a plan file. The keys of an object keep their order.
type node struct {
	kind   nodeKind
	line   int    // line in the file, starting at 1
	text   string // the value of a string, number or boolean
	items  []*node
	fields []field
}

type field struct {
	key   string
	line  int
	value *node
}

type nodeKind byte

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	arrayNode
	objectNode
)

func (k nodeKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "a mapping"}[k]
}

// get returns the value of an object's key, or nil if the key is missing.
func (n *node) get(key string) *node {
	if n == nil || n.kind != objectNode {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key == key {
			return n.fields[i].value
		}
	}
	return nil
}

// str returns the string at key, or "" if it is missing.
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == stringNode {
		return v.text
	}
	return ""
}

// set sets the value of a key.
func (n *node) set(key string, value *node) {
	for i := range n.fields {
		if n.fields[i].key == key {
			n.fields[i].value = value
			return
		}
	}
	n.fields = append(n.fields, field{key, value.line, value})
}

func (n *node) isTrue() bool { return n != nil && n.kind == boolNode && n.text == "true" }

// remove removes a key.
func (n *node) remove(key string) {
	n.fields = slices.DeleteFunc(n.fields, func(m field) bool { return m.key == key })
}

// stringValues returns the strings of a list. For a single string, it returns a slice with that
// string.
func (n *node) stringValues() []string {
	switch {
	case n == nil:
		return nil
	case n.kind == stringNode:
		return []string{n.text}
	}
	var texts []string
	for _, item := range n.items {
		texts = append(texts, item.text)
	}
	return texts
}

// child returns the value that one token of a JSON pointer selects, or nil. It also returns the
// line of the value's key or item.
func (n *node) child(token string) (child *node, line int) {
	for _, m := range n.fields {
		if m.key == token {
			return m.value, m.line
		}
	}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.items) {
		return n.items[i], n.items[i].line
	}
	return nil, 0
}

// at returns the node that a JSON pointer selects. If it does not exist, at returns the nearest
// existing parent.
func (n *node) at(pointer []string) *node {
	for _, token := range pointer {
		next, _ := n.child(token)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// all yields n and all its descendants.
func (n *node) all() iter.Seq[*node] {
	return func(yield func(*node) bool) { n.each(yield) }
}

func (n *node) each(yield func(*node) bool) bool {
	return yield(n) &&
		!slices.ContainsFunc(n.items, func(item *node) bool { return !item.each(yield) }) &&
		!slices.ContainsFunc(n.fields, func(m field) bool { return !m.value.each(yield) })
}

// value returns the node as encoding/json decodes it, with numbers as json.Number.
func (n *node) value() any { return n.valueWith(func(*node, map[string]any) {}) }

// valueWith is like value, and also calls finish for each object.
func (n *node) valueWith(finish func(*node, map[string]any)) any {
	switch n.kind {
	case boolNode:
		return n.text == "true"
	case numberNode:
		return json.Number(n.text)
	case stringNode:
		return n.text
	case arrayNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.valueWith(finish)
		}
		return list
	case objectNode:
		object := make(map[string]any, len(n.fields))
		for i := range n.fields {
			object[n.fields[i].key] = n.fields[i].value.valueWith(finish)
		}
		finish(n, object)
		return object
	}
	return nil
}

// appendJSON appends the node as JSON.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case boolNode, numberNode:
		return append(b, n.text...)
	case stringNode:
		return wire.AppendString(b, n.text)
	case arrayNode:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case objectNode:
		b = append(b, '{')
		for i := range n.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(wire.AppendString(b, n.fields[i].key), ':')
			b = n.fields[i].value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// pointerTokens splits a JSON pointer into tokens.
func pointerTokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens
}

// pointerTo joins tokens to a JSON pointer.
func pointerTo(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1"))
	}
	return b.String()
}
