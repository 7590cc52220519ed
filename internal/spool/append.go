package spool

import (
	"errors"
	"time"
)

const (
	// HeadLen is the room that a Record needs in front of its body.
	HeadLen = recordHead
	// MaxBody is the length of the longest body.
	MaxBody = 32768

	// maxGroup is how many bytes of records are written in one piece.
	maxGroup = 1 << 20
	// maxOut is how much memory is kept for writes to come.
	maxOut = 1 << 20
)

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

// Append writes a record, and returns when it would survive the process. Now is the
// time, which the caller knows. The error is ErrFull, ErrClosed, or why the record
// could not be written.
func (l *Log) Append(r *Record, now time.Time) error {
	startRecord(r.Buf, kindData)
	n := int64(len(r.Buf))
	l.mu.Lock()
	switch {
	case l.stopped.Load():
		l.mu.Unlock()
		return ErrClosed
	case n > l.room():
		l.mu.Unlock()
		return ErrFull
	}
	r.written = false
	l.waiting.Add(1)
	l.queue = append(l.queue, r)
	l.queued += n
	if l.writeMu.TryLock() { // else mu is unlocked first: writeMu is acquired before it
		l.writeQueue(now)
	} else {
		l.mu.Unlock()
		l.writeMu.Lock()
	}
	for !r.written { // the queue may be too long for one write
		l.mu.Lock()
		l.writeQueue(now)
	}
	err := r.err
	l.writeMu.Unlock()
	return err
}

// takeGroup takes the records to be written next from the queue, and returns how
// many bytes they are. The caller holds writeMu and mu.
func (l *Log) takeGroup() (group []*Record, size int64) {
	n := 0
	for n < len(l.queue) && size < maxGroup-MaxBody {
		size += int64(len(l.queue[n].Buf))
		n++
	}
	group = l.queue[:n:n]
	l.queue = append(l.group[:0], l.queue[n:]...)
	return group, size
}

// writeQueue writes records of the queue in one piece, oldest first, and passes
// them to Options.Appended. The caller holds writeMu, and mu, which is unlocked.
func (l *Log) writeQueue(now time.Time) {
	group, size := l.takeGroup()
	err := l.writeGroup(group, size, now)
	if err == nil {
		l.publish(group)
	}
	l.queued -= size
	l.unlockAndWarn()
	if err == nil && l.opts.Appended != nil {
		l.opts.Appended(group, now)
	}
	for _, r := range group {
		r.written, r.err = true, err
	}
	drained := l.waiting.Add(-int64(len(group))) == 0 && l.stopped.Load()
	clear(group)
	l.group = group
	if drained && l.opts.Drained != nil {
		l.opts.Drained()
	}
}

// publish gives the records that were written to the active segment their
// positions. The caller holds writeMu and mu.
func (l *Log) publish(group []*Record) {
	g := l.active
	for _, r := range group {
		r.offset, r.Position = g.size, g.base+Position(g.records)
		l.last = r.Position
		g.records++
		l.grow(g, int64(len(r.Buf)))
	}
}

// writeGroup writes records of size bytes to the active segment, or begins
// another. The caller holds writeMu and mu, which is unlocked meanwhile.
func (l *Log) writeGroup(group []*Record, size int64, now time.Time) error {
	if !l.writable() || l.isFull(size, len(group)) {
		if err := l.roll(now); err != nil {
			return err
		}
	}
	err := l.appendGroup(group, now)
	if errors.Is(err, errVanished) {
		l.warnLater(Vanished, err)
		if err = l.roll(now); err == nil {
			err = l.appendGroup(group, now)
		}
	}
	return err
}

// writable reports whether there is an active segment that can be written to. The
// caller holds writeMu.
func (l *Log) writable() bool { return l.active != nil && l.active.file != nil && !l.active.sealed }

// isFull reports whether the active segment has no room for size bytes of records.
// The caller holds writeMu and mu.
func (l *Log) isFull(size int64, records int) bool {
	g := l.active
	limit := l.limit()
	if g.file.mapped != nil {
		limit = int64(len(g.file.mapped))
	}
	return g.records > 0 && (g.size+size > limit || int(g.records)+records > maxRecords)
}

// limit is how large a segment may become. A large log has large segments, since
// the time to open it grows with their number. A small log has small ones, which
// are used again while they are in the processor's cache. The caller holds mu.
func (l *Log) limit() int64 { return min(max(l.segmentSize, l.disk/16), maxSegment) }

// errVanished means that what is written to the active segment does not survive
// the process. What was written before is not lost while the process lives.
var errVanished = errors.New("the file, or a part of it, was removed while calls were written to it")

