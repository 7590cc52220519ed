package analytics

import (
	"errors"
	"time"
)

// maxGroup is how many bytes of calls are written in one piece.
const maxGroup = 1 << 20

// takeGroup takes the calls out of the queue that are to be written next, and says
// how many bytes they are.
func (s *spool) takeGroup() (group []*scratch, size int64) {
	n := 0
	for n < len(s.queue) && size < maxGroup-MaxCallBytes {
		size += int64(len(s.queue[n].buf))
		n++
	}
	group = s.queue[:n:n]
	s.queue = append(s.group[:0], s.queue[n:]...)
	return group, size
}

// writeQueue writes calls that wait in one piece, the first of them first, and
// accepts them. The caller holds writing, and mu, which is given up.
func (p *pipeline) writeQueue(now time.Time) {
	s := p.spool
	group, size := s.takeGroup()
	err := p.writeGroup(group, size, now)
	if err != nil {
		err = s.errorf(err)
	}
	for _, w := range group {
		if w.written, w.err = true, err; err == nil {
			p.accept(w, now)
		}
	}
	s.writers -= len(group)
	s.queued -= size
	p.work = p.work || p.closing != nil // the loop waits for the last one
	p.unlock()
	clear(group)
	s.group = group
}

// writeGroup writes calls of so many bytes to the active segment, or to another
// one. The caller holds writing and mu, which is given up meanwhile.
func (p *pipeline) writeGroup(group []*scratch, size int64, now time.Time) error {
	s := p.spool
	if !s.writable() || s.isFull(size, len(group)) {
		if err := p.roll(now); err != nil {
			return err
		}
	}
	err := p.appendGroup(group, now)
	if errors.Is(err, errVanished) {
		p.note("spool: %v", err)
		if err = p.roll(now); err == nil {
			err = p.appendGroup(group, now)
		}
	}
	return err
}

// writable reports whether there is an active segment that can be used. The
// caller holds writing.
func (s *spool) writable() bool { return s.active != nil && s.active.file != nil && !s.active.sealed }

// isFull reports whether the active segment has no room for so many bytes of
// calls. The caller holds writing and mu.
func (s *spool) isFull(size int64, calls int) bool {
	g := s.active
	limit := s.limit()
	if g.file.mapped != nil {
		limit = int64(len(g.file.mapped))
	}
	return g.calls > 0 && (g.size+size > limit || int(g.calls)+calls > maxCalls)
}

// limit is how large a segment may become. Large ones are for a backlog, which
// is opened the faster the fewer they are; the small ones of a spool that keeps
// up are used again soon, while the processor's cache still has them. The caller
// holds mu.
func (s *spool) limit() int64 { return min(max(s.segmentSize, s.disk/16), maxSegment) }

// maxOut is how much memory is kept for writes to come.
const maxOut = 1 << 20

// errVanished says that what is written to the active segment dies with the
// process. What was written before is not lost while the process lives.
var errVanished = errors.New("the file, or a part of it, was removed while calls were written to it")

// appendGroup writes calls to the active segment, and with them which of those
// before have ended. The caller holds writing and mu, which is given up
// meanwhile.
func (p *pipeline) appendGroup(group []*scratch, now time.Time) error {
	s, g := p.spool, p.spool.active
	unsaid := g.say()
	p.mu.Unlock()
	s.out = g.appendEnds(s.out[:0], unsaid)
	ends := int64(len(s.out))
	for i, w := range group {
		endRecord(w.buf, g.edition, g.calls+uint32(i))
	}
	out := s.out
	if len(group) == 1 && ends == 0 {
		out = group[0].buf
	} else {
		for _, w := range group {
			out = append(out, w.buf...)
		}
		s.keep(out)
	}
	err := s.writeActive(out, now)
	p.mu.Lock()
	if err == nil {
		s.grow(g, ends)
		return nil
	}
	g.unsay(unsaid)
	if g.file == nil {
		p.retire(g)
	}
	return err
}

// keep keeps out for writes to come, unless it is large.
func (s *spool) keep(out []byte) {
	if s.out = out; cap(out) > maxOut {
		s.out = nil
	}
}

// writeActive writes to the active segment. When that fails the file is as it
// was, or given up. The caller holds writing.
func (s *spool) writeActive(out []byte, now time.Time) error {
	g := s.active
	if now.Sub(s.checked) > time.Second {
		s.checked = now
		if !sameFile(g.file.File, g.file.path) {
			return errVanished
		}
	}
	err := g.file.write(out, g.size)
	if err == nil && s.fsync {
		err = g.file.Sync()
	}
	if err != nil && errors.Join(g.file.unmap(), g.file.Truncate(g.size)) != nil {
		err = errors.Join(err, g.closeFile())
	}
	return err
}

func (g *spoolSegment) closeFile() error {
	err := g.file.close()
	g.file = nil
	return err
}

// roll ends the active segment and begins another. The caller holds writing and
// mu, which is given up meanwhile.
func (p *pipeline) roll(now time.Time) error {
	s := p.spool
	busy := now.Sub(s.rolled) < busyTime
	s.rolled = now
	if p.canStayOpen() {
		p.retire(s.active)
	} else {
		p.sealActive()
	}
	var size int64 // of what is mapped
	if free := s.max - s.disk; busy && free >= s.segmentSize {
		size = min(s.limit(), free)
	}
	taken := max(size, int64(headLen)) // what the file is charged until it is there
	var spare *segmentFile
	if n := len(s.spares); n > 0 {
		spare, s.spares = s.spares[n-1], s.spares[:n-1]
		s.spare -= spare.size
		taken, size = spare.size, min(size, spare.size)
	} else {
		s.disk += taken
	}
	s.number++
	fresh := &spoolSegment{number: s.number, edition: uint32(s.number), seq: p.seq + 1, size: int64(headLen)}
	p.mu.Unlock()
	file, err := s.create(fresh, spare, size)
	p.mu.Lock()
	s.disk -= taken
	if err != nil {
		return err
	}
	fresh.file, fresh.space = file, file.size
	s.active = fresh
	s.segments = append(s.segments, fresh)
	s.disk += fresh.space
	return nil
}

// canStayOpen reports whether the active segment is full and mapped, and likely
// to be used again soon. The caller holds writing and mu.
func (p *pipeline) canStayOpen() bool {
	s := p.spool
	return s.writable() && s.active.file.mapped != nil && s.active.space-s.active.size <= MaxCallBytes &&
		!s.behind() && s.mapped.Load() <= maxMapped
}

// sealActive ends the active segment, if there is one, with a record by which it
// can be opened without being read. The caller holds writing and mu, which is
// given up meanwhile.
func (p *pipeline) sealActive() {
	s, g := p.spool, p.spool.active
	if !s.writable() {
		return
	}
	unsaid := g.say()
	s.out = appendEnds(g.appendEnds(s.out[:0], unsaid), g.edition, 0, tally{0, g.calls, g.saved})
	p.mu.Unlock()
	n := int64(len(s.out))
	err := errors.Join(g.file.write(s.out, g.size), g.file.unmap()) // to cut a mapped file short takes 20 times as long
	if err == nil {
		err = g.file.Truncate(g.size + n)
	}
	err = errors.Join(err, g.closeFile())
	p.mu.Lock()
	if err != nil && s.log.verbose {
		p.note("spool: cannot seal a segment: %v", err) // its next reader counts for itself
	}
	s.grow(g, n)
	s.disk -= g.space - g.size
	g.space = g.size
	p.retire(g)
}
