package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrFull is returned by Append when Options.MaxBytes leaves no room.
	ErrFull = errors.New("the spool is full")

	// ErrClosed is returned by Append after Stop.
	ErrClosed = errors.New("the spool is closed")
)

// Options configure a log.
type Options struct {
	// MaxBytes bounds the size of all files, except segments of another source. At
	// least 1 MiB.
	MaxBytes int64

	// Source is stored in each segment. Segments of another source are neither
	// read nor removed.
	Source [sourceLen]byte

	// Sync makes Append wait until the records are on the storage medium.
	Sync bool

	// Appended, if set, is called with records that were written, in order,
	// before Append returns. Calls do not overlap. The records are valid until it
	// returns. Now is what one of their callers passed to Append.
	Appended func(records []*Record, now time.Time)

	// Discarded, if set, is called with the bodies of the records that Discard
	// gave up, as far as they can be read, before their file is removed.
	Discarded func(bodies [][]byte)

	// Freed, if set, is called when there may be more room than before.
	Freed func()

	// Drained, if set, is called after Stop when the last Append ends.
	Drained func()

	// Warn, if set, is called when something failed that no caller is told of.
	Warn func(Problem, error)
}

// Problem is a kind of failure that Options.Warn reports.
type Problem int

const (
	// NotSaved: acknowledgements could not be written down. The next process may
	// read the records again.
	NotSaved Problem = iota
	// NotSealed: a segment could not be sealed. The next process counts its records.
	NotSealed
	// NotRemoved: a file could not be removed. The next process reads its records
	// again.
	NotRemoved
	// Vanished: a file was removed or truncated while records were written to it.
	// They are not on the disk any more.
	Vanished
)

// Position is the place of a record in the order of all. The zero Position is
// before all records.
type Position uint64

// positionBits is how many bits of a Position are the index within a segment.
const positionBits = 32

// Log is a log of records in a directory. Its methods may be called from several
// goroutines, except Read and Close.
type Log struct {
	opts Options
	dir  string
	signals
	mapping

	mu sync.Mutex // guards the fields of this group, and all segments
	intake
	files
	room     room
	last     Position  // of the newest record
	cursor   cursor    // where Read continues; its segment is nil if reading has ended
	unsaved  bool      // maintain knows of acknowledgements since it last wrote them down
	warnings []warning // for Options.Warn, when no mutex is in the way

	writeMu sync.Mutex // guards the writer, and the file of the active segment
	writer

	reads int // attempts of Read that failed in succession
}

// signals are the channels of maintain.
type signals struct {
	wake chan struct{} // capacity 1; sent to when maintain has work; never closed
	stop chan struct{} // closed by Close; maintain ends
	done chan struct{} // closed by maintain as it ends
}

// mapping says whether files are mapped, see segmentFile.
type mapping struct {
	mapped   atomic.Int32 // how many are
	unmapped atomic.Bool  // they cannot be
}

// intake is the records to be written.
type intake struct {
	queue   []*Record
	waiting atomic.Int64 // calls of Append that have not ended
	stopped atomic.Bool  // Append returns ErrClosed; set with mu held
	storing atomic.Bool  // the active segment is likely to be mapped, with room
}

// files are the files of a log.
type files struct {
	segments []*segment     // those with records that are not done, and the active one, oldest first
	active   *segment       // the last of segments, which is written to; nil before the first
	finished []*segment     // to be removed
	spares   []*segmentFile // files for later segments
	rolled   time.Time      // when active was begun
	ordinal  uint32         // of the newest segment
}

// room counts bytes. The count of a file increases before the file grows, and decreases
// after it has been truncated or removed.
type room struct {
	max     int64 // of all files but the lock
	records int64 // of all files while records are appended; the rest is for acknowledgements
	used    int64 // of all files but the lock, and for seals
	spare   int64 // of files for later segments
	freeing int64 // of files to be removed
}

// writer is what a write needs.
type writer struct {
	lock    *os.File
	out     []byte    // buffer for one write
	group   []*Record // memory for a queue
	one     [1]*Record
	number  uint64    // of the newest segment, as its file is named
	checked time.Time // when the active segment was last seen in the directory
}

// warning is an argument list of Options.Warn.
type warning struct {
	problem Problem
	err     error
}

