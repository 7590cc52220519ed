package canonical

import (
	"bytes"
	"math"
	"strconv"
)

// A Change is a value that the canonical form of a document does not preserve.
type Change struct {
	// Path is the location of the value, such as properties.items[2]["unit price"]. It is
	// empty for the document itself.
	Path string     `json:"path"`
	Kind ChangeKind `json:"kind"`
	// From and To are the old and the new text of the value, truncated to 64 bytes. They are empty
	// if Kind describes the change completely.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// ChangeKind is a kind of change.
type ChangeKind string

const (
	// ChangePrecision is a number with more digits than a double, such as an integer above
	// 2^53.
	ChangePrecision ChangeKind = "precision"
	// ChangeOverflow is a number too large for a double. It becomes null.
	ChangeOverflow ChangeKind = "overflow"
	// ChangeDuplicate is a value that is replaced by a later one with the same key.
	ChangeDuplicate ChangeKind = "duplicate_key"
	// ChangeOrder is an object in which keys are reordered because some are array indices.
	ChangeOrder ChangeKind = "key_order"
	// ChangeInvalidUTF8 is a string with invalid UTF-8, which becomes U+FFFD.
	ChangeInvalidUTF8 ChangeKind = "invalid_utf8"
	// ChangeLoneSurrogate is an escape of half a surrogate pair. The canonical form contains it
	// unchanged, but many receivers read it as U+FFFD.
	ChangeLoneSurrogate ChangeKind = "lone_surrogate"
)

// maxChanges is the maximum length of the result of Changes.
const maxChanges = 100

// A recorder collects changes. A nil recorder does nothing.
type recorder struct {
	path    []byte
	changes []Change
}

func (r *recorder) enterKey(key []byte) (mark int) {
	if r == nil {
		return 0
	}
	mark = len(r.path)
	r.path = AppendKey(r.path, key)
	return mark
}

// AppendKey appends a quoted key to a path; see [Change.Path].
func AppendKey(path, key []byte) []byte {
	if name := key[1 : len(key)-1]; isName(name) {
		if len(path) > 0 {
			path = append(path, '.')
		}
		return append(path, name...)
	}
	return append(append(append(path, '['), key...), ']')
}

func (r *recorder) enterIndex(i int) (mark int) {
	if r == nil {
		return 0
	}
	mark = len(r.path)
	r.path = AppendIndex(r.path, i)
	return mark
}

// AppendIndex appends an array index to a path.
func AppendIndex(path []byte, i int) []byte {
	return append(strconv.AppendInt(append(path, '['), int64(i), 10), ']')
}

func (r *recorder) leave(mark int) {
	if r != nil {
		r.path = r.path[:mark]
	}
}

// isName reports whether a path may contain a key without quotes.
func isName(key []byte) bool {
	for i, b := range key {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b == '$'
		if !letter && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return len(key) > 0
}

func (r *recorder) note(kind ChangeKind, from, to []byte) {
	if r != nil && len(r.changes) < maxChanges {
		r.changes = append(r.changes, Change{Path: string(r.path), Kind: kind, From: excerpt(from), To: excerpt(to)})
	}
}

// excerpt returns at most 64 bytes of a text for display.
func excerpt(text []byte) string {
	if len(text) > 64 {
		return string(bytes.ToValidUTF8(text[:61], nil)) + "..."
	}
	return string(text)
}

func (r *recorder) invalidUTF8(bad []byte) {
	if r != nil {
		r.note(ChangeInvalidUTF8, strconv.AppendQuote(nil, string(bad)), []byte("\"\uFFFD\""))
	}
}

func (r *recorder) number(from, to []byte) {
	switch {
	case r == nil:
	case string(to) == "null":
		r.note(ChangeOverflow, from, to)
	case !SameNumber(from, to):
		r.note(ChangePrecision, from, to)
	}
}

// SameNumber reports whether two JSON numbers have the same value. 0 and -0 are equal.
func SameNumber(a, b []byte) bool {
	ad, ae := decimal(a)
	bd, be := decimal(b)
	if len(ad) == 0 || len(bd) == 0 {
		return len(ad) == len(bd)
	}
	return ae == be && bytes.Equal(ad, bd) && (a[0] == '-') == (b[0] == '-')
}

// decimal splits a JSON number into its significant digits and the exponent of the last digit. For
// zero, significant is empty.
func decimal(text []byte) (significant []byte, exponent int) {
	text = bytes.TrimPrefix(text, []byte("-"))
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(text[i+1:])); err != nil {
			exponent = math.MaxInt32 // an exponent that no other number has
		}
		text = text[:i]
	}
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	exponent -= len(fraction)
	significant = append(append(significant, whole...), fraction...)
	trimmed := bytes.TrimRight(significant, "0")
	exponent += len(significant) - len(trimmed)
	return bytes.TrimLeft(trimmed, "0"), exponent
}
