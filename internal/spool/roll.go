package spool

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	// busyTime is the time within which a log must fill a segment to count as busy. A busy log
	// maps the files of its next segments.
	busyTime = time.Second
	// maxMapped is the maximum number of mapped files.
	maxMapped = 64
	// maxSpare is the maximum total size of spare files, which are mapped files for new
	// segments, in bytes. Spare files may also use at most a quarter of the log. The calls of a
	// batch are acknowledged together, so several segments finish at the same time. Spare files
	// are worthwhile, because creating a file takes as long as all other work for its records.
	maxSpare = 16 << 20
	// maxWaste limits the unused part of a segment that stays open, to 1/maxWaste of its size.
	maxWaste = 64
)

// roll starts a new active segment that has room for n bytes of records. The caller holds mu and the
// file. mu is unlocked during I/O.
func (l *Log) roll(n int64, now time.Time) error {
	busy := now.Sub(l.rolled) < busyTime
	l.rolled = now
	if l.canStayOpen() {
		l.retire(l.active)
	} else {
		l.sealActive()
	}
	need := newSegment(n)
	spare := l.takeSpare(need)
	if spare == nil && !l.makeRoom(need) {
		return ErrFull
	}
	var size int64  // number of bytes to map
	var taken int64 // bytes reserved until the file exists
	if spare != nil {
		taken, size = spare.size, spare.size
	} else {
		if free := l.room.records - l.room.used; busy && free >= l.segmentSize() {
			size = min(max(l.limit(), need), free)
		}
		taken = max(size, need)
		l.room.used += taken
	}
	l.number++
	l.ordinal++
	fresh := &segment{
		number: l.number, generation: uint32(l.number), base: Position(l.ordinal) << positionBits, size: int64(headLen),
	}
	l.mu.Unlock()
	file, err := l.create(fresh, spare, size)
	l.mu.Lock()
	l.room.used -= taken
	if err != nil {
		return err
	}
	fresh.file, fresh.space, fresh.mapped = file, max(file.size, need), int64(len(file.mapped))
	l.active = fresh
	l.segments = append(l.segments, fresh)
	l.room.used += fresh.space
	return nil
}

// takeSpare returns a spare file of at least the given size, or nil. The caller holds mu.
func (l *Log) takeSpare(size int64) *segmentFile {
	n := len(l.spares)
	if n == 0 || l.spares[n-1].size < size {
		return nil
	}
	spare := l.spares[n-1]
	l.spares = l.spares[:n-1]
	l.room.spare -= spare.size
	return spare
}

// makeRoom removes spare files until a segment of the given size fits. It reports false if the
// segment still does not fit. The caller holds mu, which is unlocked during I/O.
func (l *Log) makeRoom(size int64) bool {
	for l.room.used+size > l.room.records {
		spare := l.takeSpare(0)
		if spare == nil {
			return false
		}
		l.mu.Unlock()
		_ = spare.drop()
		l.mu.Lock()
		l.room.used -= spare.size
	}
	return true
}

// canStayOpen reports whether the active segment can be left unsealed, because it is full and
// mapped, and its file will probably be reused soon. The caller holds mu.
func (l *Log) canStayOpen() bool {
	g := l.active
	return l.writable() && g.mapped > 0 && g.space-g.size <= g.space/maxWaste &&
		l.cursor.segment == nil && l.mapped.Load() <= maxMapped
}

// sealActive seals the active segment, if there is one. It appends a record with the totals, so
// that the next process does not need to read the segment. The caller holds mu and the file. mu is
// unlocked during I/O.
func (l *Log) sealActive() {
	g := l.active
	if !l.writable() {
		return
	}
	acks := l.takeAcks(g, 0)
	l.out = g.appendAcks(l.out[:0], acks)
	l.reserve(g, int64(len(l.out)))
	l.out = appendEnds(l.out, g.generation, 0, tally{0, g.records, g.saved})
	l.mu.Unlock()
	size := g.size
	failed := g.file.write(l.out, size)
	if failed == nil {
		size += int64(len(l.out))
	}
	// Unmap before truncating, because truncating a mapped file takes 20 times as long.
	err := errors.Join(failed, g.file.unmap(), g.file.Truncate(size), g.closeFile())
	l.mu.Lock()
	g.size = size
	if failed != nil {
		g.restoreAcks(acks)
	}
	if err != nil {
		l.warnLater(NotSealed, err)
	} else {
		l.room.used -= g.space - g.size - endsLen
		g.space = g.size + endsLen
	}
	l.retire(g)
}

// create returns the file for a new segment, which is a renamed spare file or a new file. If size
// is not zero and the system supports it, create maps the file. If the directory was removed,
// create creates and locks it again.
func (l *Log) create(g *segment, spare *segmentFile, size int64) (*segmentFile, error) {
	if !sameFile(l.lock, filepath.Join(l.dir, lockName)) {
		lock, err := lockDir(l.dir)
		if err != nil {
			return nil, errors.Join(err, spare.drop())
		}
		_ = l.lock.Close()
		l.lock = lock
	}
	if spare != nil {
		if l.rename(spare, g) == nil {
			return spare, nil
		}
		_ = spare.drop()
	}
	if size > 0 && !l.opts.Sync && !l.unmapped.Load() {
		if file, err := l.createFile(g, size); err == nil {
			return file, nil
		}
	}
	return l.createFile(g, 0)
}

// rename renames a spare file to the name of segment g. It writes the head first, because the file
// contains records of a previous generation.
func (l *Log) rename(spare *segmentFile, g *segment) error {
	if err := spare.write(l.head(g, true), 0); err != nil {
		return err
	}
	return spare.rename(l.path(g))
}

// createFile creates the file of a segment and maps the given number of bytes.
func (l *Log) createFile(g *segment, mapped int64) (*segmentFile, error) {
	f, err := os.OpenFile(l.path(g), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	file := &segmentFile{File: f, path: l.path(g), size: int64(headLen), count: &l.mapped}
	err = file.write(l.head(g, mapped > 0), 0)
	if err == nil && mapped > 0 {
		err = file.mapFirst(mapped)
		l.noteMapping(err)
	}
	if err == nil && l.opts.Sync {
		err = syncDir(l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.drop())
	}
	return file, nil
}

// noteMapping disables mapping if err shows that the file system does not support it.
func (l *Log) noteMapping(err error) {
	if errors.Is(err, errMapping) {
		l.unmapped.Store(true)
	}
}

// head returns the first record of a segment's file. padded means that the file may contain other
// bytes after the last record.
func (l *Log) head(g *segment, padded bool) []byte {
	r := record{kind: kindHead, generation: g.generation, body: l.headBody()}
	if padded {
		r.index = 1
	}
	return appendRecord(nil, r)
}

func (l *Log) headBody() []byte { return append([]byte{formatVersion}, l.opts.Source[:]...) }
