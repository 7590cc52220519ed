package record

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Accepted is an acknowledged message of CALLS, with calls from a source or calls replayed for a
// destination. Without calls, it is an acknowledged value of a bucket, and Source is the name of the
// bucket's stream.
type Accepted struct {
	Seq         uint64
	Calls       int
	Source      string
	Destination string         // only for replays
	From        tracking.State // only for replays
}

// Line returns the entry in the recent file.
func (a Accepted) Line() []byte {
	text := fmt.Sprintf("%d %d %s", a.Seq, a.Calls, Token(a.Source))
	if a.Destination != "" {
		text = fmt.Sprintf("%d %d %s.%d", a.Seq, a.Calls, Token(a.Destination), a.From)
	}
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// ParseAccepted parses the result of Line. ok reports whether the line is valid.
func ParseAccepted(line []byte) (a Accepted, ok bool) {
	var name string
	var sum uint32
	if _, err := fmt.Sscanf(string(line), "%d %d %s %08x\n", &a.Seq, &a.Calls, &name, &sum); err != nil {
		return a, false
	}
	token, from, replayed := strings.Cut(name, ".")
	name, err := Untoken(token)
	if err == nil && replayed {
		a.Destination = name
		_, err = fmt.Sscan(from, &a.From)
	} else {
		a.Source = name
	}
	return a, err == nil && bytes.Equal(line, a.Line())
}
