package analytics

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSpool is what errors.Is finds in the error of a call that could not be
// written to Config.Spool, or of a spool that cannot be opened. The call was not
// accepted. The error says what the file system said, and errors.Is finds that
// too.
var ErrSpool = errors.New("analytics: spool")

// spool is the calls of a client as files. A call is written before it is
// accepted: by the goroutine that makes it or, together with all that have come
// meanwhile, by another one that was before it.
//
// Calls that are written go into batches in memory as well, as long as there is
// memory for them. When there is none, the spool falls behind: calls are
// written and no more, until the keeper has read back what is on the disk alone.
// So it is too when there are calls that an earlier process has left.
type spool struct {
	dir         string
	max         int64 // bytes on the disk
	segmentSize int64 // what a segment has at most, while there is not much on the disk
	refill      int64 // calls are read back while less memory than that is used
	fsync       bool
	source      sourceID
	full        error // of a call that max leaves no room for
	log         *logger

	wake chan struct{} // room for one; whoever gives the keeper work pokes it; never closed
	stop chan struct{} // closed by the loop as it ends
	kept chan struct{} // closed by the keeper as it ends

	// What follows is guarded by the pipeline's mu.
	queue    []*scratch      // calls to be written
	writers  int             // calls in queue, or being written
	segments []*spoolSegment // those with calls that have not ended, and the active one, oldest first
	active   *spoolSegment   // the last of segments, that calls are written to; nil before the first
	done     []*spoolSegment // to be removed
	spares   []*segmentFile  // for segments to come
	disk     int64           // bytes written and not removed, or about to be written
	behind   bool            // there are calls on the disk alone
	cursor   spoolCursor     // of them, if so
	starved  bool            // the keeper waits for memory
	touched  bool            // the keeper has been told that calls have ended, since it last saved that

	// Writing is held by who writes to the active segment, and while it does:
	// it is what puts calls in their order. It is taken before mu, and guards
	// what follows.
	writing sync.Mutex
	lock    *os.File
	out     []byte     // what is written, in one piece
	group   []*scratch // memory for a queue
	number  uint64     // of the newest segment
	checked time.Time  // when the active segment was last seen in the directory

	mapped atomic.Int32 // files that are mapped, see segmentFile

	page page // the keeper's
}

// spoolSegment is a file of calls.
type spoolSegment struct {
	number  uint64 // its name
	edition uint32 // of its records
	seq     uint64 // the number of the call with index 0, see batch.seq

	// File is of those who hold writing while the segment is active, and then
	// of the keeper. It is nil if it is closed.
	file *segmentFile

	sealed bool // no more calls are written to it
	old    bool // it is of an earlier process
	spared bool // it cannot be read, and is left where it is

	// Its calls were dropped unread: the callback is to be told of them before
	// it is removed.
	discarded bool

	size   int64  // bytes
	calls  uint32 // calls in it
	ended  uint32 // those of them that have ended
	saved  uint32 // those of them of which the file says so
	unsaid []span // the others
}

// spoolCursor is where the calls begin that are on the disk alone.
type spoolCursor struct {
	segment *spoolSegment
	offset  int64
	index   uint32
}

// spot is where a call is in the order of all, and on the disk.
type spot struct {
	seq     uint64        // see batch.seq
	segment *spoolSegment // nil without a spool
	index   uint32
}

// sourceID tells sources apart without giving away the write key.
type sourceID [8]byte

func sourceOf(writeKey string) (id sourceID) {
	sum := sha256.Sum256([]byte(writeKey))
	copy(id[:], sum[:])
	return id
}

func (s *spool) path(g *spoolSegment) string {
	return filepath.Join(s.dir, segmentName(g.number))
}

// feed wakes the keeper if it waits for memory, and there is some.
func (s *spool) feed(used int64) {
	if s.starved && used < s.refill {
		s.starved = false
		s.poke()
	}
}

func (s *spool) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it has been poked already
	}
}

func (s *spool) errorf(err error) error { return fmt.Errorf("%w: %w", ErrSpool, err) }

