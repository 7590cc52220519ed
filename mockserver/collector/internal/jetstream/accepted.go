package jetstream

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// acceptedCalls are the calls of a message of CALLS that was acknowledged, or, where there
// are none, a value of a bucket that was: source is its stream then.
type acceptedCalls struct {
	seq    uint64
	calls  int
	source string
}

// line is what the file says of it.
func (a acceptedCalls) line() []byte {
	text := fmt.Sprintf("%d %d %s", a.seq, a.calls, token(a.source))
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// parseAccepted reads what line has written, and reports whether it is whole.
func parseAccepted(line []byte) (a acceptedCalls, ok bool) {
	var tok string
	var sum uint32
	if _, err := fmt.Sscanf(string(line), "%d %d %s %08x\n", &a.seq, &a.calls, &tok, &sum); err != nil {
		return a, false
	}
	var err error
	a.source, err = untoken(tok)
	return a, err == nil && bytes.Equal(line, a.line())
}
