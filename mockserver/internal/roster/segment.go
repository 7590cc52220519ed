package roster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A segment contains consecutive entries:
//
//	format  1 byte, 1
//	entry   uvarint  number of bytes that the user ID shares with the previous one
//	        uvarint  number of remaining bytes
//	        bytes    the remaining bytes
//	        uvarint  0 for no value, otherwise the length of the value plus 1
//	        bytes    the value
//	…
//	check   4 bytes, big endian: CRC-32C of all preceding bytes
//
// This format reduces sorted IDs to about half of their size.
const (
	segmentFormat = 1
	checkLen      = 4

	// SegmentSize is the size in bytes at which a segment ends. The last entry may exceed it.
	SegmentSize = 128 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write writes sorted entries as segments. It calls put for each segment, numbered from 0. put must
// not retain the bytes. Write returns the numbers of entries and segments.
func Write(entries Seq, put func(number int, segment []byte) error) (count int64, segments int, err error) {
	return writeSegments(entries, SegmentSize, put)
}

func writeSegments(entries Seq, size int, put func(number int, segment []byte) error) (count int64, segments int, err error) {
	w := writer{put: put, size: size}
	for e, err := range entries {
		if err != nil {
			return 0, 0, err
		}
		if count > 0 && e.User <= w.last {
			return 0, 0, unordered(w.last, e.User)
		}
		if err := w.add(e); err != nil {
			return 0, 0, err
		}
		count++
	}
	return count, w.segments, w.flush()
}

type writer struct {
	put      func(int, []byte) error
	size     int // size at which a segment ends
	buf      []byte
	last     string // last user, to find the shared prefix
	segments int
}

func (w *writer) add(e Entry) error {
	shared := 0
	if len(w.buf) == 0 {
		w.buf = append(w.buf, segmentFormat)
		w.segments++
	} else {
		shared = text.CommonPrefix(w.last, e.User)
	}
	rest := e.User[shared:]
	w.buf = binary.AppendUvarint(w.buf, uint64(shared))
	w.buf = append(binary.AppendUvarint(w.buf, uint64(len(rest))), rest...)
	if e.Value == nil {
		w.buf = append(w.buf, 0)
	} else {
		w.buf = append(binary.AppendUvarint(w.buf, uint64(len(e.Value))+1), e.Value...)
	}
	w.last = e.User
	if len(w.buf) < w.size {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, crc32.Checksum(w.buf, castagnoli))
	err := w.put(w.segments-1, w.buf)
	w.buf = w.buf[:0]
	return err
}

// Read yields the entries of segments, and verifies the segments. It calls get for each segment. get
// may reuse the returned slice.
func Read(segments int, get func(number int) ([]byte, error)) Seq {
	return func(yield func(Entry, error) bool) {
		first, last := true, "" // last is the last user
		for n := range segments {
			segment, err := get(n)
			for e, err := range entries(segment, err) {
				if err == nil && !first && e.User <= last {
					err = unordered(last, e.User)
				}
				if err != nil {
					yield(Entry{}, fmt.Errorf("roster: segment %d of %d: %w", n, segments, err))
					return
				}
				if !yield(e, nil) {
					return
				}
				first, last = false, e.User
			}
		}
	}
}

// Salvage yields the entries of the readable segments. A segment is unreadable if get returns
// ErrCorrupt or invalid bytes. Instead of its entries, Salvage yields the entries of fill that sort
// between the neighboring segments.
func Salvage(segments int, get func(number int) ([]byte, error), fill Seq) Seq {
	return func(yield func(Entry, error) bool) {
		gap, last := false, "" // last is the last user
		for n := range segments {
			segment, err := get(n)
			if err == nil {
				_, err = Count(entries(segment, nil))
			}
			if errors.Is(err, ErrCorrupt) {
				gap = true
				continue
			}
			for e, err := range entries(segment, err) {
				if gap && err == nil && !yieldBetween(fill, last, e.User, yield) || !yield(e, err) {
					return
				}
				gap, last = false, e.User
			}
		}
		if gap {
			yieldBetween(fill, last, "", yield)
		}
	}
}

// yieldBetween yields the entries with users that sort between after and before. If one of these is
// empty, there is no such limit. It returns false after an error, or if yield does.
func yieldBetween(all Seq, after, before string, yield func(Entry, error) bool) bool {
	for e, err := range all {
		switch {
		case err != nil:
			yield(Entry{}, err)
			return false
		case before != "" && e.User >= before:
			return true
		case e.User > after && !yield(e, nil):
			return false
		}
	}
	return true
}

// ErrCorrupt reports a corrupt or missing segment.
var ErrCorrupt = errors.New("the segment is corrupt or missing")

// entries yields the entries of a segment, or err.
func entries(segment []byte, err error) Seq {
	return func(yield func(Entry, error) bool) {
		var body []byte
		if err == nil {
			body, err = checked(segment)
		}
		var e Entry
		for err == nil && len(body) > 0 {
			if e, body, err = decode(body, e.User); err == nil && !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// checked verifies a segment and returns the encoded entries in it.
func checked(segment []byte) ([]byte, error) {
	body := segment[:max(0, len(segment)-checkLen)]
	if len(body) == 0 || body[0] != segmentFormat || crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(segment[len(body):]) {
		return nil, ErrCorrupt
	}
	return body[1:], nil
}

// decode decodes the first entry and returns it with the remaining bytes.
func decode(body []byte, before string) (Entry, []byte, error) {
	shared, n := binary.Uvarint(body)
	if n <= 0 || shared > uint64(len(before)) {
		return Entry{}, nil, ErrCorrupt
	}
	rest, body, ok := take(body[n:], 0)
	if !ok {
		return Entry{}, nil, ErrCorrupt
	}
	e := Entry{User: before[:shared] + string(rest)}
	if len(body) > 0 && body[0] == 0 {
		return e, body[1:], nil
	}
	value, body, ok := take(body, 1)
	if !ok {
		return Entry{}, nil, ErrCorrupt
	}
	e.Value = append([]byte{}, value...)
	return e, body, nil
}

// take decodes a length, subtracts more from it, and returns that many bytes and the rest.
func take(b []byte, more uint64) (taken, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size < more || size-more > uint64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	return b[:size-more], b[size-more:], true
}
