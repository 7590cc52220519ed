package datadir

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// The server mends a block that it cannot read by cutting off the rest of it, and
// one whose numbers are damaged may keep it busy for ever. So what is stored is
// checked before the server sees it, as the server itself would: against the
// checksum of each record. The version of the server is pinned; the tests hold
// this file against it.
//
// A record is
//
//	uint32  length, with the highest bit set if there are headers
//	uint64  number, where the highest bits mark what was deleted
//	int64   time
//	uint16  length of the subject
//	        subject
//	uint32  length of the headers, if there are any
//	        headers, message
//	uint64  HighwayHash of number, time, subject, headers and message
const (
	recordHead     = 22
	recordHash     = highwayhash.Size64
	recordHeaders  = 1 << 31
	recordMost     = 32 << 20
	recordDeleted  = 3 << 62
	checkAfterStop = 256 << 20
)

// A Damage is bytes of a file that are not what was stored.
type Damage struct {
	Stream string
	file   string
	from   int
	to     int
	After  uint64 // the highest number of the stream's messages before it
	torn   bool   // it may be the end of what was written when the process ended
	What   string // where no bytes can be named
}

func (d Damage) String() string {
	if d.What != "" {
		return fmt.Sprintf("%s (%s) %s", d.file, d.Stream, d.What)
	}
	return fmt.Sprintf("bytes %d to %d of %s (%s) cannot be read", d.from, d.to, d.file, d.Stream)
}

// Files are those of a data directory, as the server that is pinned writes them.
type Files struct {
	Path       string
	Interval   time.Duration // how often the server brings what was written to the disk; 0: before every answer
	Log        *slog.Logger
	Configs    []jetstream.StreamConfig // of all streams
	Volatile   []string                 // the streams that are not brought to the disk with each message
	Remade     string                   // the one of them that is made again from others
	Advice     string                   // what to do about damage
	AcceptLoss bool
}

// refuse is the error for damage without which the journal may not go on.
func (f *Files) refuse(found []Damage) error {
	texts := make([]string, len(found))
	for i, d := range found {
		texts[i] = d.String()
	}
	return record.Damaged("%s. %s", strings.Join(texts, "; "), f.Advice)
}

func (f *Files) StreamsDir() string {
	return filepath.Join(f.Path, storeDir, "$G", "streams")
}

// Check checks the files of all streams, and returns ErrDamaged if there is damage that
// mayLose does not accept. It removes damage where it may. sizes are those of the files
// where the journal was closed.
func (f *Files) Check(m Marker, sizes map[string]int64, clean bool, mayLose func(Damage) bool) error {
	streams, err := f.StreamDirs()
	if err != nil {
		return err
	}
	if !clean {
		streams = slices.DeleteFunc(streams, func(s string) bool { return filepath.Base(s) == f.Remade })
	}
	found := make([][]Damage, len(streams))
	errs := make([]error, len(streams))
	var checks sync.WaitGroup
	for i, stream := range streams {
		checks.Go(func() { found[i], errs[i] = checkStream(stream, clean) })
	}
	checks.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: checking what is stored: %w", err)
	}
	refused := slices.DeleteFunc(slices.Concat(f.checkDescriptions(m), f.checkSizes(sizes)), mayLose)
	for i, stream := range streams {
		hard := acknowledged(found[i])
		if slices.ContainsFunc(hard, func(d Damage) bool { return !mayLose(d) }) {
			refused = append(refused, hard...)
			continue
		}
		if err := f.cut(stream, found[i]); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return f.refuse(refused)
	}
	if !clean {
		if err := f.emptyRemade(); err != nil {
			return fmt.Errorf("journal: emptying RETRY: %w", err)
		}
		if err := f.RewriteUnproved(); err != nil {
			return err
		}
	}
	if err := f.removeUnchecked(); err != nil {
		return fmt.Errorf("journal: removing what has no checksum: %w", err)
	}
	return removeClean(f.Path)
}

