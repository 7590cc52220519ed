package plan

import (
	"encoding/json"
	"strconv"
	"strings"
)

// A node is a value of a plan's file, with its line. Objects keep the order of the file.
type node struct {
	kind    nodeKind
	line    int    // from 1
	text    string // of a string, a number or a boolean
	items   []*node
	members []member
}

type member struct {
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

// get returns a member of an object, or nil.
func (n *node) get(key string) *node {
	if n == nil || n.kind != objectNode {
		return nil
	}
	for i := range n.members {
		if n.members[i].key == key {
			return n.members[i].value
		}
	}
	return nil
}

// str returns the text of a member that is a string.
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == stringNode {
		return v.text
	}
	return ""
}

// set replaces a member, or appends it.
func (n *node) set(key string, value *node) {
	for i := range n.members {
		if n.members[i].key == key {
			n.members[i].value = value
			return
		}
	}
	n.members = append(n.members, member{key, value.line, value})
}

func (n *node) isTrue() bool { return n != nil && n.kind == boolNode && n.text == "true" }

// at returns the node that a JSON pointer leads to, or the nearest above it.
func (n *node) at(pointer []string) *node {
	for _, token := range pointer {
		var next *node
		switch n.kind {
		case objectNode:
			next = n.get(token)
		case arrayNode:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.items) {
				next = n.items[i]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// value returns the node as encoding/json decodes it, numbers as json.Number.
func (n *node) value() any {
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
			list[i] = item.value()
		}
		return list
	case objectNode:
		object := make(map[string]any, len(n.members))
		for i := range n.members {
			object[n.members[i].key] = n.members[i].value.value()
		}
		return object
	}
	return nil
}

// appendJSON appends the node as JSON, members in the order of the file.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case boolNode, numberNode:
		return append(b, n.text...)
	case stringNode:
		return appendString(b, n.text)
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
		for i := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, n.members[i].key), ':')
			b = n.members[i].value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// appendString appends a string as JSON, without the escapes that HTML needs.
func appendString(b []byte, s string) []byte {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(s) != nil {
		return append(b, `""`...) // never: a string can be encoded
	}
	return append(b, strings.TrimSuffix(text.String(), "\n")...)
}

// pointer returns the tokens of a JSON pointer.
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

// pointerTo returns the JSON pointer of tokens.
func pointerTo(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1"))
	}
	return b.String()
}
