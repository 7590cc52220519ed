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
	// ErrFull is returned by Append if the record would exceed Options.MaxBytes.
	ErrFull = errors.New("the spool is full")

	// ErrClosed is returned by Append after Stop.
	ErrClosed = errors.New("the spool is closed")
)

// Options configures a log.
type Options struct {
	// Mutex guards the log. The owner of the log may use it for its own state too.
	Mutex sync.Locker

	// MaxBytes limits the total size of all files, except segments of another source. The
	// minimum is 1 MiB.
	MaxBytes int64

	// Source identifies the source of the records. Segments of another source are neither
	// read nor removed.
	Source [sourceLen]byte

	// Sync makes Append wait until the records are on the storage device.
	Sync bool

	// Appended, if set, is called with written records, in order, before Append returns. Mutex
	// is locked. The records are valid only during the call. now is the time that one of the
	// callers passed to Append.
	Appended func(records []*Record, now time.Time)

	// Discarded, if set, is called with the bodies of discarded records that can be read. The
	// file of the records is removed afterwards.
	Discarded func(bodies [][]byte)

	// Freed, if set, is called when there may be more room.
	Freed func()

	// Drained, if set, is called after Stop, when no Append is running. Mutex is locked.
	Drained func()

	// Warn, if set, is called after a failure that no method returns.
	Warn func(Problem, error)
}

// Problem is a kind of failure that Options.Warn reports.
type Problem int

const (
	// NotSaved means that acknowledgements could not be written. The log tries again. If the
	// process is killed before that succeeds, the next process reads the records again.
	NotSaved Problem = iota
	// NotSealed means that a segment could not be sealed. The next process counts its
	// records.
	NotSealed
	// NotRemoved means that a file could not be removed. The next process reads its records
	// again.
	NotRemoved
	// Vanished means that a file was removed or truncated while records were written to it.
	// Its records are no longer on the disk.
	Vanished
)

// Position identifies a record in the log. Positions increase. The zero Position is before all
// records.
type Position uint64

// positionBits is the number of bits in a Position that contain the index within a segment.
const positionBits = 32

// Log is a log of records in a directory. The caller of a method must hold Options.Mutex, with three
// exceptions: Dir does not need it, and Read and Close lock it. Calls of Read must not overlap.
type Log struct {
	opts Options
	dir  string

	wake chan struct{} // capacity 1; wakes maintain; never closed
	stop chan struct{} // closed by Close; maintain then returns
	done chan struct{} // closed by maintain when it returns

	mapped   atomic.Int32 // number of mapped files
	unmapped atomic.Bool  // the file system does not support mapping

	mu       sync.Locker // Options.Mutex; guards the following fields and all segments
	idle     sync.Cond   // signaled when writing becomes false
	writing  bool        // a goroutine holds the file of the active segment
	queue    []*Record
	running  int            // number of calls of Append that have added their record to the queue
	stopped  bool           // Append returns ErrClosed
	segments []*segment     // segments with unacknowledged records, and active; oldest first
	active   *segment       // the segment that is being written, which is the last of segments; nil before the first write
	finished []*segment     // segments that can be removed
	spares   []*segmentFile // files for new segments
	rolled   time.Time      // when active was started
	ordinal  uint32         // the ordinal of the newest segment
	room     room
	last     Position  // the position of the newest record
	cursor   cursor    // the position of Read; its segment is nil if there is nothing to read
	unsaved  bool      // acknowledgements must be written, and maintain has been notified
	warnings []warning // arguments for Options.Warn, which is called when mu is unlocked

	// The following fields, and the file of the active segment, are used by the goroutine that
	// has set writing. If writing is false, they are guarded by mu.
	lock    *os.File
	out     []byte    // the buffer for a write
	group   []*Record // reusable memory for a group of records
	one     [1]*Record
	number  uint64    // the number in the file name of the newest segment
	checked time.Time // the time of the last check that the active segment is in the directory

	reads int // number of consecutive failed reads
}

// room counts the bytes of files and contains their limits. A count increases before a file grows,
// and decreases after a file has been truncated or removed.
type room struct {
	max     int64 // limit of used
	records int64 // limit of used while records are appended; the rest is reserved for acknowledgements
	used    int64 // bytes of all files except the lock, including reserved space
	spare   int64 // bytes of spare files
	freeing int64 // bytes of files that will be removed
}

