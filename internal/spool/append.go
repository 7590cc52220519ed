package spool

import (
	"errors"
	"time"
)

const (
	// maxGroup is the maximum number of bytes in one write.
	maxGroup = 1 << 20
	// checkEvery is the interval at which Append checks that the active segment is still in
	// the directory.
	checkEvery = time.Second
	// maxOut is the maximum size of a write buffer that is kept.
	maxOut = 1 << 20
)

// Prepare prepares a record for Append. It computes the checksum, so that Options.Mutex is locked
// for a shorter time.
func (r *Record) Prepare() { r.sum = checksum(r.Body()) }

// Append writes a prepared record. When it returns nil, the record survives if the process is
// killed. now is the current time. The error is ErrFull, ErrClosed, or the reason for a failed
// write. The caller holds Options.Mutex, which is unlocked during I/O, except while a record is
// copied into a mapped file.
func (l *Log) Append(r *Record, now time.Time) error {
	switch {
	case l.stopped:
		return ErrClosed
	case l.storeOne(r, now):
		return nil
	case !l.fits(int64(len(r.Buf)), 1, 0):
		return ErrFull
	}
	r.written = false
	l.running++
	l.queue = append(l.queue, r)
	for !r.written {
		if l.writing {
			l.idle.Wait()
		} else {
			l.writeQueue(now)
		}
	}
	l.warn()
	if l.running--; l.running == 0 && l.stopped && l.opts.Drained != nil {
		l.opts.Drained()
	}
	return r.err
}

// storeOne copies a record to the active segment's mapped file. It reports false if this is not
// possible. The caller holds mu.
func (l *Log) storeOne(r *Record, now time.Time) bool {
	if l.writing || !l.writable() || now.Sub(l.checked) > checkEvery {
		return false
	}
	g := l.active
	end := g.size + int64(len(r.Buf))
	if end+endsLen > int64(len(g.file.mapped)) || g.records == maxRecords {
		return false
	}
	putHead(r.Buf, kindData, g.generation, g.records, r.sum)
	if store(g.file.mapped[g.size:end], r.Buf) != nil {
		return false
	}
	l.one[0] = r
	l.publish(l.one[:], now)
	l.one[0] = nil
	return true
}

// lockFile begins the exclusive use of the active segment's file. The caller holds mu, and writing
// is false.
func (l *Log) lockFile() { l.writing = true }

// unlockFile ends the exclusive use that began with lockFile. The caller holds mu.
func (l *Log) unlockFile() {
	l.writing = false
	l.idle.Broadcast()
}

// takeGroup removes the oldest records from the queue, up to about maxGroup bytes. It returns them
// and their total size in bytes. If the log has no room for all of them, it removes fewer, but at
// least one. The caller holds mu and the file.
func (l *Log) takeGroup() (group []*Record, size int64) {
	n := 0
	for n < len(l.queue) && size < maxGroup-MaxBody {
		size += int64(len(l.queue[n].Buf))
		n++
	}
	for n > 1 && !l.fits(size, n, 0) {
		n--
		size -= int64(len(l.queue[n].Buf))
	}
	group = l.queue[:n:n]
	l.queue = append(l.group[:0], l.queue[n:]...)
	return group, size
}

// writeQueue writes queued records, oldest first, in one write. The caller holds mu, which is
// unlocked during I/O.
func (l *Log) writeQueue(now time.Time) {
	l.lockFile()
	defer l.unlockFile()
	group, size := l.takeGroup()
	err := ErrFull
	if l.fits(size, len(group), 0) {
		err = l.writeGroup(group, size, now)
	}
	if err == nil {
		l.publish(group, now)
	}
	for _, r := range group {
		r.written, r.err = true, err
	}
	clear(group)
	l.group = group
}

// publish sets the positions of records that have been written to the active segment, and passes
// them to Options.Appended. The caller holds mu.
func (l *Log) publish(group []*Record, now time.Time) {
	g := l.active
	for _, r := range group {
		r.offset, r.Position = g.size, g.base+Position(g.records)
		l.last = r.Position
		g.records++
		g.size += int64(len(r.Buf))
	}
	if l.opts.Appended != nil {
		l.opts.Appended(group, now)
	}
}

// writeGroup writes records of size bytes to the active segment or a new one. The caller
// holds mu and the file. mu is unlocked during I/O.
func (l *Log) writeGroup(group []*Record, size int64, now time.Time) error {
	if !l.fitsActive(size, len(group), 0) {
		if err := l.roll(size, now); err != nil {
			return err
		}
	}
	err := l.appendGroup(group, size, now)
	if errors.Is(err, errVanished) {
		l.warnLater(Vanished, err)
		if err = l.roll(size, now); err == nil {
			err = l.appendGroup(group, size, now)
		}
	}
	return err
}

// isFull reports whether the active segment has no room for size bytes of records. The
// caller holds mu.
func (l *Log) isFull(size int64, records int) bool {
	g := l.active
	limit := l.limit()
	if g.mapped > 0 {
		limit = g.mapped - endsLen
	}
	return g.records > 0 && (g.size+size > limit || int(g.records)+records > maxRecords)
}

// appendGroup writes pending acknowledgements and records of size bytes to the active
// segment. The caller holds mu and the file. mu is unlocked during the write.
func (l *Log) appendGroup(group []*Record, size int64, now time.Time) error {
	g := l.active
	acks := l.takeAcks(g, size)
	l.out = g.appendAcks(l.out[:0], acks)
	ends := int64(len(l.out))
	l.reserve(g, ends+size)
	l.mu.Unlock()
	for i, r := range group {
		putHead(r.Buf, kindData, g.generation, g.records+uint32(i), r.sum)
	}
	out := l.out
	if len(group) == 1 && ends == 0 {
		out = group[0].Buf
	} else {
		for _, r := range group {
			out = append(out, r.Buf...)
		}
		if l.out = out; cap(out) > maxOut {
			l.out = nil
		}
	}
	err := l.writeActive(out, now)
	l.mu.Lock()
	if err == nil {
		g.size += ends
		return nil
	}
	g.restoreAcks(acks)
	if g.file == nil {
		l.retire(g)
	} else {
		g.mapped = int64(len(g.file.mapped))
	}
	return err
}

// writeActive writes to the active segment. If the write fails, writeActive removes the partial
// data or closes the file. The caller holds the file.
func (l *Log) writeActive(out []byte, now time.Time) error {
	g := l.active
	if now.Sub(l.checked) > checkEvery {
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
