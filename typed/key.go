package typed

import "github.com/seed-45eadc4a/analytics-go/internal/wire"

// A Key is the name of a member, with its JSON. Keys are made once and kept, in variables
// of a package; they may be used by many goroutines at once.
type Key struct {
	name string
	text string   // `,"name":`
	head [32]byte // text, or its start: a copy of constant size is faster
	at   wire.PathHash
}

// NewKey returns the key of a name, which may be any text.
func NewKey(name string) *Key {
	k := &Key{name: name, at: wire.HashPath(name)}
	k.text = string(append(wire.AppendString([]byte{','}, name), ':'))
	copy(k.head[:], k.text)
	return k
}

// Name returns the name.
func (k *Key) Name() string { return k.name }

// append appends the JSON of k to the members of an object.
func (k *Key) append(dst []byte) []byte {
	n := len(dst)
	if dst[n-1] == '{' {
		return append(dst, k.text[1:]...)
	}
	if len(k.text) > len(k.head) || cap(dst)-n < len(k.head) {
		return append(dst, k.text...)
	}
	*(*[len(k.head)]byte)(dst[n : n+len(k.head)]) = k.head
	return dst[:n+len(k.text)]
}