// removeUnchecked removes the files in which the server remembers what it also finds
// in the messages, and which have no checksum: one flipped bit, and a retry would
// never be due.
func (f *Files) removeUnchecked() error {
	for _, name := range []string{"sched.db", "thw.db"} {
		files, _ := filepath.Glob(filepath.Join(f.StreamsDir(), "*", "msgs", name))
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// acknowledged returns the damage that is not the end of what was being written.
func acknowledged(found []Damage) []Damage {
	return slices.DeleteFunc(slices.Clone(found), func(d Damage) bool { return d.torn })
}

// cut takes damage out of a stream that may lose it, and says so.
func (f *Files) cut(stream string, found []Damage) error {
	if hard := acknowledged(found); len(hard) > 0 {
		f.Log.Error("the store is damaged; the journal goes on without what cannot be read", "damage", hard)
	} else if len(found) > 0 {
		f.Log.Warn("what was being written is cut off: it was never acknowledged", "damage", found)
	}
	if err := cutDamage(f.Path, stream, found); err != nil {
		return fmt.Errorf("journal: removing damage: %w", err)
	}
	return nil
}

// emptyRemade removes what RETRY holds. It is not brought to the disk with each
// message, so that after a power cut what the server finds there may contradict
// itself: an index of messages that are not there, or schedules of other ones.
// All of it is made again from OUTCOMES.
func (f *Files) emptyRemade() error {
	return os.RemoveAll(filepath.Join(f.StreamsDir(), f.Remade, "msgs"))
}

// IsVolatile reports whether a stream may lose messages: it is not brought to the disk
// with each of them.
func (f *Files) IsVolatile(stream string) bool {
	return slices.Contains(f.Volatile, stream)
}

// checkDescriptions looks whether the server will know each stream that was created
// here, and writes a description anew where that is accepted: what it says is known.
func (f *Files) checkDescriptions(m Marker) (found []Damage) {
	for _, config := range f.Configs {
		dir := filepath.Join(f.StreamsDir(), config.Name)
		if !m.Ready || !slices.Contains(m.Streams, config.Name) || isDescribed(dir) {
			continue
		}
		d := Damage{Stream: config.Name, file: filepath.Join(dir, metaFile), What: "cannot be read"}
		if _, err := os.Stat(dir); err != nil {
			d.file, d.What = dir, "is missing" // it is created again where that is accepted
		} else if f.AcceptLoss {
			if err := describe(dir, config); err != nil {
				d.What = fmt.Sprintf("cannot be written anew: %v", err)
			}
		}
		found = append(found, d)
	}
	return found
}

// Files of the server that describe a stream.
const (
	metaFile = "meta.inf"
	metaSum  = "meta.sum"
)

// isDescribed reports whether the server can read the description of a stream.
func isDescribed(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, metaFile))
	sum, err2 := os.ReadFile(filepath.Join(dir, metaSum))
	return err == nil && err2 == nil && string(sum) == metaChecksum(dir, text)
}

// describe writes the description of a stream as the server does.
func describe(dir string, config jetstream.StreamConfig) error {
	var c server.StreamConfig
	text, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil {
		text, err = json.Marshal(server.FileStreamInfo{Created: time.Now().UTC(), StreamConfig: c})
	}
	if err == nil {
		err = writeDurably(filepath.Join(dir, metaFile), text)
	}
	if err != nil {
		return err
	}
	return writeDurably(filepath.Join(dir, metaSum), []byte(metaChecksum(dir, text)))
}

