package spool

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	// busyTime: the files of the next segments are mapped if a segment is full
	// within that time.
	busyTime = time.Second
	// maxMapped is the largest number of mapped files.
	maxMapped = 64
	// maxSpare is how many bytes of mapped files are kept for later segments, and a quarter
	// of what the log may take at most. The calls of a batch are acknowledged together, so
	// segments end in groups; to make files for the next ones takes as long as all else
	// that is done for their records.
	maxSpare = 16 << 20
	// maxWaste: a segment that stays open leaves at most this part of its file unused.
	maxWaste = 64
)

// roll ends the active segment and begins another, with room for n bytes of records. The
// caller holds writeMu and mu, which is unlocked during I/O.
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
	var size int64  // bytes to map
	var taken int64 // counted until the file exists
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

// takeSpare returns a spare of at least that size, or nil. The caller holds mu.
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

// makeRoom removes spares until a new segment of that size fits. It reports false if
// none is left. The caller holds mu, which is unlocked during I/O.
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

// canStayOpen reports whether the active segment is full and mapped, and its file
// likely to be used again soon. The caller holds mu.
func (l *Log) canStayOpen() bool {
	g := l.active
	return l.writable() && g.mapped > 0 && g.space-g.size <= g.space/maxWaste &&
		l.cursor.segment == nil && l.mapped.Load() <= maxMapped
}

// sealActive ends the active segment, if there is one, with a record of its
// totals, so that it can be opened without being read. The caller holds writeMu
// and mu, which is unlocked during I/O.
func (l *Log) sealActive() {
	g := l.active
	if !l.writable() {
		return
	}
	l.out = g.appendAcks(l.out[:0], l.takeAcks(g, 0))
	l.reserve(g, int64(len(l.out)))
	l.out = appendEnds(l.out, g.generation, 0, tally{0, g.records, g.saved})
	l.mu.Unlock()
	n := int64(len(l.out))
	err := errors.Join(g.file.write(l.out, g.size), g.file.unmap()) // to truncate a mapped file takes 20 times as long
	if err == nil {
		err = g.file.Truncate(g.size + n)
	}
	err = errors.Join(err, g.closeFile())
	l.mu.Lock()
	g.size += n
	if err != nil {
		l.warnLater(NotSealed, err)
	} else {
		l.room.used -= g.space - g.size - endsLen
		g.space = g.size + endsLen
	}
	l.retire(g)
}

// create makes the file of a new segment from a spare, or a new file, which is
// mapped if size is not zero and that is possible. If the directory was removed, it
// is made again and locked again.
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

// rename makes a spare the file of a segment. The head is written before the
// file has its name: the other records in it are of an earlier generation.
func (l *Log) rename(spare *segmentFile, g *segment) error {
	if err := spare.write(l.head(g, true), 0); err != nil {
		return err
	}
	return spare.rename(l.path(g))
}

// createFile makes a new file, with that many bytes mapped.
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

// noteMapping stops the mapping of files when err says that the file system cannot.
func (l *Log) noteMapping(err error) {
	if errors.Is(err, errMapping) {
		l.unmapped.Store(true)
	}
}

// head is the first record of a segment's file. Longer says that bytes after the
// last record have no meaning.
func (l *Log) head(g *segment, longer bool) []byte {
	r := record{kind: kindHead, generation: g.generation, body: l.headBody()}
	if longer {
		r.index = 1
	}
	return appendRecord(nil, r)
}

func (l *Log) headBody() []byte { return append([]byte{formatVersion}, l.opts.Source[:]...) }
