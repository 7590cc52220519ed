package record

import (
	"encoding/binary"
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
		raw = AppendBody(raw, b)
	}
	*buffer = raw
	return AppendBlock(dst, raw)
}

// AppendBody appends the body of a call with its length.
func AppendBody(raw, body []byte) []byte {
	return append(binary.AppendUvarint(raw, uint64(len(body))), body...)
}

// AppendBlock appends a segment with bodies that AppendBody has encoded.
func AppendBlock(dst, raw []byte) []byte {
	compressed := NewBuffer()
	defer PutBuffer(compressed)
	if n := s2.MaxEncodedLen(len(raw)); cap(*compressed) < n {
		*compressed = make([]byte, n)
	}
	block := s2.Encode((*compressed)[:cap(*compressed)], raw)
	dst = binary.AppendUvarint(dst, uint64(len(raw)))
	dst = binary.AppendUvarint(dst, uint64(len(block)))
	return append(dst, block...)
}

// DecodeCalls returns the bodies in a stored message. The bodies do not share memory with payload.
func DecodeCalls(payload []byte) ([][]byte, error) {
	if len(payload) == 0 || payload[0] != CallsFormat {
		return nil, fmt.Errorf("journal: a stored batch has format %.1x, not %d", payload, CallsFormat)
	}
	var bodies [][]byte
	for rest := payload[1:]; len(rest) > 0; {
		size, a := binary.Uvarint(rest)
		if a <= 0 {
			return nil, ErrBadSegment
		}
		length, b := binary.Uvarint(rest[a:])
		if b <= 0 || size > maxSegment || length > uint64(len(rest)-a-b) {
			return nil, ErrBadSegment
		}
		block := rest[a+b : a+b+int(length)]
		rest = rest[a+b+int(length):]
		if n, err := s2.DecodedLen(block); err != nil || uint64(n) != size {
			return nil, ErrBadSegment
		}
		raw, err := s2.Decode(nil, block)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadSegment, err)
		}
		if bodies, err = cutBodies(bodies, raw); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

func cutBodies(bodies [][]byte, raw []byte) ([][]byte, error) {
	for len(raw) > 0 {
		n, w := binary.Uvarint(raw)
		if w <= 0 || n > uint64(len(raw)-w) {
			return nil, ErrBadSegment
		}
		end := w + int(n)
		bodies = append(bodies, raw[w:end:end])
		raw = raw[end:]
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