func metaChecksum(dir string, text []byte) string {
	h := newHash(filepath.Base(dir))
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// cleanFile is there after the journal was closed, and says how large each file of
// the streams is. Then there is no record that was being written, and only what was
// stored last is read.
const cleanFile = "journal.clean"

// WriteClean remembers that the journal was closed.
func (f *Files) WriteClean() error {
	sizes := map[string]int64{}
	blocks, _ := filepath.Glob(filepath.Join(f.StreamsDir(), "*", "msgs", "*.blk"))
	for _, file := range blocks {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		name, _ := filepath.Rel(f.StreamsDir(), file)
		sizes[filepath.ToSlash(name)] = info.Size()
	}
	text, _ := json.Marshal(sizes) // of strings and numbers: it cannot fail
	return writeDurably(filepath.Join(f.Path, cleanFile), Seal(text))
}

// ReadClean reports whether the journal was closed, and how large its files were
// then.
func ReadClean(dir string) (sizes map[string]int64, clean bool) {
	data, err := os.ReadFile(filepath.Join(dir, cleanFile))
	if err != nil {
		return nil, false
	}
	if len(data) == 0 {
		return nil, true // by a version that wrote nothing there
	}
	text, err := Unseal(data)
	return sizes, err == nil && json.Unmarshal(text, &sizes) == nil
}

// removeClean has a start find that the journal was not closed.
func removeClean(dir string) error {
	if err := os.Remove(filepath.Join(dir, cleanFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(dir)
}

// checkSizes finds blocks that are gone, or are not as long as they were when the
// journal was closed.
func (f *Files) checkSizes(sizes map[string]int64) (found []Damage) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		file := filepath.Join(f.StreamsDir(), filepath.FromSlash(name))
		stream, _, _ := strings.Cut(name, "/")
		info, err := os.Stat(file)
		switch {
		case f.IsVolatile(stream):
		case err != nil:
			found = append(found, Damage{Stream: stream, file: file, What: "is missing"})
		case info.Size() != sizes[name]:
			found = append(found, Damage{Stream: stream, file: file, What: fmt.Sprintf("has %d bytes instead of %d", info.Size(), sizes[name])})
		}
	}
	return found
}

// checkStream checks the blocks of a stream, newest first. After a clean stop it
// checks so many bytes only.
func checkStream(dir string, clean bool) ([]Damage, error) {
	blocks, err := BlocksOf(dir)
	if err != nil {
		return nil, err
	}
	var found []Damage
	checked := 0
	for i := len(blocks) - 1; i >= 0; i-- {
		if clean && checked > checkAfterStop {
			break
		}
		more, n, last, err := checkFile(dir, blocks[i], i == len(blocks)-1 && !clean)
		if err != nil {
			return nil, err
		}
		checked += n
		found = append(found, more...)
		for k := range found { // those of newer blocks are before
			if found[k].After == 0 && found[k].file != blockFile(dir, blocks[i]) {
				found[k].After = last
			}
		}
	}
	return found, nil
}

// checkFile checks a block, and returns how long it is and the highest number in it.
func checkFile(dir string, block int, mayEndTorn bool) (found []Damage, size int, last uint64, err error) {
	file := blockFile(dir, block)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, 0, err
	}
	found, last = findDamage(data, newBlockHash(filepath.Base(dir), block), mayEndTorn)
	for i := range found {
		found[i].Stream, found[i].file = filepath.Base(dir), file
	}
	return found, len(data), last, nil
}

// findDamage returns the damage of a block and the highest number in it. The last one
// of a stream may end with what was being written, if the process did not end in good
// order.
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

// isTorn reports whether what cannot be read is the beginning of what was being
// written: a message, which is then the last one, or the marks of some that were
// deleted. A disk writes whole sectors; of such a write some are missing, and zero, or
// the file ends before. Where all of it is there, it was acknowledged, and changed
// since.
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
	// Of a whole record the length may have changed, which its hash does not cover.
	whole := slices.Clone(data)
	for _, headers := range []uint32{0, recordHeaders} {
		binary.LittleEndian.PutUint32(whole, uint32(len(data))|headers)
		if recordAt(whole, h) > 0 {
			return false
		}
	}
	return true
}

// BlocksOf returns the numbers of a stream's blocks, in their order.
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

// newHash returns the server's checksum, whose key is made of a name.
func newHash(name string) hash.Hash64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	return h
}

// checkBlock returns what is no record in a block, and the highest number of a
// record.
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

// plausible reports whether a record may begin here, without reading it.
func plausible(data []byte) bool {
	if len(data) < recordHead+recordHash {
		return false
	}
	at := int64(binary.LittleEndian.Uint64(data[12:]))
	seq := binary.LittleEndian.Uint64(data[4:]) &^ recordDeleted
	return seq>>48 == 0 && (at == 0 || at > int64(50*365*24*time.Hour)) && at < int64(200*365*24*time.Hour)
}

// recordAt returns how long the record is with which data begins, or 0 if it is
// none.
func recordAt(data []byte, h hash.Hash64) int {
	if len(data) < recordHead+recordHash {
		return 0
	}
	length := binary.LittleEndian.Uint32(data)
	n, subject := int(length&^recordHeaders), int(binary.LittleEndian.Uint16(data[20:]))
	if n > len(data) || n > recordMost || n < recordHead+subject+recordHash {
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

// areHeaders checks the length of the headers, which the hash does not cover.
func areHeaders(rest []byte) bool {
	n := int(binary.LittleEndian.Uint32(rest))
	if n > len(rest)-4 {
		return false
	}
	headers := rest[4 : 4+n]
	return bytes.HasPrefix(headers, []byte("NATS/1.0")) && bytes.HasSuffix(headers, []byte("\r\n\r\n"))
}

// cutDamage takes what is no record out of a stream's blocks, and has the server
// make its index again. The blocks as they were are kept beside.
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
