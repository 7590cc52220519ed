package analytics

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// A segment is a file of records, appended one after the other:
//
//	byte 0       0xff
//	byte 1       the kind of the record
//	bytes 2-3    the length of the body
//	bytes 4-7    the edition, the same in all records of a segment
//	bytes 8-11   an index
//	bytes 12-15  the CRC-32C of the body and bytes 1 to 11
//	the body
//
// Numbers are little-endian. A call's body is its JSON, which is UTF-8 and so
// never holds 0xff: after damage, a reader finds the next record by that byte,
// and takes no part of a call for one.
//
// The file may be longer. What is behind the last record are zeros then, or the
// file was another segment before, of another edition.
const (
	recordMark = 0xff
	recordHead = 16

	kindHead = 'h' // the first of a file; the index is 1 if the file is longer than its records, the body spoolVersion and the source
	kindCall = 'c' // the index counts the calls of the file from 0
	kindEnds = 'e' // calls from the index on have ended; the body is a tally

	spoolVersion = 1
	maxSegment   = 8 << 20                 // bytes of a segment's calls
	maxFile      = 3 * maxSegment          // no file is longer: what says that calls have ended takes less than they do
	maxCalls     = maxSegment / recordHead // no segment has as many
	headLen      = recordHead + 1 + len(sourceID{})
	tallyLen     = 12
	endsLen      = recordHead + tallyLen
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spoolRecord is one record of a segment. Its body is a part of the segment's bytes.
type spoolRecord struct {
	kind    byte
	edition uint32
	index   uint32
	body    []byte
}

func appendRecord(dst []byte, r spoolRecord) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, recordHead)...)
	dst = append(dst, r.body...)
	startRecord(dst[start:], r.kind)
	endRecord(dst[start:], r.edition, r.index)
	return dst
}

// startRecord makes a record of a body that has room for the head in front of
// it. What endRecord adds is not known yet.
func startRecord(record []byte, kind byte) {
	body := record[recordHead:]
	record[0], record[1] = recordMark, kind
	binary.LittleEndian.PutUint16(record[2:], uint16(len(body)))
	binary.LittleEndian.PutUint32(record[12:], crc32.Checksum(body, castagnoli))
}

// endRecord completes what startRecord has made.
func endRecord(record []byte, edition, index uint32) {
	binary.LittleEndian.PutUint32(record[4:], edition)
	binary.LittleEndian.PutUint32(record[8:], index)
	sum := binary.LittleEndian.Uint32(record[12:])
	binary.LittleEndian.PutUint32(record[12:], crc32.Update(sum, castagnoli, record[1:12]))
}

// readRecord reads the record that data starts with; size is 0 if it starts
// with none.
func readRecord(data []byte) (r spoolRecord, size int) {
	if len(data) < recordHead || data[0] != recordMark {
		return spoolRecord{}, 0
	}
	size = recordHead + int(binary.LittleEndian.Uint16(data[2:]))
	r.kind = data[1]
	r.edition = binary.LittleEndian.Uint32(data[4:])
	r.index = binary.LittleEndian.Uint32(data[8:])
	if size > recordHead+MaxCallBytes || size > len(data) || r.index >= maxCalls {
		return spoolRecord{}, 0
	}
	r.body = data[recordHead:size]
	if crc32.Update(crc32.Checksum(r.body, castagnoli), castagnoli, data[1:12]) != binary.LittleEndian.Uint32(data[12:]) {
		return spoolRecord{}, 0
	}
	return r, size
}

// tally is the body of a record of kindEnds. The last record of a sealed
// segment is one, so that the file is accounted for without being read.
type tally struct {
	span  uint32 // calls from the record's index on that have ended
	calls uint32 // calls in the segment, up to this record
	ended uint32 // those of them that have ended
}

func appendEnds(dst []byte, edition, first uint32, t tally) []byte {
	var body [tallyLen]byte
	binary.LittleEndian.PutUint32(body[0:], t.span)
	binary.LittleEndian.PutUint32(body[4:], t.calls)
	binary.LittleEndian.PutUint32(body[8:], t.ended)
	return appendRecord(dst, spoolRecord{kindEnds, edition, first, body[:]})
}

// tally reads the body of a record of kindEnds.
func (r spoolRecord) tally() (t tally, ok bool) {
	if r.kind != kindEnds || len(r.body) != tallyLen {
		return t, false
	}
	t.span = binary.LittleEndian.Uint32(r.body[0:])
	t.calls = binary.LittleEndian.Uint32(r.body[4:])
	t.ended = binary.LittleEndian.Uint32(r.body[8:])
	return t, t.calls <= maxCalls && t.ended <= t.calls && uint64(r.index)+uint64(t.span) <= uint64(t.calls)
}

