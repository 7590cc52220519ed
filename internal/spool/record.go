package spool

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	// HeadLen is the number of bytes before the body of a Record.
	HeadLen = recordHead
	// MaxBody is the maximum length of a body.
	MaxBody = 32768

	sourceLen = 8
)

// A segment is a file of consecutive records:
//
//	byte 0       0xff
//	byte 1       the kind of the record
//	bytes 2-3    the length of the body
//	bytes 4-7    the generation, the same in all records of a segment
//	bytes 8-11   an index
//	bytes 12-15  the CRC-32C of the body and bytes 1 to 11
//	the body
//
// Numbers are little-endian. A body of data does not contain 0xff. So after a corrupted
// record, a reader searches for this byte to find the next record. It never mistakes part of a
// body for a record.
//
// A file may be longer than its records. The remaining bytes are zeros, or records of a previous
// generation of the file.
const (
	recordMark = 0xff
	recordHead = 16

	kindHead = 'h' // the first record; the index is 1 if the file is padded; the body contains formatVersion and the source
	kindData = 'c' // a data record; the index counts data records from 0
	kindEnds = 'e' // an acknowledgement of data records from the index on; the body is a tally

	formatVersion = 1
	maxSegment    = 8 << 20                 // maximum number of data bytes in a segment
	maxFile       = 3 * maxSegment          // maximum file size; acknowledgements are shorter than their records
	maxRecords    = maxSegment / recordHead // maximum number of records in a segment
	headLen       = recordHead + 1 + sourceLen
	tallyLen      = 12
	endsLen       = recordHead + tallyLen
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a decoded record. Its body is a part of the segment's bytes.
type record struct {
	kind       byte
	generation uint32
	index      uint32
	body       []byte
}

func appendRecord(dst []byte, r record) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, recordHead)...)
	dst = append(dst, r.body...)
	putHead(dst[start:], r.kind, r.generation, r.index, checksum(r.body))
	return dst
}

func checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// putHead writes the head of a record. sum is the checksum of the body.
func putHead(record []byte, kind byte, generation, index, sum uint32) {
	record[0], record[1] = recordMark, kind
	binary.LittleEndian.PutUint16(record[2:], uint16(len(record)-recordHead))
	binary.LittleEndian.PutUint32(record[4:], generation)
	binary.LittleEndian.PutUint32(record[8:], index)
	binary.LittleEndian.PutUint32(record[12:], crc32.Update(sum, castagnoli, record[1:12]))
}

// readRecord decodes the record at the start of data. It returns size 0 if there is no valid
// record.
func readRecord(data []byte) (r record, size int) {
	if len(data) < recordHead || data[0] != recordMark {
		return record{}, 0
	}
	size = recordHead + int(binary.LittleEndian.Uint16(data[2:]))
	r.kind = data[1]
	r.generation = binary.LittleEndian.Uint32(data[4:])
	r.index = binary.LittleEndian.Uint32(data[8:])
	if size > recordHead+MaxBody || size > len(data) || r.index >= maxRecords {
		return record{}, 0
	}
	r.body = data[recordHead:size]
	if crc32.Update(checksum(r.body), castagnoli, data[1:12]) != binary.LittleEndian.Uint32(data[12:]) {
		return record{}, 0
	}
	return r, size
}

// tally is the body of a record of kind kindEnds. Such a record is the last one of a sealed
// segment, so that Open can count the records without reading them.
type tally struct {
	span    uint32 // number of acknowledged records from the index on
	records uint32 // number of data records before this record
	ended   uint32 // number of those records that are acknowledged
}

func appendEnds(dst []byte, generation, first uint32, t tally) []byte {
	var body [tallyLen]byte
	binary.LittleEndian.PutUint32(body[0:], t.span)
	binary.LittleEndian.PutUint32(body[4:], t.records)
	binary.LittleEndian.PutUint32(body[8:], t.ended)
	return appendRecord(dst, record{kindEnds, generation, first, body[:]})
}

// tally decodes the body of a record of kind kindEnds.
func (r record) tally() (t tally, ok bool) {
	if r.kind != kindEnds || len(r.body) != tallyLen {
		return t, false
	}
	t.span = binary.LittleEndian.Uint32(r.body[0:])
	t.records = binary.LittleEndian.Uint32(r.body[4:])
	t.ended = binary.LittleEndian.Uint32(r.body[8:])
	return t, t.records <= maxRecords && t.ended <= t.records && uint64(r.index)+uint64(t.span) <= uint64(t.records)
}

