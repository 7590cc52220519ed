package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
)

// ErrUnsealed says that a checksum does not fit.
var ErrUnsealed = errors.New("it is damaged")

// Seal puts a checksum behind what a file is to hold.
func Seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// Unseal returns what was sealed.
func Unseal(data []byte) ([]byte, error) {
	n := len(data) - sha256.Size
	if n < 0 {
		return nil, ErrUnsealed
	}
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, ErrUnsealed
	}
	return data[:n], nil
}