// warnLater keeps a warning for unlockAndWarn. The caller holds mu.
func (l *Log) warnLater(problem Problem, err error) {
	l.warnings = append(l.warnings, warning{problem, err})
}

// unlockAndWarn unlocks mu and calls Options.Warn. The caller must not be in a call
// of a method that owners make with a mutex of their own.
func (l *Log) unlockAndWarn() {
	warnings := l.warnings
	l.warnings = nil
	l.mu.Unlock()
	for _, w := range warnings {
		if l.opts.Warn != nil {
			l.opts.Warn(w.problem, w.err)
		}
	}
}

// segment is a file of records.
type segment struct {
	number     uint64   // its name
	generation uint32   // of its records
	base       Position // of the record with index 0

	// file is guarded by writeMu while the segment is active, and used by
	// maintain alone afterwards. It is nil if it is closed.
	file *segmentFile

	sealed     bool // it is not written to any more
	old        bool // an earlier process wrote it
	unreadable bool // it cannot be read, and its file is left in place
	stuck      bool // its file could not be removed
	discarded  bool // Options.Discarded is to be called before it is removed

	size    int64  // bytes up to the end of the last record
	space   int64  // bytes that the file may take, with a seal
	mapped  int64  // bytes of the file that are mapped while the segment is active
	records uint32 // records in it
	ended   uint32 // those of them that are done
	saved   uint32 // those of them of which the file says so
	acks    []span // the others of them: pending acknowledgements
}

// takeAcks returns the acknowledgements to be written down next, with n bytes of records.
// They count as saved. The others, for which there is no room, wait until files are
// removed. The caller holds mu.
func (l *Log) takeAcks(g *segment, n int64) []span {
	room := g.space - g.size - n - endsLen + max(0, l.room.max-l.room.used)
	fit := min(len(g.acks), max(0, int(room/endsLen)))
	acks := g.acks[:fit:fit]
	g.acks = g.acks[fit:]
	for _, s := range acks {
		g.saved += s.len()
	}
	l.unsaved = l.unsaved || len(g.acks) > 0
	return acks
}

// restoreAcks undoes takeAcks when they could not be written down.
func (g *segment) restoreAcks(acks []span) {
	for _, s := range acks {
		g.saved -= s.len()
	}
	g.acks = append(acks, g.acks...)
}

// appendAcks appends records for acknowledgements. The last one has the total.
func (g *segment) appendAcks(dst []byte, acks []span) []byte {
	for _, s := range acks {
		dst = appendEnds(dst, g.generation, s.first, tally{s.len(), g.records, g.saved})
	}
	return dst
}

func (l *Log) path(g *segment) string {
	return filepath.Join(l.dir, segmentName(g.number))
}

// Dir is the absolute path of the directory.
func (l *Log) Dir() string { return l.dir }

// Usage returns the size of all files but the lock, with a seal for each segment.
func (l *Log) Usage() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room.used
}

// Record is what Append writes. It can be used again once Append has returned.
type Record struct {
	// Buf is HeadLen bytes of room, followed by the body: at most MaxBody bytes,
	// none of them 0xff, as in UTF-8. Append writes to the room.
	Buf []byte

	// Owner is for the caller; the log does not use it.
	Owner interface{}

	// Position is set before Options.Appended is called.
	Position Position

	// Guarded by writeMu.
	offset  int64 // in the segment
	written bool  // or could not be
	err     error // why it could not
}

// Body is the body of the record.
func (r *Record) Body() []byte { return r.Buf[HeadLen:] }

// Room says whether there is room for a record.
type Room int

const (
	// Enough: Append would not return ErrFull.
	Enough Room = iota
	// Freeing: there will be room when files are removed that hold nothing any
	// more. Options.Freed is called then.
	Freeing
	// Full: there is no room until records are done.
	Full
)

// Room says whether there is room for r.
func (l *Log) Room(r *Record) Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := int64(len(r.Buf)); {
	case l.fits(n, 1, 0):
		return Enough
	case l.fits(n, 1, l.room.freeing):
		return Freeing
	}
	return Full
}

// fits reports whether Append can write n bytes of records once files of so many bytes
// have been removed. The caller holds mu.
func (l *Log) fits(n int64, records int, freed int64) bool {
	if l.fitsActive(n, records, freed) {
		return true
	}
	used := l.room.used - l.room.spare // spares are used, or removed
	if g := l.active; l.writable() && !l.canStayOpen() {
		used -= g.space - g.size - endsLen // it is truncated
	}
	return used-freed+newSegment(n) <= l.room.records
}

