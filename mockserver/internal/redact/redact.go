// Package redact removes, hashes and masks values of calls. [tracking.Redaction] documents the rules.
//
// [Rules.Apply] copies a call without decoding it. Values without a rule keep their text.
package redact

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// Rules contains the paths to redact. Apply and Text are safe for concurrent use after the last Add.
type Rules struct {
	root   *node
	hashes sync.Pool // of hash.Hash
}

// A node is a point in the tree of paths.
type node struct {
	action Action
	keys   map[string]*node
	any    *node   // the star
	alone  []*node // only this node
}

func newNode() *node {
	n := &node{}
	n.alone = []*node{n}
	return n
}

// New returns Rules without paths. key is the key of the hashes.
func New(key []byte) *Rules {
	r := &Rules{root: newNode()}
	r.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return r
}

// Add adds a path, for which [Check] must return nil.
func (r *Rules) Add(path string, action Action) {
	segments, _ := parse(path)
	n := r.root
	for _, s := range segments {
		n = n.child(s)
	}
	n.action = max(n.action, action)
}

func (n *node) child(s segment) *node {
	if s.any {
		if n.any == nil {
			n.any = newNode()
		}
		return n.any
	}
	if n.keys[s.key] == nil {
		if n.keys == nil {
			n.keys = map[string]*node{}
		}
		n.keys[s.key] = newNode()
	}
	return n.keys[s.key]
}

// Apply appends a call, a valid JSON object, with its values redacted. If r is nil, it appends the
// call unchanged.
func (r *Rules) Apply(dst, call []byte) []byte {
	if r == nil {
		return append(dst, call...)
	}
	return r.value(dst, call, r.root.alone)
}

// Hashes reports whether the field with this name, such as userId, is hashed.
func (r *Rules) Hashes(field string) bool {
	return r != nil && r.root.keys[field] != nil && r.root.keys[field].action == Hash
}

// Text returns the hash of a string as it is in redacted calls.
func (r *Rules) Text(s string) string { return string(r.sum(nil, []byte(s))) }

// value appends a value. at contains the nodes of the paths that lead to it.
func (r *Rules) value(dst, value []byte, at []*node) []byte {
	switch value[0] {
	case '{':
		return r.object(dst, value, at)
	case '[':
		return r.array(dst, value, at)
	}
	return append(dst, value...)
}

func (r *Rules) object(dst, object []byte, at []*node) []byte {
	dst = append(dst, '{')
	for m := range jsonscan.Members(object) {
		action, below := step(at, jsonscan.Unquote(m.Key))
		if action == Remove {
			continue
		}
		dst = appendComma(dst)
		if action == Keep && len(below) == 0 {
			dst = append(dst, m.Text...)
			continue
		}
		dst = append(append(dst, m.Key...), ':')
		dst = r.member(dst, m.Value, action, below)
	}
	return append(dst, '}')
}

func (r *Rules) array(dst, array []byte, at []*node) []byte {
	action, below := step(at, nil)
	if action == Remove {
		return append(dst, "[]"...)
	}
	dst = append(dst, '[')
	for value := range jsonscan.Elements(array) {
		dst = r.member(appendComma(dst), value, action, below)
	}
	return append(dst, ']')
}

// appendComma appends a comma unless the next field or element is the first one.
func appendComma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

// step follows the paths to a key, or to the elements of an array if key is nil.
func step(at []*node, key []byte) (action Action, below []*node) {
	for _, n := range at {
		var named *node
		if key != nil {
			named = n.keys[string(key)]
		}
		for _, next := range [...]*node{named, n.any} {
			switch {
			case next == nil:
				continue
			case below == nil: // the usual case needs no allocation
				below = next.alone
			default:
				below = append(slices.Clip(below), next)
			}
			action = max(action, next.action)
		}
	}
	return action, below
}

// member appends a value with an action, which applies to every value in an object or an array.
func (r *Rules) member(dst, value []byte, action Action, below []*node) []byte {
	if action != Keep && (value[0] == '{' || value[0] == '[') {
		all := &node{action: action}
		all.any = all
		below = append(slices.Clip(below), all)
	}
	switch {
	case value[0] == '{' || value[0] == '[':
		return r.value(dst, value, below)
	case string(value) == "null", string(value) == `""`:
		return append(dst, value...)
	case action == Hash:
		return append(r.sum(append(dst, '"'), content(value)), '"')
	case action == Mask:
		return append(mask(append(dst, '"'), value), '"')
	}
	return append(dst, value...)
}

// content returns the content of a string, or the text of another value.
func content(value []byte) []byte {
	if value[0] == '"' {
		return bytes.ToValidUTF8(jsonscan.Unquote(value), []byte("\uFFFD")) // like fields.Text, so that the hash of an ID equals the hash of the parsed field
	}
	return value
}

// sum appends the HMAC of a value in hexadecimal digits.
func (r *Rules) sum(dst, value []byte) []byte {
	h := r.hashes.Get().(hash.Hash)
	defer r.hashes.Put(h)
	h.Reset()
	h.Write(value)
	var sum [sha256.Size]byte
	return hex.AppendEncode(dst, h.Sum(sum[:0]))
}

const (
	// minShown is the minimum length of a value whose end is shown, in bytes.
	minShown = 12
	// shown is the length of the end that is shown.
	shown = 4
)

// mask appends asterisks and the end of a long value that ends in letters and digits.
func mask(dst, value []byte) []byte {
	dst = append(dst, "****"...)
	text := content(value)
	if len(text) < minShown {
		return dst
	}
	end := text[len(text)-shown:]
	for _, c := range end {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return dst
		}
	}
	return append(dst, end...)
}