// span is a range of indexes in a segment. It does not include end.
type span struct{ first, end uint32 }

func (s span) len() uint32 { return s.end - s.first }

// addSpan appends a span. If s directly follows the last span, addSpan extends that span instead.
func addSpan(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == s.first {
		spans[n-1].end = s.end
		return spans
	}
	return append(spans, s)
}

// contents is the decoded content of a segment or of a part of it.
type contents struct {
	records  []record
	ended    []span
	upTo     uint32 // the upper limit of the indexes
	padded   bool   // the file is longer than its records
	end      int    // the end of the last record
	trailing int    // number of bytes after end that are not records

	corrupted   int // number of bytes that are not records
	corruptedAt int // the position of the first of these bytes
}

// readContents decodes all records of a generation. It skips and counts other bytes. It reuses
// memory for the list of records.
func readContents(data []byte, generation uint32, memory []record) (c contents) {
	c.records = memory[:0]
	skipped := 0 // number of bytes since the last record
	for at := 0; at < len(data); {
		r, size := readRecord(data[at:])
		switch {
		case size == 0:
			size = nextRecord(data[at:])
			skipped += size
		case r.generation == generation:
			c.addCorrupted(skipped)
			skipped = 0
			c.add(r)
			c.end = at + size
		}
		at += size
	}
	c.trailing = skipped
	return c
}

// checkEnd counts the bytes after the last record as corrupted. It does not if the file is padded
// and these bytes do not start like a record.
func (c *contents) checkEnd(data []byte, generation uint32) {
	rest := data[c.end:]
	begun := startsRecord(rest, generation)
	if begun || !c.padded {
		c.addCorrupted(c.trailing)
	}
	// An interrupted write leaves an incomplete record, which is not a loss. A record of the
	// full length was written completely. If it cannot be read, it is corrupted and lost.
	if begun && !c.padded && rest[1] == kindData && len(rest) >= recordHead+int(binary.LittleEndian.Uint16(rest[2:])) &&
		binary.LittleEndian.Uint32(rest[8:]) == c.upTo {
		c.upTo++
	}
}

// addCorrupted counts corrupted bytes after the last record.
func (c *contents) addCorrupted(bytes int) {
	if c.corrupted == 0 {
		c.corruptedAt = c.end
	}
	c.corrupted += bytes
}

// startsRecord reports whether data starts like a record of the generation. The record may be
// incomplete.
func startsRecord(data []byte, generation uint32) bool {
	return len(data) >= recordHead && data[0] == recordMark && binary.LittleEndian.Uint32(data[4:]) == generation
}

// nextRecord returns the number of bytes to the next possible start of a record. It is at least 1.
func nextRecord(data []byte) int {
	if n := bytes.IndexByte(data[1:], recordMark); n >= 0 {
		return 1 + n
	}
	return len(data)
}

// add adds a decoded record to c.
func (c *contents) add(r record) {
	switch r.kind {
	case kindHead:
		c.padded = r.index > 0
	case kindData:
		c.records = append(c.records, r)
		c.upTo = max(c.upTo, r.index+1)
	case kindEnds:
		if t, ok := r.tally(); ok {
			c.upTo = max(c.upTo, t.records)
			c.ended = addSpan(c.ended, span{r.index, r.index + t.span})
		}
	}
}

// left returns the unacknowledged records in the range want, in order and without duplicates,
// and the spans of missing records. It overwrites c.
func (c *contents) left(want span) (records []record, missing []span) {
	settled := make([]bool, want.len())
	slices.SortFunc(c.ended, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	next := want.first // overlapping spans must be processed only once
	for _, s := range c.ended {
		for next = max(next, s.first); next < min(s.end, want.end); next++ {
			settled[next-want.first] = true
		}
	}
	// In a corrupted file, records may be out of order or duplicated.
	byIndex := func(a, b record) int { return cmp.Compare(a.index, b.index) }
	if !slices.IsSortedFunc(c.records, byIndex) {
		slices.SortStableFunc(c.records, byIndex)
	}
	records = c.records[:0]
	for _, r := range c.records {
		if i := r.index - want.first; r.index >= want.first && r.index < want.end && !settled[i] {
			settled[i] = true
			records = append(records, r)
		}
	}
	for i, ok := range settled {
		if !ok {
			missing = addSpan(missing, span{want.first + uint32(i), want.first + uint32(i) + 1})
		}
	}
	return records, missing
}
