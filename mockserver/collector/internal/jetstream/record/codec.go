package record

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
)

// CallsFormat is the first byte of a stored message of calls. It is followed by one segment per
// batch:
//
//	uvarint   size when decompressed
//	uvarint   compressed size
//	S2 block  for each call: uvarint length, body
//
// The headers contain the number of calls and their IDs, because some readers do not need the
// bodies.
const CallsFormat = 1

// maxSegment is the maximum decompressed size of a segment.
const maxSegment = 64 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewBuffer returns an empty buffer from a pool.
func NewBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// PutBuffer returns a buffer to the pool.
func PutBuffer(b *[]byte) { buffers.Put(b) }

// AppendSegment appends a segment with the bodies of calls.
func AppendSegment(dst []byte, bodies [][]byte) []byte {
	buffer := NewBuffer()
	defer PutBuffer(buffer)
	raw := *buffer
	for _, b := range bodies {
		raw = AppendText(raw, b)
	}
	*buffer = raw
	return AppendBlock(dst, raw)
}

// AppendBlock appends a segment with bodies that AppendText has encoded.
func AppendBlock(dst, raw []byte) []byte {
	compressed := NewBuffer()
	defer PutBuffer(compressed)
	if n := s2.MaxEncodedLen(len(raw)); cap(*compressed) < n {
		*compressed = make([]byte, n)
	}
	block := s2.Encode((*compressed)[:cap(*compressed)], raw)
	return AppendText(AppendNumbers(dst, uint64(len(raw))), block)
}

// DecodeCalls returns the bodies in a stored message. The bodies do not share memory with payload.
func DecodeCalls(payload []byte) ([][]byte, error) {
	if len(payload) == 0 || payload[0] != CallsFormat {
		return nil, fmt.Errorf("journal: a stored batch has format %.1x, not %d", payload, CallsFormat)
	}
	var bodies [][]byte
	for d := (Decoder{Rest: payload[1:]}); len(d.Rest) > 0; {
		size, block := d.Uint(), d.Bytes()
		if n, err := s2.DecodedLen(block); d.Failed || size > maxSegment || err != nil || uint64(n) != size {
			return nil, ErrBadSegment
		}
		raw, err := s2.Decode(nil, block)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadSegment, err)
		}
		for segment := (Decoder{Rest: raw}); len(segment.Rest) > 0; {
			if bodies = append(bodies, segment.Bytes()); segment.Failed {
				return nil, ErrBadSegment
			}
		}
	}
	return bodies, nil
}

// ErrBadSegment is returned for a message of calls that cannot be decoded.
var ErrBadSegment = errors.New("journal: a stored batch is corrupt")

// ErrDamaged is returned if stored data is missing or corrupt. The data was not changed, and the
// error contains instructions.
var ErrDamaged = errors.New("the store is damaged")

// Damaged returns an error that wraps ErrDamaged and contains a description.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("journal: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// AppendIDs appends IDs to a header value, separated by commas.
func AppendIDs(dst []byte, ids []string) []byte {
	for i, id := range ids {
		if i > 0 || len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, id)
	}
	return dst
}

// appendID appends a string in which separators are escaped.
func appendID(dst []byte, id string) []byte {
	return appendEscaped(dst, id, '%', func(c byte) bool { return c > ' ' && c != ',' && c != '%' && c != 0x7f })
}

// EachID yields each ID of a header value.
func EachID(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := value
		for more := rest != ""; more; {
			var id string
			id, rest, more = strings.Cut(rest, ",")
			if id, _ = unescape(id, '%'); !yield(id) {
				return
			}
		}
	}
}
