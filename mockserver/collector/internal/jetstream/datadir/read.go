package datadir

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// ReadHeaders calls handle with each message of a span of a stream, in order and without the bodies. The
// server may be running. ReadHeaders stops at a message that is missing or corrupt, and if handle
// returns an error. It returns the number of the first message that was not handled, and the error of
// handle.
func (f *Files) ReadHeaders(stream string, span record.Span, handle func(*jetstream.RawStreamMsg) error) (next uint64, err error) {
	dir := filepath.Join(f.StreamsDir(), stream)
	next = span.First
	r := newBlockReader()
	for _, block := range blocksFrom(dir, span.First) {
		file, openErr := os.Open(blockFile(dir, block))
		if openErr != nil {
			return next, nil // the server has removed the block
		}
		r.Reset(file)
		_, _, whole := readRecords(r, newBlockHash(stream, block), func(data []byte) bool {
			switch seq := binary.LittleEndian.Uint64(data[4:]); {
			case seq&recordDeleted != 0 || seq < span.First:
				return true
			case seq != next || seq > span.Last:
				return false
			}
			m := headersOf(data)
			if m == nil {
				return false
			}
			if err = handle(m); err == nil {
				next++
			}
			return err == nil
		})
		_ = file.Close()
		if !whole {
			return next, err
		}
	}
	return next, nil
}

// headersOf returns the message of a valid record without its body, or nil if the headers cannot be
// parsed.
func headersOf(data []byte) *jetstream.RawStreamMsg {
	subject := recordHead + int(binary.LittleEndian.Uint16(data[20:]))
	m := &jetstream.RawStreamMsg{
		Subject: string(data[recordHead:subject]), Sequence: binary.LittleEndian.Uint64(data[4:]),
		Time: time.Unix(0, int64(binary.LittleEndian.Uint64(data[12:]))).UTC(),
	}
	if binary.LittleEndian.Uint32(data)&recordHeaders != 0 {
		size := int(binary.LittleEndian.Uint32(data[subject:]))
		var err error
		if m.Header, err = nats.DecodeHeadersMsg(data[subject+4 : subject+4+size]); err != nil {
			return nil
		}
	}
	return m
}

// blocksFrom returns the numbers of the blocks that contain a message and the messages after it, in order.
func blocksFrom(dir string, first uint64) []int {
	blocks, _ := BlocksOf(dir)
	for i, block := range slices.Backward(blocks) {
		if firstOf(dir, block) <= first {
			return blocks[i:]
		}
	}
	return blocks
}

// firstOf returns the sequence number of a block's first record, or the largest number if it
// cannot be read.
func firstOf(dir string, block int) uint64 {
	var head [recordHead]byte
	file, err := os.Open(blockFile(dir, block))
	if err == nil {
		_, err = io.ReadFull(file, head[:])
		_ = file.Close()
	}
	if err != nil {
		return math.MaxUint64
	}
	return binary.LittleEndian.Uint64(head[4:])
}
