package roster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A segment is a run of entries in order:
//
//	format  one byte, 1
//	entry   uvarint  how many bytes the user shares with the one before it
//	        uvarint  how many follow
//	        bytes    that follow
//	        uvarint  0 for no value, else 1 more than its length
//	        bytes    of the value
//	…
//	check   4 bytes, big endian: CRC-32C of all before
//
// A sorted list of identifiers takes about half of its size so.
const (
	segmentFormat = 1
	checkLen      = 4

	// SegmentSize is how many bytes a segment has, unless one entry makes it longer.
	SegmentSize = 128 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write writes entries, which must be sorted, as segments numbered from 0. put
// must not keep the bytes. It returns how many entries and segments there are.
func Write(entries Seq, put func(number int, segment []byte) error) (count int64, segments int, err error) {
	w := writer{put: put}
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
	buf      []byte
	last     string // user; that of the segment, "" at its start, for what is shared
	segments int
}

func (w *writer) add(e Entry) error {
	shared := 0
	if len(w.buf) == 0 {
		w.buf = append(w.buf, segmentFormat)
		w.segments++
	} else {
		shared = commonPrefix(w.last, e.User)
	}
	w.buf = binary.AppendUvarint(w.buf, uint64(shared))
	w.buf = binary.AppendUvarint(w.buf, uint64(len(e.User)-shared))
	w.buf = append(w.buf, e.User[shared:]...)
	if e.Value == nil {
		w.buf = append(w.buf, 0)
	} else {
		w.buf = binary.AppendUvarint(w.buf, uint64(len(e.Value))+1)
		w.buf = append(w.buf, e.Value...)
	}
	w.last = e.User
	if len(w.buf) < SegmentSize {
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

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Read yields the entries of so many segments, which get returns. It checks
// that they are what Write wrote. get may return the same bytes each time.
func Read(segments int, get func(number int) ([]byte, error)) Seq {
	return func(yield func(Entry, error) bool) {
		r := reader{first: true}
		for n := range segments {
			data, err := get(n)
			stopped := false
			if err == nil {
				stopped, err = r.segment(data, yield)
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("roster: segment %d of %d: %w", n, segments, err))
				return
			}
			if stopped {
				return
			}
		}
	}
}

// ErrCorrupt says that a segment is not as it was written.
var ErrCorrupt = errors.New("its bytes are not those that were written")

type reader struct {
	last  string // user
	first bool   // nothing was read yet
}

func (r *reader) segment(data []byte, yield func(Entry, error) bool) (stopped bool, err error) {
	if len(data) <= checkLen || data[0] != segmentFormat {
		return false, ErrCorrupt
	}
	body, check := data[:len(data)-checkLen], data[len(data)-checkLen:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(check) {
		return false, ErrCorrupt
	}
	before := "" // within the segment
	for body = body[1:]; len(body) > 0; {
		var e Entry
		if e, body, err = decode(body, before); err != nil {
			return false, err
		}
		if !r.first && e.User <= r.last {
			return false, unordered(r.last, e.User)
		}
		r.first, r.last, before = false, e.User, e.User
		if !yield(e, nil) {
			return true, nil
		}
	}
	return false, nil
}

// decode reads the first entry of body and returns what follows it.
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

// take splits off bytes whose length, with more added to it, stands before them.
func take(b []byte, more uint64) (taken, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size < more || size-more > uint64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	return b[:size-more], b[size-more:], true
}
