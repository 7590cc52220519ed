package record

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// Accepted are the calls of a message of CALLS that was acknowledged, or, where there
// are none, a value of a bucket that was: source is its stream then.
type Accepted struct {
	Seq    uint64
	Calls  int
	Source string
}

// Line is what the file says of it.
func (a Accepted) Line() []byte {
	text := fmt.Sprintf("%d %d %s", a.Seq, a.Calls, Token(a.Source))
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// ParseAccepted reads what line has written, and reports whether it is whole.
func ParseAccepted(line []byte) (a Accepted, ok bool) {
	var tok string
	var sum uint32
	if _, err := fmt.Sscanf(string(line), "%d %d %s %08x\n", &a.Seq, &a.Calls, &tok, &sum); err != nil {
		return a, false
	}
	var err error
	a.Source, err = Untoken(tok)
	return a, err == nil && bytes.Equal(line, a.Line())
}
