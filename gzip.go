package analytics

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// zipped is a compressed batch without its tail: a gzip header and a deflate stream
// that is flushed to the boundary of a byte and not ended. Each attempt ends it with a
// stored block for its tail. So the batch is compressed once, and each attempt has its
// own time.
type zipped struct {
	data []byte
	crc  uint32 // of the bytes before compression
	size int    // their number
}

var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// compressor has the buffers of compression. It is not safe for concurrent use.
type compressor struct {
	out bytes.Buffer
	w   *flate.Writer
}

// compress returns raw in compressed form, with room for a tail. The result shares no
// memory with the compressor.
func (c *compressor) compress(raw []byte, tail int) *zipped {
	c.out.Reset()
	c.out.Write(gzipHeader)
	if c.w == nil {
		c.w, _ = flate.NewWriter(&c.out, flate.BestSpeed) // fails only for a wrong level
	} else {
		c.w.Reset(&c.out)
	}
	// A bytes.Buffer does not fail.
	_, _ = c.w.Write(raw)
	_ = c.w.Flush()
	data := append(newBuffer(c.out.Len()+zippedEndLen+tail), c.out.Bytes()...)
	return &zipped{data: data, crc: crc32.ChecksumIEEE(raw), size: len(raw)}
}

// zippedEndLen is what appendEnd adds besides the tail.
const zippedEndLen = 5 + 8

// appendEnd appends the end of the stream: tail, which is shorter than 64 KB, as the
// last stored block, and the checksum and the size of the whole.
func (z *zipped) appendEnd(dst, tail []byte) []byte {
	n := uint16(len(tail))
	dst = append(dst, 1)
	dst = binary.LittleEndian.AppendUint16(dst, n)
	dst = binary.LittleEndian.AppendUint16(dst, ^n)
	dst = append(dst, tail...)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(z.crc, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(dst, uint32(z.size+len(tail)))
}

// raw returns the batch before compression.
func (z *zipped) raw() []byte {
	stream := append(bytes.Clone(z.data[len(gzipHeader):]), 1, 0, 0, 0xff, 0xff) // an empty last block
	raw := make([]byte, z.size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(stream)), raw); err != nil {
		panic(fmt.Sprintf("analytics: a batch in memory no longer decompresses: %v", err))
	}
	return raw
}