// fitsActive is fits for the active segment. The caller holds mu.
func (l *Log) fitsActive(n int64, records int, freed int64) bool {
	return l.writable() && !l.isFull(n, records) && l.room.used-freed+l.active.growth(n) <= l.room.records
}

// newSegment is the size of a segment with n bytes of records.
func newSegment(n int64) int64 { return int64(headLen) + n + endsLen }

// growth is by how much a segment's file may grow when n bytes are appended.
func (g *segment) growth(n int64) int64 { return max(0, g.size+n+endsLen-g.space) }

// reserve counts n bytes that are to be appended to a segment. The caller holds mu.
func (l *Log) reserve(g *segment, n int64) {
	more := g.growth(n)
	g.space += more
	l.room.used += more
}

// Done acknowledges n records from first on, which are of one segment.
func (l *Log) Done(first Position, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := slices.BinarySearchFunc(l.segments, first>>positionBits, func(g *segment, ordinal Position) int {
		return int(int64(g.base>>positionBits) - int64(ordinal))
	})
	if ok {
		index := uint32(first)
		l.end(l.segments[i], span{index, index + uint32(n)})
	}
}

// end counts records as done. The caller holds mu.
func (l *Log) end(g *segment, records span) {
	g.ended += records.len()
	g.acks = addSpan(g.acks, records)
	l.finish(g)
	if !l.unsaved {
		l.unsaved = true
		l.poke()
	}
}

// retire ends the writes to a segment. The caller holds mu.
func (l *Log) retire(g *segment) {
	g.sealed = true
	l.finish(g)
}

// finish has a segment removed if all of its records are done. The caller holds mu.
func (l *Log) finish(g *segment) {
	if !g.sealed || g.ended < g.records {
		return
	}
	if i := slices.Index(l.segments, g); i >= 0 {
		l.segments = slices.Delete(l.segments, i, i+1)
		l.removeLater(g)
	}
}

// removeLater has maintain remove a segment. The caller holds mu.
func (l *Log) removeLater(g *segment) {
	l.room.freeing += g.space
	l.finished = append(l.finished, g)
	l.poke()
}

// poke wakes maintain.
func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Discard gives up the oldest sealed segment that Read has not come to: all of its
// records count as done. It returns how many were not, and their position. It
// reports false if there is no such segment.
func (l *Log) Discard() (first Position, n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cursor.segment == nil {
		return 0, 0, false
	}
	i := l.afterCursor()
	if i < 0 || !l.segments[i].sealed {
		return 0, 0, false
	}
	g := l.segments[i]
	n = int(g.records - g.ended)
	g.ended = g.records
	g.discarded = true
	l.finish(g)
	return g.base, n, true
}

// Stop makes Append return ErrClosed from now on. Records in the queue are still
// written.
func (l *Log) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped.Store(true)
}

// Busy reports whether a call of Append has not ended. After Stop, and once it
// is false, it stays false.
func (l *Log) Busy() bool { return l.waiting.Load() > 0 }

// cursor is where Read continues.
type cursor struct {
	segment *segment
	offset  int64
	index   uint32
}

// afterCursor returns the index of the first segment after that of the cursor,
// which may have been removed, or -1. The caller holds mu.
func (l *Log) afterCursor() int {
	return slices.IndexFunc(l.segments, func(g *segment) bool { return g.base > l.cursor.segment.base })
}

func (g *segment) closeFile() error {
	err := g.file.close()
	g.file = nil
	return err
}

// The names of files end like this, after the number of a segment.
const (
	segmentSuffix = ".calls"
	spareSuffix   = ".spare"
)

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// segmentSize is how large a segment gets, in bytes, unless the log is large.
func (l *Log) segmentSize() int64 { return min(l.opts.MaxBytes/32, 1<<20) }

// limit is how large a segment may become. A large log has large segments, since
// the time to open it grows with their number. A small log has small ones, which
// are used again while they are in the processor's cache. The caller holds mu.
func (l *Log) limit() int64 { return min(max(l.segmentSize(), l.room.used/16), maxSegment) }

// writable reports whether there is an active segment that can be written to. The
// caller holds writeMu or mu.
func (l *Log) writable() bool { return l.active != nil && !l.active.sealed }
