package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/highwayhash"
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

// cleanFile is there after the journal was closed. Then there is no record that
// was being written, and only what was stored last is checked.
const cleanFile = "journal.clean"

// A damage is bytes of a block that are no record.
type damage struct {
	stream string
	file   string
	from   int
	to     int
	torn   bool // it may be the end of what was written when the process ended
}

func (d damage) String() string {
	return fmt.Sprintf("bytes %d to %d of %s (%s)", d.from, d.to, d.file, d.stream)
}

// checkStore checks the blocks of all streams, and returns ErrDamaged if there is
// damage that may be loss. It removes damage where it may.
func (j *Journal) checkStore() error {
	dir := j.options.Dir
	_, err := os.Stat(filepath.Join(dir, cleanFile))
	clean := err == nil
	streams, _ := filepath.Glob(filepath.Join(dir, storeDir, "$G", "streams", "*"))
	if !clean {
		streams = slices.DeleteFunc(streams, func(s string) bool { return filepath.Base(s) == j.names.stream(streamRetry) })
	}
	found := make([][]damage, len(streams))
	errs := make([]error, len(streams))
	var checks sync.WaitGroup
	for i, stream := range streams {
		checks.Go(func() { found[i], errs[i] = checkStream(stream, clean) })
	}
	checks.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: checking what is stored: %w", err)
	}
	var refused []damage
	for i, stream := range streams {
		hard := slices.DeleteFunc(slices.Clone(found[i]), func(d damage) bool { return d.torn })
		may := j.mayLose(filepath.Base(stream))
		if len(hard) > 0 && !may {
			refused = append(refused, hard...)
			continue
		}
		if len(hard) > 0 {
			j.log.Error("the store is damaged; the journal goes on without what cannot be read", "damage", hard)
		}
		if err := cutDamage(dir, stream, found[i]); err != nil {
			return fmt.Errorf("journal: removing damage: %w", err)
		}
	}
	if len(refused) > 0 {
		return damaged("%v cannot be read. %s", refused, j.howToGoOn())
	}
	if !clean {
		if err := j.emptyRetry(); err != nil {
			return fmt.Errorf("journal: emptying RETRY: %w", err)
		}
	}
	return j.setClean(false)
}

// emptyRetry removes what RETRY holds. It is not brought to the disk with each
// message, so that after a power cut what the server finds there may contradict
// itself: an index of messages that are not there, or schedules of other ones.
// All of it is made again from OUTCOMES.
func (j *Journal) emptyRetry() error {
	return os.RemoveAll(filepath.Join(j.options.Dir, storeDir, "$G", "streams", j.names.stream(streamRetry), "msgs"))
}

// mayLose tells whether a stream may lose messages: those that are not brought to
// the disk with each of them, and all where that was asked for.
func (j *Journal) mayLose(stream string) bool {
	return j.lossIsAccepted() || stream == j.names.stream(streamRetry) || stream == j.names.stream(streamAttempts)
}

// setClean remembers whether the journal was closed.
func (j *Journal) setClean(clean bool) error {
	path := filepath.Join(j.options.Dir, cleanFile)
	if clean {
		return writeDurably(path, nil)
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(j.options.Dir)
}

// checkStream checks the blocks of a stream, newest first. After a clean stop it
// checks so many bytes only.
func checkStream(dir string, clean bool) ([]damage, error) {
	blocks, err := blocksOf(dir)
	if err != nil {
		return nil, err
	}
	var found []damage
	checked := 0
	for i := len(blocks) - 1; i >= 0; i-- {
		if clean && checked > checkAfterStop {
			break
		}
		file := filepath.Join(dir, "msgs", fmt.Sprintf("%d.blk", blocks[i]))
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		checked += len(data)
		for _, d := range checkBlock(data, newBlockHash(filepath.Base(dir), blocks[i])) {
			d.stream, d.file = filepath.Base(dir), file
			// A record that was being written, and that nobody was told of. The server
			// cuts it off.
			d.torn = d.to == len(data) && i == len(blocks)-1 && !clean
			found = append(found, d)
		}
	}
	return found, nil
}

// blocksOf returns the numbers of a stream's blocks, in their order.
func blocksOf(dir string) ([]int, error) {
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
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, block))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	return h
}

// checkBlock returns what is no record in a block.
func checkBlock(data []byte, h hash.Hash64) []damage {
	var found []damage
	for at := 0; at < len(data); {
		if n := record(data[at:], h); n > 0 {
			at += n
			continue
		}
		d := damage{from: at}
		for at++; at < len(data) && (!plausible(data[at:]) || record(data[at:], h) == 0); at++ {
		}
		d.to = at
		found = append(found, d)
	}
	return found
}

// plausible tells whether a record may begin here, without reading it.
func plausible(data []byte) bool {
	if len(data) < recordHead+recordHash {
		return false
	}
	at := int64(binary.LittleEndian.Uint64(data[12:]))
	seq := binary.LittleEndian.Uint64(data[4:]) &^ recordDeleted
	return seq>>48 == 0 && (at == 0 || at > int64(50*365*24*time.Hour)) && at < int64(200*365*24*time.Hour)
}

// record returns how long the record is with which data begins, or 0 if it is
// none.
func record(data []byte, h hash.Hash64) int {
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
func cutDamage(dir, stream string, found []damage) error {
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
	err := os.Remove(filepath.Join(stream, "msgs", "index.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