// warning contains the arguments of Options.Warn.
type warning struct {
	problem Problem
	err     error
}

// warnLater stores a warning for warn. The caller holds mu.
func (l *Log) warnLater(problem Problem, err error) {
	l.warnings = append(l.warnings, warning{problem, err})
}

// warn passes stored warnings to Options.Warn. The caller holds mu, which is unlocked during the
// call.
func (l *Log) warn() {
	warnings := l.warnings
	l.warnings = nil
	if len(warnings) == 0 || l.opts.Warn == nil {
		return
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	for _, w := range warnings {
		l.opts.Warn(w.problem, w.err)
	}
}

// segment is a file of records.
type segment struct {
	number     uint64   // the number in the file name
	generation uint32   // the generation of its records
	base       Position // the position of its first record

	// file is nil if it is closed. For its use while the segment is active, see Log. After
	// that, only maintain uses it.
	file *segmentFile

	sealed     bool // no more records are written to it
	old        bool // a previous process wrote it
	unreadable bool // it cannot be read, so its file is kept
	stuck      bool // its file could not be removed
	discarded  bool // Options.Discarded must be called before the file is removed

	size    int64  // the end of the last record, in bytes
	space   int64  // bytes reserved for the file, including the seal
	mapped  int64  // mapped bytes of the file; 0 unless the segment is active
	records uint32 // number of records
	ended   uint32 // number of acknowledged records
	saved   uint32 // number of acknowledgements that have been written
	acks    []span // acknowledgements that have not been written
}

// takeAcks returns the acknowledgements to write together with n bytes of records, and counts
// them as saved. If there is not enough room for all of them, the rest stay pending. The caller
// holds mu.
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

// restoreAcks makes acknowledgements pending again after a failed write.
func (g *segment) restoreAcks(acks []span) {
	for _, s := range acks {
		g.saved -= s.len()
	}
	g.acks = append(acks, g.acks...)
}

// appendAcks appends records that contain acknowledgements. The last one contains the totals.
func (g *segment) appendAcks(dst []byte, acks []span) []byte {
	for _, s := range acks {
		dst = appendEnds(dst, g.generation, s.first, tally{s.len(), g.records, g.saved})
	}
	return dst
}

func (l *Log) path(g *segment) string {
	return filepath.Join(l.dir, segmentName(g.number))
}

// Dir returns the absolute path of the directory.
func (l *Log) Dir() string { return l.dir }

// Usage returns the total size of all files except the lock file, including reserved space.
func (l *Log) Usage() int64 { return l.room.used }

// Record is a record to append. It may be reused after Append has returned. Prepare must be called
// after each change of Buf.
type Record struct {
	// Buf contains HeadLen bytes for the head, which Append writes, and then the body. The body
	// has at most MaxBody bytes. It must not contain the byte 0xff, which never occurs in UTF-8.
	Buf []byte

	// Owner is available to the caller; the log does not use it.
	Owner interface{}

	// Position is set before Options.Appended is called.
	Position Position

	sum uint32 // the checksum of the body

	// The following fields are guarded by Options.Mutex.
	offset  int64 // the offset in the segment's file
	written bool  // the record was written, or writing it failed
	err     error // the reason for a failure
}

// Body returns the body of the record.
func (r *Record) Body() []byte { return r.Buf[HeadLen:] }

// Room reports whether there is room for a record in the log.
type Room int

const (
	// Enough means that Append would not return ErrFull.
	Enough Room = iota
	// Freeing means that there will be room when finished files are removed. The log then
	// calls Options.Freed.
	Freeing
	// Full means that there is no room until records are acknowledged.
	Full
)

// Room reports whether the log has room for r.
func (l *Log) Room(r *Record) Room {
	switch n := int64(len(r.Buf)); {
	case l.fits(n, 1, 0):
		return Enough
	case l.fits(n, 1, l.room.freeing):
		return Freeing
	}
	return Full
}

// fits reports whether Append can write n bytes of records after files of freed bytes have been
// removed. The caller holds mu.
func (l *Log) fits(n int64, records int, freed int64) bool {
	if l.fitsActive(n, records, freed) {
		return true
	}
	used := l.room.used - l.room.spare // spare files will be reused or removed
	if g := l.active; l.writable() && !l.canStayOpen() {
		used -= g.space - g.size - endsLen // the active file will be truncated when it is sealed
	}
	return used-freed+newSegment(n) <= l.room.records
}

// fitsActive reports whether n bytes of records fit into the active segment after files of freed
// bytes have been removed. The caller holds mu.
func (l *Log) fitsActive(n int64, records int, freed int64) bool {
	return l.writable() && !l.isFull(n, records) && l.room.used-freed+l.active.growth(n) <= l.room.records
}

// newSegment returns the file size of a new segment with n bytes of records.
func newSegment(n int64) int64 { return int64(headLen) + n + endsLen }

// growth returns the number of bytes to reserve before n bytes can be appended.
func (g *segment) growth(n int64) int64 { return max(0, g.size+n+endsLen-g.space) }

// reserve reserves n more bytes for a segment. The caller holds mu.
func (l *Log) reserve(g *segment, n int64) {
	more := g.growth(n)
	g.space += more
	l.room.used += more
}

// Done acknowledges n records of one segment, starting with first.
func (l *Log) Done(first Position, n int) {
	i, ok := slices.BinarySearchFunc(l.segments, first>>positionBits, func(g *segment, ordinal Position) int {
		return int(int64(g.base>>positionBits) - int64(ordinal))
	})
	if ok {
		index := uint32(first)
		l.end(l.segments[i], span{index, index + uint32(n)})
	}
}

// end marks records as acknowledged. The caller holds mu.
func (l *Log) end(g *segment, records span) {
	g.ended += records.len()
	g.acks = addSpan(g.acks, records)
	l.finish(g)
	if !l.unsaved {
		l.unsaved = true
		l.wakeUp()
	}
}

// retire marks a segment as complete, so that no more records are written to it. The caller holds
// mu.
func (l *Log) retire(g *segment) {
	g.sealed = true
	l.finish(g)
}

// finish schedules the removal of a segment if all its records are acknowledged. The caller holds
// mu.
func (l *Log) finish(g *segment) {
	if !g.sealed || g.ended < g.records {
		return
	}
	if i := slices.Index(l.segments, g); i >= 0 {
		l.segments = slices.Delete(l.segments, i, i+1)
		l.removeLater(g)
	}
}

// removeLater schedules the removal of a segment. The caller holds mu.
func (l *Log) removeLater(g *segment) {
	l.room.freeing += g.space
	l.finished = append(l.finished, g)
	l.wakeUp()
}

// wakeUp wakes maintain.
func (l *Log) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default: // maintain is already awake
	}
}

