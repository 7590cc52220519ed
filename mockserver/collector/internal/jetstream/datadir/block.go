package datadir

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// The server truncates a block at the first record that it cannot read. Corrupt numbers may keep the
// server busy forever. Blocks are therefore checked before the server reads them, using the checksum
// of each record. The version of the server is pinned, and a test compares this code with it.
//
// A record consists of
//
//	uint32  length; the highest bit is set if there are headers
//	uint64  sequence number; the highest bits mark deleted messages
//	int64   time
//	uint16  length of the subject
//	        subject
//	uint32  length of the headers, if there are any
//	        headers, message
//	uint64  HighwayHash of number, time, subject, headers and message
const (
	recordHead    = 22
	recordHash    = highwayhash.Size64
	recordHeaders = 1 << 31
	maxRecord     = 32 << 20
	recordDeleted = 3 << 62
	maxCleanCheck = 256 << 20
)

// A Damage is a range of corrupt bytes in a file.
type Damage struct {
	Stream string
	file   string
	from   int
	to     int
	After  uint64 // highest sequence number of the stream before the damage
	torn   bool   // whether it is probably an incomplete write at the end of the process
	What   string // description of damage without a byte range
}

// String returns a description that includes the file and the byte range.
func (d Damage) String() string {
	if d.What != "" {
		return fmt.Sprintf("%s (%s) %s", d.file, d.Stream, d.What)
	}
	return fmt.Sprintf("bytes %d to %d of %s (%s) cannot be read", d.from, d.to, d.file, d.Stream)
}

// acknowledged returns the damage that affects acknowledged messages. It omits incomplete writes.
func acknowledged(found []Damage) []Damage {
	return slices.DeleteFunc(slices.Clone(found), func(d Damage) bool { return d.torn })
}

// newBlockReader returns a reader for readRecords. Its buffer has room for most records, and fits into
// the cache of the processor.
func newBlockReader() *bufio.Reader { return bufio.NewReaderSize(nil, 128<<10) }

// checkFile checks a block, and returns its damage, size and highest sequence number. It reads the
// block through r.
func checkFile(dir string, block int, mayEndTorn bool, r *bufio.Reader) (found []Damage, size int, last uint64, err error) {
	f, err := os.Open(blockFile(dir, block))
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	return checkOpen(f, dir, block, mayEndTorn, r)
}

// checkOpen is like checkFile, but the file of the block is open. It reads the whole block into memory
// only if the block is damaged.
func checkOpen(f *os.File, dir string, block int, mayEndTorn bool, r *bufio.Reader) (found []Damage, size int, last uint64, err error) {
	h := newBlockHash(filepath.Base(dir), block)
	r.Reset(f)
	if size, last, whole := readRecords(r, h, func([]byte) bool { return true }); whole {
		return nil, size, last, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, 0, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, 0, err
	}
	found, last = findDamage(data, h, mayEndTorn)
	for i := range found {
		found[i].Stream, found[i].file = filepath.Base(dir), f.Name()
	}
	return found, len(data), last, nil
}

// readRecords reads a block, and returns its size and highest sequence number. It yields each valid
// record, until yield returns false. whole is true if yield never returned false, the block could be
// read, and it contains only valid records.
func readRecords(r *bufio.Reader, h hash.Hash64, yield func(data []byte) bool) (size int, highest uint64, whole bool) {
	for {
		head, err := r.Peek(recordHead)
		if len(head) < recordHead {
			return size, highest, err == io.EOF && len(head) == 0
		}
		n := int(binary.LittleEndian.Uint32(head) &^ recordHeaders)
		if n > maxRecord {
			return size, highest, false
		}
		if n > r.Size() {
			r = bufio.NewReaderSize(r, max(n, 2*r.Size()))
		}
		data, _ := r.Peek(n) // recordAt fails if data is incomplete
		if recordAt(data, h) == 0 || !yield(data) {
			return size, highest, false
		}
		highest = max(highest, binary.LittleEndian.Uint64(data[4:])&^recordDeleted)
		_, _ = r.Discard(n)
		size += n
	}
}

// findDamage returns the damage of a block and its highest sequence number. If mayEndTorn is true, the
// block may end with an incomplete write: it is the last block of a stream, and the process was not
// stopped properly.
func findDamage(data []byte, h hash.Hash64, mayEndTorn bool) (found []Damage, highest uint64) {
	found, highest = checkBlock(data, h)
	if n := len(found); n > 0 && mayEndTorn {
		last := &found[n-1]
		last.torn = isTorn(data, last.from, last.to, h)
	}
	return found, highest
}

func blockFile(dir string, block int) string {
	return filepath.Join(dir, "msgs", fmt.Sprintf("%d.blk", block))
}

// isTorn reports whether unreadable bytes are an incomplete write. It must be the write of a message
// at the end of the block, or of deletion marks. Disks write whole sectors, so an incomplete write
// lacks some sectors: they contain zeros, or the file ends early. A complete record was acknowledged,
// so it has changed afterwards if it is unreadable.
func isTorn(data []byte, from, to int, h hash.Hash64) bool {
	const sector = 512
	for at := to; at < len(data); {
		n := recordAt(data[at:], h)
		if n == 0 || binary.LittleEndian.Uint64(data[at+4:])&recordDeleted == 0 {
			return false
		}
		at += n
	}
	for at := from; at < to; {
		end := min(at-at%sector+sector, to)
		if len(bytes.Trim(data[at:end], "\x00")) == 0 {
			return true
		}
		at = end
	}
	return to == len(data) && endsEarly(data[from:], h)
}

