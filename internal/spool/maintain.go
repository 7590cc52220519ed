package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// saveEvery is the maximum time until an acknowledgement is written to the disk, unless
	// records are being written at that time.
	saveEvery = 100 * time.Millisecond
	// retryEvery is the pause before a failed write or removal is retried.
	retryEvery = time.Second
)

// maintain is the log's background goroutine. It writes acknowledgements and removes finished
// segments.
func (l *Log) maintain() {
	defer close(l.done)
	var save, remove <-chan time.Time // nil unless the work is scheduled
	for {
		select {
		case <-l.wake:
			if save == nil && l.hasUnsaved() {
				save = time.After(saveEvery)
			}
			if remove == nil && !l.removeFinished() {
				remove = time.After(retryEvery)
			}
		case <-save:
			save = nil
			if !l.saveAcks() {
				save = time.After(retryEvery)
			}
		case <-remove:
			remove = nil
			if !l.removeFinished() {
				remove = time.After(retryEvery)
			}
		case <-l.stop:
			return
		}
	}
}

func (l *Log) hasUnsaved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsaved
}

// saveAcks writes all pending acknowledgements. It reports false if a write failed and must be
// retried.
func (l *Log) saveAcks() bool {
	l.mu.Lock()
	l.unsaved = false
	var sealed []*segment
	for _, g := range l.segments {
		if g.sealed && len(g.acks) > 0 {
			sealed = append(sealed, g)
		}
	}
	l.mu.Unlock()
	saved := l.saveActive()
	for _, g := range sealed {
		saved = l.saveSealed(g) && saved
	}
	return saved
}

// saveActive writes the acknowledgements of the active segment. If another goroutine is writing, it
// only wakes maintain, which tries again later: while calls of Append follow each other, a wait for
// the file could take forever. Each write of records also contains pending acknowledgements.
// saveActive reports false if a write failed.
func (l *Log) saveActive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing {
		l.unsaved = true
		l.wakeUp()
		return true
	}
	var err error
	l.lockFile()
	if g := l.active; l.writable() && len(g.acks) > 0 {
		if err = l.appendGroup(nil, 0, time.Now()); err != nil {
			l.warnLater(NotSaved, err)
		}
	}
	l.unlockFile()
	l.warn()
	return err == nil
}

// saveSealed writes the acknowledgements of a sealed segment. It reports false if the write failed.
func (l *Log) saveSealed(g *segment) bool {
	l.mu.Lock()
	if g.ended == g.records { // the segment is finished, so its file is removed
		l.mu.Unlock()
		return true
	}
	acks := l.takeAcks(g, 0)
	ends := g.appendAcks(nil, acks)
	l.reserve(g, int64(len(ends)))
	at := g.size
	l.mu.Unlock()
	if len(ends) == 0 {
		return true
	}
	f, info, err := openRegular(l.path(g), os.O_WRONLY)
	if err == nil {
		if _, err = f.WriteAt(ends, at); err != nil { // the retry overwrites partial data
			err = errors.Join(err, f.Truncate(max(at, info.Size()))) // the file may be mapped
		}
		err = errors.Join(err, f.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		g.size += int64(len(ends))
		return true
	}
	g.restoreAcks(acks)
	l.warnLater(NotSaved, err)
	l.warn()
	return false
}

// removeFinished removes finished segments. It reports false if a removal must be retried.
func (l *Log) removeFinished() bool {
	l.mu.Lock()
	finished := l.finished
	l.finished = nil
	l.mu.Unlock()
	var stuck []*segment
	for _, g := range finished {
		freeing := g.space
		if g.discarded {
			l.reportDiscarded(g)
			g.discarded = false
		}
		err := l.removeFile(g)
		l.mu.Lock()
		if !g.stuck { // the room of a stuck file was already reported
			l.room.freeing -= freeing
		}
		switch {
		case err == nil && !g.unreadable:
			l.room.used -= g.space
		case err != nil:
			if !g.stuck {
				l.warnLater(NotRemoved, err)
			}
			g.stuck = true
			stuck = append(stuck, g)
		}
		l.warn()
		l.mu.Unlock()
		if l.opts.Freed != nil {
			l.opts.Freed()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(stuck, l.finished...)
	return len(stuck) == 0
}

// removeFile removes the file of a segment, or keeps it as a spare file.
func (l *Log) removeFile(g *segment) error {
	if g.unreadable {
		if g.file != nil {
			_ = g.closeFile()
		}
		return nil
	}
	if l.keepSpare(g) {
		return nil
	}
	if err := os.Remove(l.path(g)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepSpare keeps the file of a segment as a spare file for new segments. It reports false if the
// file must be removed instead.
func (l *Log) keepSpare(g *segment) bool {
	l.mu.Lock()
	enough := l.room.spare+g.space > min(maxSpare, l.room.max/4) || l.room.used > l.room.records
	l.mu.Unlock()
	switch {
	case g.file != nil: // remove acknowledgements after the mapped bytes
		g.file.size = max(g.file.size, g.size)
	case enough || !l.mapAgain(g):
		return false
	}
	path := filepath.Join(l.dir, fmt.Sprintf("%016x%s", g.number, spareSuffix))
	if enough || g.file.rename(path) != nil {
		_ = g.closeFile()
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spares = append(l.spares, g.file)
	l.room.spare += g.file.size
	l.room.used += g.file.size - g.space // in one step, so that the file is never counted twice
	g.space = 0
	return true
}

// mapAgain opens and maps the file of a segment if it can be used as a spare file.
func (l *Log) mapAgain(g *segment) bool {
	if g.old || l.opts.Sync || l.unmapped.Load() || l.mapped.Load() >= maxMapped || !l.reserveSpare(g) {
		return false
	}
	f, _, err := openRegular(l.path(g), os.O_RDWR)
	if err != nil {
		return false
	}
	g.file = &segmentFile{File: f, path: l.path(g), count: &l.mapped}
	if err = g.file.mapFirst(l.segmentSize()); err != nil {
		l.noteMapping(err)
		_ = g.closeFile()
		return false
	}
	return true
}

// reserveSpare reserves the bytes that a segment's file needs as a spare file. It reports
// false if no spare file of this size is needed.
func (l *Log) reserveSpare(g *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := l.segmentSize()
	more := max(0, size-g.space)
	if g.space < size/2 || l.room.used+more > l.room.records || time.Since(l.rolled) >= busyTime {
		return false
	}
	g.space += more
	l.room.used += more
	return true
}

// reportDiscarded passes the records of a discarded segment to Options.Discarded.
func (l *Log) reportDiscarded(g *segment) {
	var bodies [][]byte
	if f, _, err := openRegular(l.path(g), os.O_RDONLY); err == nil {
		data := make([]byte, g.size)
		n, _ := f.ReadAt(data, 0)
		_ = f.Close()
		c := readContents(data[:n], g.generation, nil)
		records, _ := c.left(span{0, g.records})
		for _, r := range records {
			bodies = append(bodies, r.body)
		}
	}
	if l.opts.Discarded != nil {
		l.opts.Discarded(bodies)
	}
}