// addSpooled is add with a spool: it accepts the call once it is written.
func (p *pipeline) addSpooled(ctx context.Context, w *scratch, now time.Time) error {
	startRecord(w.buf, kindCall)
	w.written = false
	s := p.spool
	p.mu.Lock()
	if err := p.admit(ctx, int64(len(w.buf))); err != nil {
		p.unlock()
		return err
	}
	s.queue = append(s.queue, w)
	s.writers++
	p.unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if !w.written {
		p.writeQueue(now)
	}
	return w.err
}

// admit takes room on the disk for n bytes. The caller holds mu.
func (p *pipeline) admit(ctx context.Context, n int64) error {
	s := p.spool
	for p.closing == nil {
		switch {
		case s.disk+n <= s.max:
			s.disk += n
			return nil
		case p.whenFull == DropOldest && (p.dropOldest(DropOverflow) || p.discardOldest()):
		case p.whenFull == Block:
			if err := p.waitForRoom(ctx); err != nil {
				return err
			}
		default:
			return s.full
		}
	}
	return ErrClosed
}

// writeQueue writes the calls that wait in one piece, and accepts them. The
// caller holds writing.
func (p *pipeline) writeQueue(now time.Time) {
	s := p.spool
	p.mu.Lock()
	group := s.queue
	s.queue = s.group[:0]
	size := int64(0)
	for _, w := range group {
		size += int64(len(w.buf))
	}
	err := p.writeGroup(group, size, now)
	if err != nil {
		s.disk -= size
		err = s.errorf(err)
	}
	for _, w := range group {
		if w.written, w.err = true, err; err == nil {
			p.accept(w, now)
		}
	}
	s.writers -= len(group)
	p.work = p.work || p.closing != nil // the loop waits for the last one
	p.unlock()
	clear(group)
	s.group = group
}

// writeGroup writes calls to a segment that has room for them. The caller holds
// writing and mu, which is given up meanwhile.
func (p *pipeline) writeGroup(group []*scratch, size int64, now time.Time) error {
	s := p.spool
	if !s.writable() || s.isFull(size, len(group)) {
		if err := p.roll(); err != nil {
			return err
		}
	}
	err := p.appendGroup(group, now)
	if errors.Is(err, errVanished) {
		if err = p.roll(); err == nil {
			err = p.appendGroup(group, now)
		}
	}
	return err
}

// writable reports whether there is an active segment that can be used. The
// caller holds writing.
func (s *spool) writable() bool { return s.active != nil && s.active.file != nil && !s.active.sealed }

// isFull reports whether the active segment has no room for calls. Large
// segments are for a backlog, which is opened the faster the fewer they are; the
// small ones of a spool that keeps up are used again soon, while the processor's
// cache still has them. The caller holds writing and mu.
func (s *spool) isFull(size int64, calls int) bool {
	g := s.active
	limit := min(max(s.segmentSize, s.disk/16), maxSegment)
	if mapped := len(g.file.mapped); mapped > 0 {
		limit = int64(mapped)
	}
	return g.calls > 0 && (g.size+size > limit || int(g.calls)+calls > maxCalls)
}

// accept counts a call that is written, and places it in a batch unless the
// spool is behind. The caller holds mu.
func (p *pipeline) accept(w *scratch, now time.Time) {
	s := p.spool
	g := s.active
	p.seq++
	p.stats.Accepted++
	at := spot{p.seq, g, g.calls}
	g.calls++
	g.size += int64(len(w.buf))
	if s.behind || p.place(w.id, w.call(), at, now) {
		return
	}
	if p.open != nil {
		p.seal(now) // what fills the memory is better sent at once
	}
	s.behind, s.starved = true, true
	s.cursor = spoolCursor{g, g.size - int64(len(w.buf)), at.index}
}

// maxOut is how much memory is kept for writes to come.
const maxOut = 1 << 20

// errVanished says that the active segment is no longer in the directory: what
// is written to it dies with the process.
var errVanished = errors.New("the segment was removed while calls were written to it")

