package analytics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// saveEvery is how long the file of a call may not say yet that the call
	// has ended. If the process dies before, the call is sent again.
	saveEvery = 100 * time.Millisecond
	// retryEvery is how long the keeper waits after it could not read or remove
	// a segment, and maxReads how often it tries to read it.
	retryEvery = time.Second
	maxReads   = 10
	// placeAtOnce is how many calls are placed in batches while callers wait.
	placeAtOnce = 128
	// shortPage is how many bytes are read at a time where that can be chosen.
	shortPage = 256 << 10
)

// page is what the keeper has read of a segment, and has not placed yet.
type page struct {
	data  []byte        // memory that is used again, as is that of calls
	calls []spoolRecord // parts of data
	ids   []callID      // of calls, if there is a callback
	done  int           // how many of calls are placed
	next  spoolCursor   // behind the page
	reads int           // those that failed
}

func (g *page) left() int { return len(g.calls) - g.done }

// keep is the keeper's goroutine. It does what is slow, and what no call waits
// for: it reads back calls that are on the disk alone, writes down which calls
// have ended, and removes segments of which all have.
func (p *pipeline) keep() {
	s := p.spool
	defer close(s.kept)
	timer := time.NewTimer(asleep)
	defer timer.Stop()
	var save, remove, read time.Time // when each is due; zero if it is not
	for {
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.stop:
			return
		}
		now := time.Now()
		if save = p.saveDue(save, now); !save.IsZero() && !now.Before(save) {
			p.saveEnded()
			save = time.Time{}
		}
		if !now.Before(remove) {
			remove = time.Time{}
			if !p.removeDone() {
				remove = now.Add(retryEvery)
			}
		}
		if !now.Before(read) {
			read = time.Time{}
			if !p.readBack() {
				read = now.Add(retryEvery)
			}
		}
		timer.Reset(time.Until(earliest(save, remove, read, now.Add(asleep))))
	}
}

func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (p *pipeline) saveDue(due, now time.Time) time.Time {
	p.mu.Lock()
	defer p.unlock()
	if due.IsZero() && p.spool.touched {
		return now.Add(saveEvery)
	}
	return due
}

// saveEnded writes down which calls have ended.
func (p *pipeline) saveEnded() {
	p.mu.Lock()
	s := p.spool
	s.touched = false
	var sealed []*spoolSegment
	for _, g := range s.segments {
		if g.sealed && len(g.unsaid) > 0 {
			sealed = append(sealed, g)
		}
	}
	p.unlock()
	p.saveActive()
	for _, g := range sealed {
		p.saveSealed(g)
	}
}

func (p *pipeline) saveActive() {
	s := p.spool
	s.writing.Lock()
	defer s.writing.Unlock()
	p.mu.Lock()
	defer p.unlock()
	if g := s.active; s.writable() && len(g.unsaid) > 0 {
		if err := p.appendGroup(nil, time.Now()); err != nil && s.log.verbose {
			p.note("spool: calls may be sent again by the next process: %v", err)
		}
	}
}

