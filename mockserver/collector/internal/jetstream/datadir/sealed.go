package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
)

// ErrUnsealed means that a checksum does not match.
var ErrUnsealed = errors.New("the checksum does not match")

// Seal appends a checksum to data.
func Seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// Unseal checks and removes the checksum.
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