// endsEarly reports whether data is the beginning of a record.
func endsEarly(data []byte, h hash.Hash64) bool {
	if len(data) < recordHead+recordHash {
		return true
	}
	length := binary.LittleEndian.Uint32(data)
	if int(length&^recordHeaders) <= len(data) {
		return false
	}
	// The record may be complete except for its length, which the hash does not cover.
	whole := slices.Clone(data)
	for _, headers := range []uint32{0, recordHeaders} {
		binary.LittleEndian.PutUint32(whole, uint32(len(data))|headers)
		if recordAt(whole, h) > 0 {
			return false
		}
	}
	return true
}

// BlocksOf returns the numbers of a stream's blocks in order.
func BlocksOf(dir string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "msgs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var blocks []int
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".blk"); ok {
			if n, err := strconv.Atoi(name); err == nil {
				blocks = append(blocks, n)
			}
		}
	}
	slices.Sort(blocks)
	return blocks, nil
}

func newBlockHash(stream string, block int) hash.Hash64 {
	return newHash(fmt.Sprintf("%s-%d", stream, block))
}

// newHash returns the hash function of the server. Its key is derived from a name.
func newHash(name string) hash.Hash64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key always has the required length
	}
	return h
}

// checkBlock returns the bytes of a block that do not belong to valid records, and the highest
// sequence number.
func checkBlock(data []byte, h hash.Hash64) (found []Damage, highest uint64) {
	for at := 0; at < len(data); {
		if n := recordAt(data[at:], h); n > 0 {
			highest = max(highest, binary.LittleEndian.Uint64(data[at+4:])&^recordDeleted)
			at += n
			continue
		}
		d := Damage{from: at, After: highest}
		for at++; at < len(data) && (!plausible(data[at:]) || recordAt(data[at:], h) == 0); at++ {
		}
		d.to = at
		found = append(found, d)
	}
	return found, highest
}

// plausible reports whether data may start with a record. It does not compute the hash.
func plausible(data []byte) bool {
	if len(data) < recordHead+recordHash {
		return false
	}
	at := int64(binary.LittleEndian.Uint64(data[12:]))
	seq := binary.LittleEndian.Uint64(data[4:]) &^ recordDeleted
	return seq>>48 == 0 && (at == 0 || at > int64(50*365*24*time.Hour)) && at < int64(200*365*24*time.Hour)
}

// recordAt returns the length of the record at the start of data, or 0 if data does not start with a
// record.
func recordAt(data []byte, h hash.Hash64) int {
	if len(data) < recordHead+recordHash {
		return 0
	}
	length := binary.LittleEndian.Uint32(data)
	n, subject := int(length&^recordHeaders), int(binary.LittleEndian.Uint16(data[20:]))
	if n > len(data) || n > maxRecord || n < recordHead+subject+recordHash {
		return 0
	}
	rest := data[recordHead+subject : n-recordHash]
	h.Reset()
	_, _ = h.Write(data[4:20])
	_, _ = h.Write(data[recordHead : recordHead+subject])
	if length&recordHeaders != 0 {
		if len(rest) < 4 || !areHeaders(rest) {
			return 0
		}
		rest = rest[4:]
	}
	_, _ = h.Write(rest)
	var sum [recordHash]byte
	if !bytes.Equal(h.Sum(sum[:0]), data[n-recordHash:n]) {
		return 0
	}
	return n
}

// areHeaders checks the length of the headers, because the hash does not cover it.
func areHeaders(rest []byte) bool {
	n := int(binary.LittleEndian.Uint32(rest))
	if n > len(rest)-4 {
		return false
	}
	headers := rest[4 : 4+n]
	return bytes.HasPrefix(headers, []byte("NATS/1.0")) && bytes.HasSuffix(headers, []byte("\r\n\r\n"))
}

// cutDamage removes damage from the blocks of a stream, and makes the server rebuild its index. It
// keeps a copy of the original blocks.
func cutDamage(dir, stream string, found []Damage) error {
	if len(found) == 0 {
		return nil
	}
	kept := filepath.Join(dir, "damaged", time.Now().UTC().Format("20060102-150405.000"), filepath.Base(stream))
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	for len(found) > 0 {
		file := found[0].file
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := writeDurably(filepath.Join(kept, filepath.Base(file)), data); err != nil {
			return err
		}
		var good []byte
		from := 0
		for len(found) > 0 && found[0].file == file {
			good = append(good, data[from:found[0].from]...)
			from, found = found[0].to, found[1:]
		}
		if err := writeDurably(file, append(good, data[from:]...)); err != nil {
			return err
		}
	}
	return removeIndex(stream)
}

// removeIndex removes the server's index of a stream. The server rebuilds it from the blocks.
func removeIndex(stream string) error {
	return os.RemoveAll(filepath.Join(stream, "msgs", "index.db"))
}