func (p *pipeline) saveSealed(g *spoolSegment) {
	p.mu.Lock()
	s := p.spool
	ends := g.appendEnds(nil, g.say())
	at := g.size
	gone := g.ended == g.calls // it is, or will be, removed
	if !gone {
		s.grow(g, int64(len(ends)))
	}
	p.unlock()
	if gone {
		return
	}
	f, _, err := openRegular(s.path(g), os.O_WRONLY)
	if err == nil {
		_, err = f.WriteAt(ends, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil && s.log.verbose {
		p.report("spool: calls may be sent again by the next process: %v", err)
	}
}

// removeDone removes segments of which every call has ended. It reports false if
// it is to be tried again.
func (p *pipeline) removeDone() bool {
	s := p.spool
	p.mu.Lock()
	done := s.done
	s.done = nil
	p.unlock()
	var stuck []*spoolSegment
	for _, g := range done {
		if g.discarded {
			p.tellDiscarded(g)
			g.discarded = false
		}
		err := p.removeFile(g)
		p.mu.Lock()
		if !g.stuck { // nobody waits for those
			s.doomed -= g.space
		}
		switch {
		case err == nil && !g.spared:
			s.disk -= g.space
		case err != nil:
			if !g.stuck {
				p.note("spool: calls will be sent again by the next process: %v", err)
			}
			g.stuck = true
			stuck = append(stuck, g)
		}
		p.wakeWaiting()
		p.unlock()
	}
	p.mu.Lock()
	defer p.unlock()
	s.done = append(stuck, s.done...)
	return len(stuck) == 0
}

// removeFile removes the file of a segment, or keeps it for another one.
func (p *pipeline) removeFile(g *spoolSegment) error {
	if g.spared {
		if g.file != nil {
			_ = g.closeFile()
		}
		return nil
	}
	if p.keepSpare(g) {
		return nil
	}
	if err := os.Remove(p.spool.path(g)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepSpare keeps the file of a segment for one to come. It reports false if the
// file is to be removed.
func (p *pipeline) keepSpare(g *spoolSegment) bool {
	s := p.spool
	p.mu.Lock()
	enough := len(s.spares) >= maxSpares || s.disk > s.max
	p.unlock()
	if g.file == nil && (enough || !p.mapAgain(g)) {
		return false
	}
	path := filepath.Join(s.dir, fmt.Sprintf("%016x%s", g.number, spareSuffix))
	if enough || g.file.rename(path) != nil {
		_ = g.closeFile()
		return false
	}
	g.file.size = max(g.file.size, g.space)
	p.mu.Lock()
	defer p.unlock()
	s.spares = append(s.spares, g.file)
	s.spare += g.file.size
	s.disk += g.file.size
	return true
}

// mapAgain opens the file of a segment once more, to be kept, if that is of use.
func (p *pipeline) mapAgain(g *spoolSegment) bool {
	s := p.spool
	p.mu.Lock()
	use := g.space >= s.segmentSize/2 && s.disk+max(0, s.segmentSize-g.space) <= s.max && time.Since(s.rolled) < busyTime
	p.unlock()
	if !use || g.old || s.fsync || s.unmapped.Load() || s.mapped.Load() >= maxMapped {
		return false
	}
	f, _, err := openRegular(s.path(g), os.O_RDWR)
	if err != nil {
		return false
	}
	g.file = &segmentFile{File: f, path: s.path(g), count: &s.mapped}
	if err = g.file.mapFirst(s.segmentSize); err != nil {
		s.noteMapping(err)
		_ = g.closeFile()
		return false
	}
	return true
}

// tellDiscarded tells of the calls of a segment that was dropped unread.
func (p *pipeline) tellDiscarded(g *spoolSegment) {
	lost := &batch{}
	var calls []spoolRecord
	if f, _, err := openRegular(p.spool.path(g), os.O_RDONLY); err == nil {
		data := make([]byte, g.size)
		n, _ := f.ReadAt(data, 0)
		_ = f.Close()
		c := readContents(data[:n], g.edition, nil)
		calls, _ = c.left(span{0, g.calls})
	}
	lost.calls = len(calls)
	if p.callback != nil {
		for _, r := range calls {
			lost.ids = append(lost.ids, readID(r.body))
		}
	}
	p.mu.Lock()
	defer p.unlock()
	p.tell(notice{batch: lost, why: &DropError{Reason: DropOverflow}})
}

// readID finds out what a callback is told an encoded call by.
func readID(encoded []byte) callID {
	var id struct{ MessageId, Type string }
	_ = json.Unmarshal(encoded, &id) // the client wrote it
	return callID{id.MessageId, id.Type}
}

// readBack places calls that are on the disk alone in batches, while there is
// memory. It reports false if a segment cannot be read now.
func (p *pipeline) readBack() bool {
	s := p.spool
	for {
		p.mu.Lock()
		want, more := p.nextPage()
		from := s.cursor
		p.unlock()
		if !more {
			return true
		}
		if s.page.left() == 0 && !p.readPage(from, want) {
			return false
		}
		p.removeDone() // those who make calls may wait for the room
		p.mu.Lock()
		more = p.placePage(time.Now())
		p.unlock()
		if !more {
			return true
		}
	}
}

// nextPage says which calls, from the cursor on, are to be read next, unless
// there is a page already. There is no more to do if the spool has caught up, or
// there is no memory. The caller holds mu.
func (p *pipeline) nextPage() (want span, more bool) {
	s := p.spool
	switch {
	case !s.behind() || p.abortErr != nil:
		s.page = page{}
		return want, false
	case p.held() >= s.refill:
		s.state = starved
		return want, false
	}
	s.state = reading
	if s.page.left() > 0 {
		return want, true
	}
	for {
		g := s.cursor.segment
		if s.cursor.index < g.calls {
			s.page.next = spoolCursor{g, g.size, g.calls}
			return span{s.cursor.index, g.calls}, true
		}
		i := s.afterCursor()
		if i < 0 {
			p.caughtUp()
			return want, false
		}
		s.cursor = spoolCursor{segment: s.segments[i]}
	}
}

// afterCursor is the index of the first segment behind the cursor's, which may
// be gone itself; it is -1 if there is none. The caller holds mu.
func (s *spool) afterCursor() int {
	return slices.IndexFunc(s.segments, func(g *spoolSegment) bool { return g.number > s.cursor.segment.number })
}

// caughtUp ends the time in which calls are on the disk alone. The caller holds
// mu.
func (p *pipeline) caughtUp() {
	s := p.spool
	s.state, s.cursor, s.page = inMemory, spoolCursor{}, page{}
	if p.open != nil && len(p.flushes) > 0 {
		p.seal(time.Now()) // as it would have been, had the flush found it
	}
	p.work = true // the loop may wait for this to end
}

// readPage reads the calls of want, which begin at a cursor, and counts those
// that are not there as lost. It reports false if it is to be tried again.
func (p *pipeline) readPage(from spoolCursor, want span) bool {
	s, g := p.spool, from.segment
	c, err := s.contents(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if s.page.reads++; s.page.reads < maxReads {
			p.report("spool: calls have to wait: %v", err)
			return false
		}
		g.spared = true
	}
	s.page.reads = 0
	s.page.done, s.page.ids = 0, s.page.ids[:0]
	if err != nil {
		s.page.calls = s.page.calls[:0]
		p.lose(g, want, err)
		return true
	}
	if want.end = s.page.next.index; g.old {
		want.end = max(want.end, c.upTo)
	}
	calls, missing := c.left(want)
	if g.old {
		p.recount(g, want.end, len(calls), missing)
	}
	if c.damaged > 0 {
		err = fmt.Errorf("%s: %d bytes from byte %d on are no whole record", s.path(g), c.damaged, from.offset+int64(c.damagedAt))
		if len(missing) == 0 {
			p.report("spool: %v; no call is known to be lost", err)
		}
	} else {
		err = fmt.Errorf("%s: calls are missing", s.path(g))
	}
	for _, m := range missing {
		p.lose(g, m, err)
	}
	s.page.calls = calls
	if p.callback != nil {
		for _, r := range calls {
			s.page.ids = append(s.page.ids, readID(r.body))
		}
	}
	return true
}

// contents reads what is behind a cursor, up to the end of the page: all that is
// left of a segment, since what is said of a call, that it has ended, may be far
// behind it. That is not so where all calls are on the disk alone; then the page
// is made shorter, as long as nothing is damaged.
func (s *spool) contents(from spoolCursor) (c contents, err error) {
	g, end := from.segment, s.page.next.offset
	if short := from.offset + shortPage; !g.old && short < end {
		data, err := s.read(g, from.offset, short)
		if err != nil {
			return c, err
		}
		c = readContents(data, g.edition, s.page.calls)
		if c.damaged == 0 && c.end > 0 && c.upTo >= from.index {
			s.page.next = spoolCursor{g, from.offset + int64(c.end), c.upTo}
			return c, nil
		}
	}
	data, err := s.read(g, from.offset, end)
	if err != nil {
		return c, err
	}
	c = readContents(data, g.edition, s.page.calls)
	c.judgeEnd(data, g.edition)
	return c, nil
}

// read returns the bytes of a part of a segment, or as many as there are. They
// are good until it is called again.
func (s *spool) read(g *spoolSegment, from, to int64) ([]byte, error) {
	f, _, err := openRegular(s.path(g), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n := int(to - from); cap(s.page.data) < n {
		s.page.data = make([]byte, n, max(n+n/8, shortPage))
	}
	data := s.page.data[:to-from]
	n, err := f.ReadAt(data, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// recount corrects what was believed of an earlier process's segment before it
// was read.
func (p *pipeline) recount(g *spoolSegment, calls uint32, left int, missing []span) {
	for _, m := range missing {
		left += int(m.len())
	}
	p.mu.Lock()
	defer p.unlock()
	more := int64(left) - int64(g.calls-g.ended)
	p.stats.Accepted += more
	p.stats.Recovered += more
	g.calls = calls
	g.ended = calls - uint32(left)
	g.saved = g.ended
	p.spool.page.next.index = calls
	p.finish(g)
}

// lose counts calls as dropped whose records cannot be read.
func (p *pipeline) lose(g *spoolSegment, calls span, err error) {
	p.mu.Lock()
	defer p.unlock()
	n := min(calls.len(), g.calls-g.ended) // of a segment that cannot be read, some may have ended before
	if n == 0 {
		return
	}
	p.stats.Dropped.Damaged += int64(n)
	p.endFlushes(g.seq+uint64(calls.first), int64(n))
	p.endSpooled(g, span{calls.end - n, calls.end})
	p.tell(notice{batch: &batch{calls: int(n)}, why: &DropError{Reason: DropDamaged, Err: err}})
}

// placePage places some of the page's calls. It reports false if there is no
// memory for them. The caller holds mu.
func (p *pipeline) placePage(now time.Time) bool {
	s := p.spool
	g := s.page.next.segment
	for range min(placeAtOnce, s.page.left()) {
		r := s.page.calls[s.page.done]
		var id callID
		if p.callback != nil {
			id = s.page.ids[s.page.done]
		}
		if !p.place(id, r.body, spot{g.seq + uint64(r.index), g, r.index}, now) {
			if p.open != nil {
				p.seal(now)
			}
			s.state = starved
			return false
		}
		s.page.done++
	}
	if s.page.left() == 0 {
		s.cursor = s.page.next
	}
	return true
}

// spoolFinished reports whether the spool has nothing more for the loop, which
// is to end. The caller holds mu.
func (l *loop) spoolFinished() bool {
	s := l.spool
	return s == nil || s.writers == 0 && (!s.behind() || !l.giveUp.IsZero())
}

// closeSpool ends the keeper and gives up the directory. Nothing else uses the
// spool then.
func (p *pipeline) closeSpool() {
	s := p.spool
	close(s.stop)
	<-s.kept
	p.saveEnded()
	s.writing.Lock()
	defer s.writing.Unlock()
	p.mu.Lock()
	p.sealActive()
	p.unlock()
	p.removeDone()
	p.mu.Lock()
	spares := s.spares
	s.spares, s.spare = nil, 0
	p.unlock()
	for _, spare := range spares {
		_ = spare.drop()
		p.mu.Lock()
		s.disk -= spare.size
		p.unlock()
	}
	for _, g := range s.segments {
		if g.file != nil {
			_ = g.closeFile()
		}
	}
	_ = s.lock.Close()
}
