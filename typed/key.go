package typed

import "github.com/seed-45eadc4a/analytics-go/internal/wire"

// A Key is the name of a field, together with its JSON. Create keys once with [NewKey], as package
// variables: a call that uses the zero value returns an error. They are safe for concurrent use.
type Key struct {
	name string
	text string   // `,"name":`
	head [32]byte // the first bytes of text; copying a constant number of bytes is faster
	at   wire.PathHash
}

// NewKey returns a key with any name.
func NewKey(name string) *Key {
	k := &Key{name: name, at: wire.HashPath(name)}
	k.text = string(append(wire.AppendString([]byte{','}, name), ':'))
	copy(k.head[:], k.text)
	return k
}

// Name returns the key's name.
func (k *Key) Name() string { return k.name }

// append appends the JSON of the key.
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
