package pipeline

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

const (
	bodyHead = `{"batch":[`
	// bodySeam follows the batch ID. The bytes up to and including bodySeam are the same in all
	// attempts. The tail follows, which consists of the time of the attempt and bodyEnd.
	bodySeam = `","sentAt":"`
	bodyEnd  = `"}`
	tailLen  = wire.TimeLen + len(bodyEnd)

	// batchOverhead is the memory that the budget counts for a batch in addition to its bytes.
	batchOverhead = 256
)

// batch is a sequence of calls that are sent in one request. An open batch accepts calls. A
// sealed batch is queued, and its bytes do not change.
type batch struct {
	buf   []byte // bodyHead and the calls; in a sealed batch, the whole body except the tail
	calls int
	seq   uint64 // number of the first call: its position in the spool; without a spool, counted from 1
	ids   []CallID

	zip *zipped // the compressed bytes of a sealed batch; if set, buf is nil

	charge int64 // bytes that the memory budget counts for the batch

	// The following fields are used only by the loop.
	inUse  bool        // a transport may still read the last body
	tries  retry.Tries // previous attempts; also guarded by the pipeline's mu
	status int         // the latest HTTP status, or 0
	err    error       // the latest error, or nil
}

// size returns the length of a sealed batch before compression, without the tail.
func (b *batch) size() int {
	if b.zip != nil {
		return b.zip.size
	}
	return len(b.buf)
}

// callIDBytes is the memory that the budget counts for a CallID, without the ID string.
const callIDBytes = 48

// idBytes returns the memory that the budget counts for the batch's CallIDs.
func (b *batch) idBytes() (n int64) {
	for _, id := range b.ids {
		n += callIDBytes + int64(len(id.ID))
	}
	return n
}

// idsKey is the context key for the CallIDs of a request.
type idsKey struct{}

// RequestValues returns the values of a request's calls. ctx is the context of the request. It
// returns nil if calls have no values, or if the request is not from a pipeline.
func RequestValues(ctx context.Context) []interface{} {
	ids, _ := ctx.Value(idsKey{}).([]CallID)
	if ids == nil {
		return nil
	}
	values := make([]interface{}, len(ids))
	for i, id := range ids {
		values[i] = id.Value
	}
	return values
}

// lost returns a Drop with the reason and the batch's last attempt.
func (b *batch) lost(reason Reason) *Drop {
	return &Drop{Reason: reason, Attempts: b.tries.Requests, Status: b.status, Err: b.err}
}

// envelope returns the length of a body without its calls.
func (s *settings) envelope() int {
	return len(bodyHead) + len(s.BatchContext) + wire.IDLen + len(bodySeam) + tailLen
}

// fits reports whether the batch has room for a call of n bytes.
func (b *batch) fits(n int, s *settings) bool {
	return b.calls == 0 || len(b.buf)+1+n+s.envelope()-len(bodyHead) <= MaxBatchBytes
}

// continues reports whether the call with the number seq directly follows the last call of the
// batch. Without a spool, seq is 0 and the result is true. The calls of a batch are acknowledged
// together, so they must be consecutive in a segment of the spool.
func (b *batch) continues(seq uint64) bool {
	return seq == 0 || b.seq+uint64(b.calls) == seq
}

// hasRoom reports whether a call of n bytes fits into the batch without a larger buffer.
func (b *batch) hasRoom(n int, s *settings) bool {
	return len(b.buf)+len(",")+n+s.envelope() <= cap(b.buf) && b.fits(n, s)
}

// append appends an encoded call. The buffer must have room.
func (b *batch) append(encoded []byte) {
	if b.calls > 0 {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, encoded...)
	b.calls++
}

// seal appends the rest of the body, except for the tail, which differs between attempts.
func (b *batch) seal(s *settings) {
	b.buf = append(b.buf, s.BatchContext...)
	b.buf = wire.AppendID(b.buf)
	b.buf = append(b.buf, bodySeam...)
}

// upload contains the input of an attempt.
type upload struct {
	body    []byte // nil if there is nothing to send
	ids     []CallID
	retries int // number of previous attempts with the batch
}

// upload returns the input of an attempt. The body must not change until the attempt returns.
func (b *batch) upload(now time.Time) upload {
	return upload{body: b.body(now), ids: b.ids, retries: b.tries.Requests}
}

