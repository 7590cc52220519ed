package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
)

// What a stored message of calls looks like: a byte for the format, then
// segments, one for each batch that is in it:
//
//	uvarint   bytes when decompressed
//	uvarint   bytes compressed
//	S2 block  for each call: uvarint length, body
//
// The calls' ids and their number are in the headers, so that the account and
// the deduplication can be read without the bodies.
const CallsFormat = 1

// maxSegment bounds what a segment may claim to decompress to.
const maxSegment = 64 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewBuffer returns an empty buffer, which PutBuffer may take back.
func NewBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// PutBuffer takes back a buffer that nobody uses any longer.
func PutBuffer(b *[]byte) { buffers.Put(b) }

// AppendSegment appends the bodies of calls as a segment.
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

// AppendBody appends the body of a call behind its length.
func AppendBody(raw, body []byte) []byte {
	return append(binary.AppendUvarint(raw, uint64(len(body))), body...)
}

// AppendBlock appends what AppendBody wrote as a segment.
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

// DecodeCalls returns the bodies in a stored message, which share memory of
// their own.
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

// ErrBadSegment says that a stored message of calls cannot be decoded.
var ErrBadSegment = errors.New("journal: a stored batch is damaged")

// ErrDamaged says that what is on disk is not what was stored. Nothing was
// changed; the error says what to do.
var ErrDamaged = errors.New("the store is damaged")

// Damaged returns an ErrDamaged that says what is damaged.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("journal: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// AppendIDs appends the calls' ids to a header's value, where commas divide
// them.
func AppendIDs(dst []byte, ids []string) []byte {
	for i, id := range ids {
		if i > 0 || len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, id)
	}
	return dst
}

// appendID appends a text in which what divides texts is escaped.
func appendID(dst []byte, id string) []byte {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c == ',' || c == '%' || c == 0x7f {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// EachID calls yield with each id of a header's value until it returns false.
func EachID(value string, yield func(id string) bool) bool {
	if value == "" {
		return true
	}
	for more := true; more; {
		var id string
		id, value, more = strings.Cut(value, ",")
		if strings.Contains(id, "%") {
			id = unescapeID(id)
		}
		if !yield(id) {
			return false
		}
	}
	return true
}

func unescapeID(s string) string {
	id := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
			if hi >= 0 && lo >= 0 {
				id, i = append(id, byte(hi<<4|lo)), i+2
				continue
			}
		}
		id = append(id, s[i])
	}
	return string(id)
}
