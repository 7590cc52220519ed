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

// Append writes a record. When it returns nil, the record survives if the process is killed. now is
// the current time. The error is ErrFull, ErrClosed, or the reason for a failed write.
func (l *Log) Append(r *Record, now time.Time) error {
	r.sum = checksum(r.Body())
	// Storing the record in mapped memory is faster than waiting for another goroutine.
	if l.storing.Load() {
		l.writeMu.Lock()
		stored := l.storeOne(r, now)
		l.writeMu.Unlock()
		if stored {
			return nil
		}
	}
	return l.appendQueued(r, now)
}

// storeOne copies a record to the mapped file of the active segment. It reports false if this
// is not possible. The caller holds writeMu.
func (l *Log) storeOne(r *Record, now time.Time) bool {
	if l.waiting.Add(1) > 1 { // space is reserved for records in the queue
		l.mu.Lock()
		if len(l.queue) > 0 {
			l.writeQueue(now)
		} else {
			l.mu.Unlock()
		}
	}
	stored := !l.stopped.Load() && now.Sub(l.checked) <= checkEvery && l.fitsMapping(r)
	if stored {
		g := l.active
		putHead(r.Buf, kindData, g.generation, g.records, r.sum)
		stored = store(g.file.mapped[g.size:g.size+int64(len(r.Buf))], r.Buf) == nil
	}
	if stored {
		l.one[0] = r
		l.mu.Lock()
		l.publish(l.one[:])
		l.mu.Unlock()
		if l.opts.Appended != nil {
			l.opts.Appended(l.one[:], now)
		}
		l.one[0] = nil
	} else {
		l.storing.Store(false)
	}
	if l.waiting.Add(-1) == 0 && l.stopped.Load() && l.opts.Drained != nil {
		l.opts.Drained()
	}
	return stored
}

// fitsMapping reports whether the active segment is mapped and has room for r. The caller
// holds writeMu.
func (l *Log) fitsMapping(r *Record) bool {
	return l.writable() && l.active.size+int64(len(r.Buf))+endsLen <= int64(len(l.active.file.mapped)) && l.active.records < maxRecords
}

// appendQueued adds a record to the queue. One write may contain several queued records.
func (l *Log) appendQueued(r *Record, now time.Time) error {
	l.mu.Lock()
	switch {
	case l.stopped.Load():
		l.mu.Unlock()
		return ErrClosed
	case !l.fits(int64(len(r.Buf)), 1, 0):
		l.mu.Unlock()
		return ErrFull
	}
	r.written = false
	l.waiting.Add(1)
	l.queue = append(l.queue, r)
	if l.writeMu.TryLock() { // if it is locked, unlock mu first, because writeMu must be acquired before mu
		l.writeQueue(now)
	} else {
		l.mu.Unlock()
		l.writeMu.Lock()
	}
	for !r.written { // one write may not include the whole queue
		l.mu.Lock()
		l.writeQueue(now)
	}
	err := r.err
	l.storing.Store(l.writable() && l.active.file.mapped != nil)
	l.writeMu.Unlock()
	return err
}

// takeGroup removes records from the queue. It returns them and their total size in bytes. If
// the log has no room for all of them, it returns only one. The caller holds writeMu and mu.
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

// writeQueue writes queued records, oldest first, in one write. It passes them to
// Options.Appended. The caller holds writeMu and mu. writeQueue unlocks mu.
func (l *Log) writeQueue(now time.Time) {
	group, size := l.takeGroup()
	err := ErrFull
	if l.fits(size, len(group), 0) {
		err = l.writeGroup(group, size, now)
	}
	if err == nil {
		l.publish(group)
	}
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

// publish sets the positions of records that have been written to the active segment. The caller
// holds writeMu and mu.
func (l *Log) publish(group []*Record) {
	g := l.active
	for _, r := range group {
		r.offset, r.Position = g.size, g.base+Position(g.records)
		l.last = r.Position
		g.records++
		g.size += int64(len(r.Buf))
	}
}

// writeGroup writes records of size bytes to the active segment or a new one. The caller
// holds writeMu and mu. mu is unlocked during I/O.
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
// segment. The caller holds writeMu and mu. mu is unlocked during the write.
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
// data or closes the file. The caller holds writeMu.
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