// body returns the body of an attempt. The body uses the buffer of the batch. If a transport
// may still read the previous body, body first replaces the buffer with a copy.
func (b *batch) body(now time.Time) []byte {
	inUse := b.inUse
	b.inUse = false
	if b.zip != nil {
		if inUse {
			b.zip.data = append(make([]byte, 0, cap(b.zip.data)), b.zip.data...)
		}
		var tail [tailLen]byte
		return b.zip.appendEnd(b.zip.data, appendTail(tail[:0], now))
	}
	if inUse {
		b.buf = append(make([]byte, 0, cap(b.buf)), b.buf...)
	}
	return appendTail(b.buf, now)
}

// appendTail appends the part of a body that differs between attempts.
func appendTail(dst []byte, now time.Time) []byte {
	return append(wire.AppendTime(dst, now), bodyEnd...)
}

// split splits a sealed batch of at least two calls into two batches with new batch IDs. raw is
// the uncompressed batch. split reports false if raw does not contain the expected number of
// calls, which can happen if another program wrote to the spool.
func (b *batch) split(raw []byte, s *settings) (first, second *batch, ok bool) {
	calls := raw[len(bodyHead) : len(raw)-len(s.BatchContext)-wire.IDLen-len(bodySeam)]
	n := b.calls / 2
	end := callsEnd(calls, n)
	if end < 0 || end == len(calls) {
		return nil, nil, false
	}
	part := func(calls []byte, n int) *batch {
		h := &batch{
			calls: n, seq: b.seq,
			buf: newBuffer(s.envelope() + len(calls)),
		}
		h.buf = append(append(h.buf, bodyHead...), calls...)
		h.seal(s)
		return h
	}
	first, second = part(calls[:end], n), part(calls[end+len(","):], b.calls-n)
	second.seq += uint64(n)
	if b.ids != nil {
		first.ids, second.ids = b.ids[:n:n], b.ids[n:]
	}
	return first, second, true
}

// callsEnd returns the end of the nth JSON object in calls. The objects are separated by
// commas. It returns -1 if there are fewer than n objects.
func callsEnd(calls []byte, n int) int {
	depth, quoted := 0, false
	for i := 0; i < len(calls); i++ {
		switch c := calls[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// zipped is a compressed batch without its tail. It consists of a gzip header and a deflate
// stream that is flushed to a byte boundary but not closed. Each attempt appends its tail as a
// stored block, so the batch is compressed only once.
type zipped struct {
	data []byte
	crc  uint32 // the checksum of the uncompressed bytes
	size int    // number of uncompressed bytes
}

var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// compressor compresses batches with reusable buffers. It is not safe for concurrent use.
type compressor struct {
	out bytes.Buffer
	w   *flate.Writer
}

// compress compresses raw and leaves capacity for a tail of the given length. The result does
// not share memory with the compressor.
func (c *compressor) compress(raw []byte, tail int) *zipped {
	c.out.Reset()
	c.out.Write(gzipHeader)
	if c.w == nil {
		c.w, _ = flate.NewWriter(&c.out, flate.BestSpeed) // fails only for an invalid level
	} else {
		c.w.Reset(&c.out)
	}
	// Writing to a bytes.Buffer does not fail.
	_, _ = c.w.Write(raw)
	_ = c.w.Flush()
	data := append(newBuffer(c.out.Len()+zippedEndLen+tail), c.out.Bytes()...)
	return &zipped{data: data, crc: crc32.ChecksumIEEE(raw), size: len(raw)}
}

// zippedEndLen is the number of bytes that appendEnd appends in addition to the tail.
const zippedEndLen = 5 + 8

// appendEnd appends the rest of a gzip file: the tail as a stored block, the checksum, and the
// size. The tail must be shorter than 64 KB.
func (z *zipped) appendEnd(dst, tail []byte) []byte {
	n := uint16(len(tail))
	dst = append(dst, 1)
	dst = binary.LittleEndian.AppendUint16(dst, n)
	dst = binary.LittleEndian.AppendUint16(dst, ^n)
	dst = append(dst, tail...)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(z.crc, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(dst, uint32(z.size+len(tail)))
}

// raw returns the uncompressed batch.
func (z *zipped) raw() []byte {
	stream := append(bytes.Clone(z.data[len(gzipHeader):]), 1, 0, 0, 0xff, 0xff) // an empty last block
	raw := make([]byte, z.size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(stream)), raw); err != nil {
		panic(fmt.Sprintf("analytics: a batch in memory no longer decompresses: %v", err))
	}
	return raw
}