// Discard acknowledges all records of the oldest sealed segment that Read has not reached. It
// returns the position of the segment and the number of records that were not acknowledged
// before. It reports false if there is no such segment.
func (l *Log) Discard() (first Position, n int, ok bool) {
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

// Stop makes Append return ErrClosed. Records in the queue are still written.
func (l *Log) Stop() { l.stopped = true }

// Busy reports whether a call of Append is running. After Stop, the result does not change from
// false to true.
func (l *Log) Busy() bool { return l.running > 0 }

// cursor is a position in the log from which records are read.
type cursor struct {
	segment *segment
	offset  int64
	index   uint32
}

// afterCursor returns the index of the first segment after the cursor, or -1 if there is none.
// The segment of the cursor may have been removed. The caller holds mu.
func (l *Log) afterCursor() int {
	return slices.IndexFunc(l.segments, func(g *segment) bool { return g.base > l.cursor.segment.base })
}

func (g *segment) closeFile() error {
	err := g.file.close()
	g.file = nil
	return err
}

// These suffixes follow the number of a segment in a file name.
const (
	segmentSuffix = ".calls"
	spareSuffix   = ".spare"
)

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// segmentSize returns the usual size of a segment in bytes.
func (l *Log) segmentSize() int64 { return min(l.opts.MaxBytes/32, 1<<20) }

// limit returns the maximum size of a segment. A large log has large segments, because the time to
// open a log depends on the number of segments. A small log has small segments, so that they are
// reused while they are in the processor's cache. The caller holds mu.
func (l *Log) limit() int64 { return min(max(l.segmentSize(), l.room.used/16), maxSegment) }

// writable reports whether there is an active segment that accepts records. The caller holds mu.
func (l *Log) writable() bool { return l.active != nil && !l.active.sealed }