// appendGroup writes pending acknowledgements and records to the active segment.
// The caller holds writeMu and mu, which is unlocked meanwhile.
func (l *Log) appendGroup(group []*Record, now time.Time) error {
	g := l.active
	acks := g.takeAcks()
	l.mu.Unlock()
	l.out = g.appendAcks(l.out[:0], acks)
	ends := int64(len(l.out))
	for i, r := range group {
		endRecord(r.Buf, g.generation, g.records+uint32(i))
	}
	out := l.out
	if len(group) == 1 && ends == 0 {
		out = group[0].Buf
	} else {
		for _, r := range group {
			out = append(out, r.Buf...)
		}
		l.keepBuffer(out)
	}
	err := l.writeActive(out, now)
	l.mu.Lock()
	if err == nil {
		l.grow(g, ends)
		return nil
	}
	g.restoreAcks(acks)
	if g.file == nil {
		l.retire(g)
	}
	return err
}

// keepBuffer keeps a buffer for the next write, unless it is large.
func (l *Log) keepBuffer(out []byte) {
	if l.out = out; cap(out) > maxOut {
		l.out = nil
	}
}

// writeActive writes to the active segment. When that fails, the file is restored
// or closed. The caller holds writeMu.
func (l *Log) writeActive(out []byte, now time.Time) error {
	g := l.active
	if now.Sub(l.checked) > time.Second {
		l.checked = now
		if !sameFile(g.file.File, g.file.path) {
			return errVanished
		}
	}
	err := g.file.write(out, g.size)
	if err == nil && l.opts.Sync {
		err = g.file.Sync()
	}
	if err != nil && errors.Join(g.file.unmap(), g.file.Truncate(g.size)) != nil {
		err = errors.Join(err, g.closeFile())
	}
	return err
}

func (g *segment) closeFile() error {
	err := g.file.close()
	g.file = nil
	return err
}

// roll ends the active segment and begins another. The caller holds writeMu and
// mu, which is unlocked meanwhile.
func (l *Log) roll(now time.Time) error {
	busy := now.Sub(l.rolled) < busyTime
	l.rolled = now
	if l.canStayOpen() {
		l.retire(l.active)
	} else {
		l.sealActive()
	}
	var size int64 // of what is mapped
	if free := l.max - l.disk; busy && free >= l.segmentSize {
		size = min(l.limit(), free)
	}
	taken := max(size, int64(headLen)) // charged until the file exists
	var spare *segmentFile
	if n := len(l.spares); n > 0 {
		spare, l.spares = l.spares[n-1], l.spares[:n-1]
		l.spare -= spare.size
		taken, size = spare.size, min(size, spare.size)
	} else {
		l.disk += taken
	}
	l.number++
	l.ordinal++
	fresh := &segment{
		number: l.number, generation: uint32(l.number), base: Position(l.ordinal) << positionBits, size: int64(headLen),
	}
	l.mu.Unlock()
	file, err := l.create(fresh, spare, size)
	l.mu.Lock()
	l.disk -= taken
	if err != nil {
		return err
	}
	fresh.file, fresh.space = file, file.size
	l.active = fresh
	l.segments = append(l.segments, fresh)
	l.disk += fresh.space
	return nil
}

// canStayOpen reports whether the active segment is full and mapped, and its file
// likely to be used again soon. The caller holds writeMu and mu.
func (l *Log) canStayOpen() bool {
	return l.writable() && l.active.file.mapped != nil && l.active.space-l.active.size <= MaxBody &&
		l.cursor.segment == nil && l.mapped.Load() <= maxMapped
}

// sealActive ends the active segment, if there is one, with a record of its
// totals, so that it can be opened without being read. The caller holds writeMu
// and mu, which is unlocked meanwhile.
func (l *Log) sealActive() {
	g := l.active
	if !l.writable() {
		return
	}
	acks := g.takeAcks()
	l.out = appendEnds(g.appendAcks(l.out[:0], acks), g.generation, 0, tally{0, g.records, g.saved})
	l.mu.Unlock()
	n := int64(len(l.out))
	err := errors.Join(g.file.write(l.out, g.size), g.file.unmap()) // to truncate a mapped file takes 20 times as long
	if err == nil {
		err = g.file.Truncate(g.size + n)
	}
	err = errors.Join(err, g.closeFile())
	l.mu.Lock()
	if err != nil {
		l.warnLater(NotSealed, err)
	}
	l.grow(g, n)
	l.disk -= g.space - g.size
	g.space = g.size
	l.retire(g)
}
