package spool

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	// HeadLen is the room that a Record needs in front of its body.
	HeadLen = recordHead
	// MaxBody is the length of the longest body.
	MaxBody = 32768

	sourceLen = 8
)

// A segment is a file of records, appended one after the other:
//
//	byte 0       0xff
//	byte 1       the kind of the record
//	bytes 2-3    the length of the body
//	bytes 4-7    the generation, the same in all records of a segment
//	bytes 8-11   an index
//	bytes 12-15  the CRC-32C of the body and bytes 1 to 11
//	the body
//
// Numbers are little-endian. A body of data has no byte 0xff. So after damage, a
// reader finds the next record by that byte and never takes a part of a body for
// one.
//
// The file may be longer than its records. Then they are followed by zeros, or by
// the records of an earlier generation of the file.
const (
	recordMark = 0xff
	recordHead = 16

	kindHead = 'h' // the first of a file; the index is 1 if the file is longer than its records; the body is formatVersion and the source
	kindData = 'c' // the index counts those of the file from 0
	kindEnds = 'e' // data from the index on is done; the body is a tally

	formatVersion = 1
	maxSegment    = 8 << 20                 // bytes of a segment's data
	maxFile       = 3 * maxSegment          // of a file; acknowledgements are shorter than what they acknowledge
	maxRecords    = maxSegment / recordHead // of a segment
	headLen       = recordHead + 1 + sourceLen
	tallyLen      = 12
	endsLen       = recordHead + tallyLen
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one record of a segment. Its body is a part of the segment's bytes.
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
	startRecord(dst[start:], r.kind)
	endRecord(dst[start:], r.generation, r.index)
	return dst
}

// startRecord fills the room in front of a body with a record's head, except for
// what endRecord adds.
func startRecord(record []byte, kind byte) {
	body := record[recordHead:]
	record[0], record[1] = recordMark, kind
	binary.LittleEndian.PutUint16(record[2:], uint16(len(body)))
	binary.LittleEndian.PutUint32(record[12:], crc32.Checksum(body, castagnoli))
}

// endRecord completes the head that startRecord made.
func endRecord(record []byte, generation, index uint32) {
	binary.LittleEndian.PutUint32(record[4:], generation)
	binary.LittleEndian.PutUint32(record[8:], index)
	sum := binary.LittleEndian.Uint32(record[12:])
	binary.LittleEndian.PutUint32(record[12:], crc32.Update(sum, castagnoli, record[1:12]))
}

// readRecord reads the record at the start of data. The size is 0 if there is
// none.
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
	if crc32.Update(crc32.Checksum(r.body, castagnoli), castagnoli, data[1:12]) != binary.LittleEndian.Uint32(data[12:]) {
		return record{}, 0
	}
	return r, size
}

// tally is the body of a record of kindEnds. A sealed segment ends with one, so
// that its records are counted without reading them.
type tally struct {
	span    uint32 // records from the index on that are done
	records uint32 // records in the segment, up to this one
	ended   uint32 // those of them that are done
}

func appendEnds(dst []byte, generation, first uint32, t tally) []byte {
	var body [tallyLen]byte
	binary.LittleEndian.PutUint32(body[0:], t.span)
	binary.LittleEndian.PutUint32(body[4:], t.records)
	binary.LittleEndian.PutUint32(body[8:], t.ended)
	return appendRecord(dst, record{kindEnds, generation, first, body[:]})
}

// tally reads the body of a record of kindEnds.
func (r record) tally() (t tally, ok bool) {
	if r.kind != kindEnds || len(r.body) != tallyLen {
		return t, false
	}
	t.span = binary.LittleEndian.Uint32(r.body[0:])
	t.records = binary.LittleEndian.Uint32(r.body[4:])
	t.ended = binary.LittleEndian.Uint32(r.body[8:])
	return t, t.records <= maxRecords && t.ended <= t.records && uint64(r.index)+uint64(t.span) <= uint64(t.records)
}

// span is consecutive indexes of one segment.
type span struct{ first, end uint32 }

func (s span) len() uint32 { return s.end - s.first }

// addSpan appends a span, or extends the last one if s follows it.
func addSpan(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == s.first {
		spans[n-1].end = s.end
		return spans
	}
	return append(spans, s)
}

// contents is what the bytes of a segment, or of a part of one, hold.
type contents struct {
	records []record
	ended   []span
	upTo    uint32 // the indexes of all records are lower, as far as can be seen
	longer  bool   // the file is longer than its records
	end     int    // of the last record
	behind  int    // bytes after it that are no record

	damaged   int // bytes that are no record
	damagedAt int // where the first of them is
}

// readContents reads all records of a generation. It does not fail: bytes that
// are no record are skipped and counted. Memory is used for the list of records.
func readContents(data []byte, generation uint32, memory []record) (c contents) {
	c.records = memory[:0]
	skipped := 0 // bytes that are no record, since the last one
	for at := 0; at < len(data); {
		r, size := readRecord(data[at:])
		switch {
		case size == 0:
			size = nextRecord(data[at:])
			skipped += size
		case r.generation == generation:
			c.damage(skipped)
			skipped = 0
			c.add(r)
			c.end = at + size
		}
		at += size
	}
	c.behind = skipped
	return c
}

// checkEnd counts the bytes after the last record as damage, unless the file is
// longer than its records and they do not start like one.
func (c *contents) checkEnd(data []byte, generation uint32) {
	rest := data[c.end:]
	begun := startsRecord(rest, generation)
	if begun || !c.longer {
		c.damage(c.behind)
	}
	// A write that was interrupted leaves a file that ends early. A record of
	// full length was written whole, so it is damaged, and lost.
	if begun && !c.longer && rest[1] == kindData && len(rest) >= recordHead+int(binary.LittleEndian.Uint16(rest[2:])) &&
		binary.LittleEndian.Uint32(rest[8:]) == c.upTo {
		c.upTo++
	}
}

// damage counts bytes after the last record.
func (c *contents) damage(bytes int) {
	if c.damaged == 0 {
		c.damagedAt = c.end
	}
	c.damaged += bytes
}

// startsRecord reports whether data starts like a record of a generation, which
// may be incomplete.
func startsRecord(data []byte, generation uint32) bool {
	return len(data) >= recordHead && data[0] == recordMark && binary.LittleEndian.Uint32(data[4:]) == generation
}

// nextRecord returns the distance to the next byte of data at which a record may
// start, at least 1.
func nextRecord(data []byte) int {
	if n := bytes.IndexByte(data[1:], recordMark); n >= 0 {
		return 1 + n
	}
	return len(data)
}

// add adds a record of the generation.
func (c *contents) add(r record) {
	switch r.kind {
	case kindHead:
		c.longer = r.index > 0
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

// left returns the records of want that are not done, each once and in order, and
// the spans of those that are neither done nor present. It overwrites c.
func (c *contents) left(want span) (records []record, missing []span) {
	settled := make([]bool, want.len())
	slices.SortFunc(c.ended, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	next := want.first // so that spans that overlap cost their length once
	for _, s := range c.ended {
		for next = max(next, s.first); next < min(s.end, want.end); next++ {
			settled[next-want.first] = true
		}
	}
	// A damaged file may have records in another order, or twice.
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
