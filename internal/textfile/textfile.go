// Package textfile reads text files. It removes a byte order mark, and rejects text that is not UTF-8.
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

// NewReader returns a reader of a file without a byte order mark. It reads the start of the file.
func NewReader(file io.Reader) *bufio.Reader {
	const size = 64 << 10
	r := bufio.NewReaderSize(file, size)
	start, err := r.Peek(len(byteOrderMark))
	switch {
	case string(start) == byteOrderMark:
		_, _ = r.Discard(len(byteOrderMark))
	case err != nil: // Peek returns an error only once, and so do some files
		return bufio.NewReaderSize(io.MultiReader(bytes.NewReader(start), failed{err}), size)
	}
	return r
}

// failed is the end of a file that cannot be read further.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