// span is calls of one segment with consecutive indexes.
type span struct{ first, end uint32 }

func (s span) len() uint32 { return s.end - s.first }

// addSpan adds a span to a list, as a part of its last one where it follows that.
func addSpan(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == s.first {
		spans[n-1].end = s.end
		return spans
	}
	return append(spans, s)
}

// contents is what the bytes of a segment, or of a part of one, hold.
type contents struct {
	calls  []spoolRecord
	ended  []span
	upTo   uint32 // every call written has a lower index, as far as can be seen
	longer bool   // the file is longer than its records
	end    int    // of the last record
	behind int    // bytes behind it that are no record

	damaged   int // bytes that are no record
	damagedAt int // where the first of them is
}

// readContents reads as much as there is to read of an edition. Nothing in data
// can make it fail: what is no record is passed over. Memory is for the list of
// calls.
func readContents(data []byte, edition uint32, memory []spoolRecord) (c contents) {
	c.calls = memory[:0]
	passed := 0 // bytes that are no record, since the last one
	for at := 0; at < len(data); {
		r, size := readRecord(data[at:])
		switch {
		case size == 0:
			size = nextRecord(data[at:])
			passed += size
		case r.edition == edition:
			c.damage(passed)
			passed = 0
			c.take(r)
			c.end = at + size
		}
		at += size
	}
	c.behind = passed
	return c
}

// judgeEnd counts what is behind the last record as damage, unless it is the end
// of a file that is longer than its records.
func (c *contents) judgeEnd(data []byte, edition uint32) {
	rest := data[c.end:]
	begun := startsRecord(rest, edition)
	if begun || !c.longer {
		c.damage(c.behind)
	}
	// A write that did not come to its end leaves a file that ends as early. A
	// call that is there in full was returned from, and is lost.
	if begun && !c.longer && rest[1] == kindCall && len(rest) >= recordHead+int(binary.LittleEndian.Uint16(rest[2:])) &&
		binary.LittleEndian.Uint32(rest[8:]) == c.upTo {
		c.upTo++
	}
}

// damage counts bytes behind the last record.
func (c *contents) damage(bytes int) {
	if c.damaged == 0 {
		c.damagedAt = c.end
	}
	c.damaged += bytes
}

// startsRecord reports whether data starts as a record of an edition does,
// whole or not.
func startsRecord(data []byte, edition uint32) bool {
	return len(data) >= recordHead && data[0] == recordMark && binary.LittleEndian.Uint32(data[4:]) == edition
}

// nextRecord is how far it is, from what is no record, to what may be one.
func nextRecord(data []byte) int {
	if n := bytes.IndexByte(data[1:], recordMark); n >= 0 {
		return 1 + n
	}
	return len(data)
}

func (c *contents) take(r spoolRecord) {
	switch r.kind {
	case kindHead:
		c.longer = r.index > 0
	case kindCall:
		c.calls = append(c.calls, r)
		c.upTo = max(c.upTo, r.index+1)
	case kindEnds:
		if t, ok := r.tally(); ok {
			c.upTo = max(c.upTo, t.calls)
			c.ended = addSpan(c.ended, span{r.index, r.index + t.span})
		}
	}
}

// left is what there is still to do with the calls of want: those that have not
// ended, each once and by index, and the spans of those that are not there. It
// uses c up.
func (c *contents) left(want span) (calls []spoolRecord, missing []span) {
	settled := make([]bool, want.len())
	slices.SortFunc(c.ended, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	next := want.first // so that spans that say the same thing often cost it once
	for _, s := range c.ended {
		for next = max(next, s.first); next < min(s.end, want.end); next++ {
			settled[next-want.first] = true
		}
	}
	// A file that is in another order than it was written in, or has a part
	// twice, is damaged too.
	byIndex := func(a, b spoolRecord) int { return cmp.Compare(a.index, b.index) }
	if !slices.IsSortedFunc(c.calls, byIndex) {
		slices.SortStableFunc(c.calls, byIndex)
	}
	calls = c.calls[:0]
	for _, r := range c.calls {
		if i := r.index - want.first; r.index >= want.first && r.index < want.end && !settled[i] {
			settled[i] = true
			calls = append(calls, r)
		}
	}
	for i, ok := range settled {
		if !ok {
			missing = addSpan(missing, span{want.first + uint32(i), want.first + uint32(i) + 1})
		}
	}
	return calls, missing
}
