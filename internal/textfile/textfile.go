// Package textfile decodes text files, which some editors write with a byte order mark or in another
// encoding.
package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

const byteOrderMark = "\uFEFF"

// Decode returns the text of a file without a byte order mark. The error reports text that is not UTF-8.
func Decode(data []byte) ([]byte, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8: save the file in this encoding")
	}
	return bytes.TrimPrefix(data, []byte(byteOrderMark)), nil
}

// NewReader returns a reader of a file without a byte order mark.
func NewReader(file io.Reader) *bufio.Reader {
	r := bufio.NewReader(file)
	if start, _ := r.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark))
	}
	return r
}
