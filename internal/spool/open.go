package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 62) // 62 bits, so that later numbers do not overflow
	return number, err == nil && segmentName(number) == name
}

// Recovered describes the content of a directory.
type Recovered struct {
	Records int64    // number of unacknowledged records
	Last    Position // position of the last record; zero if there are no records
	Foreign int      // number of segments of another source; they are kept
	Strange []error  // errors for files that have the name of a segment but cannot be read completely; they are kept
}

// Open locks a directory and counts the records in it. It creates the directory if it does not
// exist. It does not read sealed segments. If there are unacknowledged records, Read starts with
// the oldest of them.
func Open(dir string, opts Options) (*Log, Recovered, error) {
	dir, err := filepath.Abs(dir) // an absolute path, because the program may change its working directory
	if err != nil {
		return nil, Recovered{}, err
	}
	l := &Log{
		opts: opts,
		dir:  dir,
		mu:   opts.Mutex,
		idle: sync.Cond{L: opts.Mutex},
		room: roomOf(opts.MaxBytes),
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	if l.lock, err = lockDir(dir); err != nil {
		return nil, Recovered{}, err
	}
	found, err := l.scan()
	if err != nil {
		_ = l.lock.Close()
		return nil, Recovered{}, err
	}
	if len(l.segments) > 0 {
		l.cursor.segment = l.segments[0]
	}
	go l.maintain()
	return l, found, nil
}

// roomOf returns the limits for an empty log. It reserves a part of maxBytes for acknowledgements.
func roomOf(maxBytes int64) room {
	m := maxBytes - int64(len(lockText()))
	return room{max: m, records: m - maxBytes/128}
}

// Close writes acknowledgements if there is room, removes finished files, and unlocks the
// directory. Before Close, the caller must call Stop and wait until Busy returns false. After
// Close, the caller may call only Usage.
func (l *Log) Close() {
	close(l.stop)
	<-l.done
	l.removeFinished() // frees space for acknowledgements
	l.saveAcks()
	l.mu.Lock()
	l.lockFile()
	l.sealActive()
	l.unlockFile()
	l.warn()
	l.mu.Unlock()
	l.removeFinished()
	l.mu.Lock()
	spares := l.spares
	l.spares, l.room.spare = nil, 0
	l.mu.Unlock()
	for _, spare := range spares {
		_ = spare.drop()
		l.mu.Lock()
		l.room.used -= spare.size
		l.mu.Unlock()
	}
	for _, g := range l.segments {
		if g.file != nil {
			_ = g.closeFile()
		}
	}
	_ = l.lock.Close()
}

// scan finds the segments in the directory. It ignores other files.
func (l *Log) scan() (found Recovered, err error) {
	entries, err := os.ReadDir(l.dir) // sorted by name, so the oldest segment is first
	if err != nil {
		return found, err
	}
	var open []*segment
	for _, entry := range entries {
		number, ok := segmentNumber(entry.Name())
		if !ok {
			if strings.HasSuffix(entry.Name(), spareSuffix) && entry.Type().IsRegular() {
				_ = os.Remove(filepath.Join(l.dir, entry.Name()))
			}
			continue
		}
		g := &segment{number: number, generation: uint32(number), sealed: true, old: true}
		l.number = max(l.number, number)
		ours, sealed, err := l.inspect(g)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found.Strange = append(found.Strange, err)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err != nil && !errors.Is(err, errTooLong):
			continue
		case !ours:
			found.Foreign++
			continue
		}
		l.recovered(g, &found)
		if !sealed && g.ended < g.records {
			open = append(open, g)
		}
	}
	for _, g := range open {
		l.sealOld(g)
	}
	return found, nil
}

// recovered adds a segment of a previous process to the log and to found.
func (l *Log) recovered(g *segment, found *Recovered) {
	g.space = g.size + endsLen
	l.room.used += g.space
	if g.ended == g.records {
		l.removeLater(g)
		return
	}
	l.ordinal++
	g.base = Position(l.ordinal) << positionBits
	l.segments = append(l.segments, g)
	l.last = g.base + Position(g.records-1)
	found.Records += int64(g.records - g.ended)
	found.Last = l.last
}

// errTooLong is the error for a file that is longer than any segment. Its first bytes are still
// read.
var errTooLong = errors.New("longer than any segment")

// inspect reads the counts of a segment. It reports whether the segment belongs to this source,
// and whether it is sealed.
func (l *Log) inspect(g *segment) (ours, sealed bool, err error) {
	f, info, err := openRegular(l.path(g), os.O_RDWR)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	g.size = min(info.Size(), maxFile)
	head := make([]byte, min(int64(headLen), g.size))
	if _, err = f.ReadAt(head, 0); err != nil {
		return false, false, err
	}
	// If the head is corrupted, assume that the file belongs to this source.
	if r, size := readRecord(head); size > 0 {
		if r.kind == kindHead && len(r.body) > 0 && r.body[0] != formatVersion {
			return false, false, fmt.Errorf("%s was written in format %d, and this version reads %d: to send its calls, use the version that wrote it", l.path(g), r.body[0], formatVersion)
		}
		if r.kind != kindHead || string(r.body) != string(l.headBody()) {
			return false, false, nil
		}
		g.generation = r.generation
	}
	if tail := make([]byte, endsLen); g.size >= endsLen && g.size == info.Size() {
		if _, err = f.ReadAt(tail, g.size-endsLen); err != nil {
			return false, false, err
		}
		if r, size := readRecord(tail); size > 0 && r.generation == g.generation {
			if t, ok := r.tally(); ok {
				g.records, g.ended, g.saved = t.records, t.ended, t.ended
				return true, true, nil
			}
		}
	}
	if err = l.count(g, f); err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s is %d bytes long, %w", l.path(g), info.Size(), errTooLong)
	}
	return true, false, err
}

// count counts the records of a segment that is not sealed. It reads the whole segment.
func (l *Log) count(g *segment, f *os.File) error {
	data := make([]byte, g.size)
	if _, err := f.ReadAt(data, 0); err != nil && g.size > 0 {
		return err
	}
	c := readContents(data, g.generation, nil)
	c.checkEnd(data, g.generation)
	records, missing := c.left(span{0, c.upTo})
	g.records = c.upTo
	g.ended = g.records - uint32(len(records))
	for _, m := range missing {
		g.ended -= m.len()
	}
	g.saved = g.ended
	// Remove the bytes after the records. They belong to another generation or program.
	if (c.corrupted == 0 || len(data) == maxFile) && f.Truncate(int64(c.end)) == nil {
		g.size = int64(c.end)
	}
	return nil
}

// sealOld seals a segment of a previous process. If it cannot, the next process counts the records
// again.
func (l *Log) sealOld(g *segment) {
	if l.room.used+endsLen > l.room.max {
		return
	}
	f, _, err := openRegular(l.path(g), os.O_WRONLY)
	if err != nil {
		return
	}
	defer f.Close()
	if _, err = f.WriteAt(appendEnds(nil, g.generation, 0, tally{0, g.records, g.ended}), g.size); err == nil {
		l.reserve(g, endsLen)
		g.size += endsLen
	}
}
