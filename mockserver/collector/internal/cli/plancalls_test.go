package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readCalls returns the places and the calls in a file of lines.
func readCalls(r io.Reader) (read []string, err error) {
	err = readLines(r, "f", func(place string, call []byte) { read = append(read, place+" "+string(call)) })
	return read, err
}

func TestLinesOfCalls(t *testing.T) {
	for _, text := range []string{"{}1\n\n{}2\n", "{}1\r\n\r\n{}2\r\n", " {}1 \n\t\n{}2"} {
		read, err := readCalls(iotest.OneByteReader(strings.NewReader(text)))
		require.NoError(t, err)
		assert.Equal(t, []string{"f:1 {}1", "f:3 {}2"}, read, "%q", text)
	}
	read, err := readCalls(io.MultiReader(strings.NewReader("{}1\n{}2"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, []string{"f:1 {}1", "f:2 {}2"}, read)
}

func TestLongestLineOfCalls(t *testing.T) {
	longest := `{"event":"` + strings.Repeat("a", maxLine-len(`{"event":""}`)) + `"}`
	for _, end := range []string{"", "\n"} {
		read, err := readCalls(strings.NewReader(longest + end))
		require.NoError(t, err, "end %q", end)
		assert.Len(t, read, 1)
		_, err = readCalls(strings.NewReader(longest + " " + end))
		require.EqualError(t, err, "a line is longer than 16 MiB: use one call per line", "end %q", end)
	}
}