// appendGroup writes calls to the active segment, and with them which of those
// before have ended. The caller holds writing and mu, which is given up
// meanwhile.
func (p *pipeline) appendGroup(group []*scratch, now time.Time) error {
	s, g := p.spool, p.spool.active
	unsaid := g.say()
	at := g.size
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
	err := s.writeActive(out, at, now)
	p.mu.Lock()
	if err == nil {
		g.size += ends
		s.disk += ends
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
func (s *spool) writeActive(out []byte, at int64, now time.Time) error {
	f := s.active.file
	if now.Sub(s.checked) > time.Second {
		s.checked = now
		if !sameFile(f.File, f.path) {
			return errVanished
		}
	}
	err := f.write(out, at)
	if err == nil && s.fsync {
		err = f.Sync()
	}
	if err != nil && errors.Join(f.unmap(), f.Truncate(at)) != nil {
		s.active.closeFile(s.log)
	}
	return err
}

func (g *spoolSegment) closeFile(log *logger) {
	if err := g.file.close(); err != nil {
		log.logf("spool: %v", err)
	}
	g.file = nil
}

// roll ends the active segment and begins another. The caller holds writing and
// mu, which is given up meanwhile.
func (p *pipeline) roll() error {
	s := p.spool
	s.number++
	fresh := &spoolSegment{number: s.number, edition: uint32(s.number), seq: p.seq + 1, size: int64(headLen)}
	switch {
	case !s.writable():
	case s.active.file.mapped != nil: // it is kept open, to be used again
		p.retire(s.active)
	default:
		p.sealActive()
	}
	var spare *segmentFile
	if n := len(s.spares); n > 0 {
		spare, s.spares = s.spares[n-1], s.spares[:n-1]
	}
	p.mu.Unlock()
	file, err := s.create(fresh, spare)
	p.mu.Lock()
	if err != nil {
		return err
	}
	fresh.file = file
	s.active = fresh
	s.segments = append(s.segments, fresh)
	s.disk += fresh.size
	return nil
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
	err := g.file.write(s.out, g.size)
	end := g.size + int64(len(s.out))
	if err == nil {
		err = g.file.Truncate(end)
	}
	if err != nil {
		s.log.debugf("spool: cannot seal a segment: %v", err) // its next reader counts for itself
	}
	g.closeFile(s.log)
	p.mu.Lock()
	g.size = end
	s.disk += int64(len(s.out))
	p.retire(g)
}

// retire writes no more calls to a segment.
func (p *pipeline) retire(g *spoolSegment) {
	g.sealed = true
	p.finish(g)
}

// finish has a segment removed if there is nothing left of it.
func (p *pipeline) finish(g *spoolSegment) {
	s := p.spool
	if !g.sealed || g.ended < g.calls {
		return
	}
	i := slices.Index(s.segments, g)
	if i < 0 {
		return
	}
	s.segments = slices.Delete(s.segments, i, i+1)
	s.disk -= g.size
	s.done = append(s.done, g)
	s.poke()
	p.wakeWaiting()
}

// endSpooled notes that calls have ended. The caller holds mu.
func (p *pipeline) endSpooled(g *spoolSegment, calls span) {
	g.ended += calls.len()
	g.unsaid = addSpan(g.unsaid, calls)
	p.finish(g)
	if !p.spool.touched {
		p.spool.touched = true
		p.spool.poke()
	}
}

// say takes out what is to be written of the calls that have ended.
func (g *spoolSegment) say() []span {
	unsaid := g.unsaid
	g.unsaid = nil
	for _, s := range unsaid {
		g.saved += s.len()
	}
	return unsaid
}

// unsay puts back what could not be written.
func (g *spoolSegment) unsay(spans []span) {
	for _, s := range spans {
		g.saved -= s.len()
	}
	g.unsaid = append(spans, g.unsaid...)
}

// appendEnds writes that calls have ended. The last record has the sum.
func (g *spoolSegment) appendEnds(dst []byte, spans []span) []byte {
	for _, s := range spans {
		dst = appendEnds(dst, g.edition, s.first, tally{s.len(), g.calls, g.saved})
	}
	return dst
}

// discardOldest gives up the oldest segment that is on the disk alone; it
// reports false if there is none. The caller holds mu.
func (p *pipeline) discardOldest() bool {
	s := p.spool
	if !s.behind {
		return false
	}
	i := slices.Index(s.segments, s.cursor.segment) + 1
	if i >= len(s.segments) || !s.segments[i].sealed {
		return false
	}
	g := s.segments[i]
	n := g.calls - g.ended
	p.stats.Dropped.Overflow += int64(n)
	p.endFlushes(g.seq, int64(n))
	g.ended = g.calls
	g.discarded = true
	p.finish(g)
	return true
}
