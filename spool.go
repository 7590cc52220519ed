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
	"time"
)

// ErrSpool is what errors.Is finds in the error of a call that could not be
// written to Config.Spool, or of a spool that cannot be opened. The call was not
// accepted. The error says what the file system said, and errors.Is finds that
// too.
var ErrSpool = errors.New("analytics: spool")

// spool is the calls of a client as files. A call is written before it is
// accepted: by the goroutine that makes it, or, when another is writing, by the
// one that writes next, together with all that have come meanwhile.
//
// Calls that are written go into batches in memory as well, as long as there is
// memory for them. When there is none, the spool falls behind: calls are
// written and no more, until the keeper has read back what is on the disk alone.
// So it is too when there are calls that an earlier process has left.
type spool struct {
	dir         string
	max         int64 // bytes on the disk
	segmentSize int64
	refill      int64 // calls are read back while less memory than that is used
	fsync       bool
	source      sourceID
	full        error // of a call that max leaves no room for
	log         *logger

	wake chan struct{} // room for one; whoever gives the keeper work pokes it; never closed
	stop chan struct{} // closed by the loop as it ends
	kept chan struct{} // closed by the keeper as it ends

	turns sync.Pool // of the channels that calls wait on to be written

	// What follows is guarded by the pipeline's mu.
	queue    []*scratch      // calls to be written
	leading  bool            // a goroutine is writing, or about to
	segments []*spoolSegment // those with calls that have not ended, and the active one, oldest first
	active   *spoolSegment   // the last of segments, that calls are written to; nil before the first
	done     []*spoolSegment // to be removed
	disk     int64           // bytes written and not removed, or about to be written
	behind   bool            // there are calls on the disk alone
	cursor   spoolCursor     // of them, if so
	starved  bool            // the keeper waits for memory
	touched  bool            // the keeper has been told that calls have ended, since it last saved that

	// What follows is for the one who leads.
	lock    *os.File
	file    *os.File  // of the active segment; nil if there is none, or it cannot be used
	out     []byte    // what is written, in one piece
	number  uint64    // of the newest segment
	checked time.Time // when the active segment was last seen in the directory

	page page // the keeper's
}

// spoolSegment is a file of calls.
type spoolSegment struct {
	number uint64 // its name
	seq    uint64 // the number of the call with index 0, see batch.seq
	sealed bool   // no more calls are written to it
	old    bool   // it is of an earlier process
	spared bool   // it cannot be read, and is left where it is

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
	p.mu.Lock()
	err := p.admit(ctx, recordSize(w.buf))
	if err != nil {
		p.unlock()
		return err
	}
	p.write(w, now)
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

// write has w written, by its own goroutine or another. The caller holds mu,
// and no longer does when write returns. A w without a call has it written
// which calls have ended.
func (p *pipeline) write(w *scratch, now time.Time) {
	s := p.spool
	s.queue = append(s.queue, w)
	if s.leading {
		turn := s.turns.Get().(chan bool)
		w.turn = turn
		p.unlock()
		lead := <-turn
		s.turns.Put(turn)
		if !lead {
			return
		}
		p.mu.Lock()
	}
	s.leading = true
	group := s.queue
	s.queue = w.group[:0]
	p.writeGroup(group, now)
	var next *scratch
	if len(s.queue) > 0 {
		next = s.queue[0]
	} else {
		s.leading = false
		p.work = p.work || p.closing != nil // the loop waits for the last one
	}
	p.unlock()
	if next != nil {
		next.turn <- true
	}
	for _, other := range group {
		if other != w {
			other.turn <- false
		}
	}
	clear(group)
	w.group = group
}

// writeGroup writes calls in one piece, and accepts them. The caller leads and
// holds mu, which is given up meanwhile.
func (p *pipeline) writeGroup(group []*scratch, now time.Time) {
	s := p.spool
	size, calls := int64(0), uint32(0)
	for _, w := range group {
		if len(w.buf) > 0 {
			size += recordSize(w.buf)
			calls++
		}
	}
	var err error
	if g := s.active; calls > 0 && (s.file == nil || g.calls > 0 && g.size+size > s.segmentSize || g.calls+calls > maxCalls) {
		err = p.roll()
	}
	if err == nil {
		err = p.appendGroup(group, now)
	}
	if errors.Is(err, errVanished) {
		if err = p.roll(); err == nil {
			err = p.appendGroup(group, now)
		}
	}
	if err != nil {
		s.disk -= size
		err = s.errorf(err)
	}
	for _, w := range group {
		if w.err = err; err == nil && len(w.buf) > 0 {
			p.accept(w, now)
		}
	}
}

func recordSize(call []byte) int64 { return recordHead + int64(len(call)) }

// accept counts a call that is written, and places it in a batch unless the
// spool is behind. The caller holds mu.
func (p *pipeline) accept(w *scratch, now time.Time) {
	s := p.spool
	g := s.active
	p.seq++
	p.stats.Accepted++
	at := spot{p.seq, g, g.calls}
	g.calls++
	g.size += recordSize(w.buf)
	if s.behind || p.place(w.id, w.buf, at, now) {
		return
	}
	if p.open != nil {
		p.seal(now) // what fills the memory is better sent at once
	}
	s.behind, s.starved = true, true
	s.cursor = spoolCursor{g, g.size - recordSize(w.buf), at.index}
}

// maxOut is how much memory is kept for writes to come.
const maxOut = 1 << 20

// errVanished says that the active segment is no longer in the directory: what
// is written to it dies with the process.
var errVanished = errors.New("the segment was removed while calls were written to it")

// appendGroup writes calls to the active segment, and with them which of those
// before have ended. The caller leads and holds mu, which is given up meanwhile.
func (p *pipeline) appendGroup(group []*scratch, now time.Time) error {
	s, g := p.spool, p.spool.active
	if s.file == nil {
		return nil // there are no calls in the group
	}
	unsaid := g.say()
	s.out = g.appendEnds(s.out[:0], unsaid)
	ends := int64(len(s.out))
	index := g.calls
	for _, w := range group {
		if len(w.buf) > 0 {
			s.out = appendRecord(s.out, spoolRecord{kindCall, index, w.buf})
			index++
		}
	}
	at := g.size
	p.mu.Unlock()
	err := s.writeActive(at, now)
	p.mu.Lock()
	if err == nil {
		g.size += ends
		s.disk += ends
		return nil
	}
	g.unsay(unsaid)
	if s.file == nil {
		p.retire(g)
	}
	return err
}

// writeActive writes out. When that fails the file is as it was, or given up.
func (s *spool) writeActive(at int64, now time.Time) error {
	defer func() {
		if cap(s.out) > maxOut {
			s.out = nil
		}
	}()
	if now.Sub(s.checked) > time.Second {
		s.checked = now
		if !sameFile(s.file, s.file.Name()) {
			return errVanished
		}
	}
	_, err := s.file.WriteAt(s.out, at)
	if err == nil && s.fsync {
		err = s.file.Sync()
	}
	if err != nil && s.file.Truncate(at) != nil {
		s.closeActive()
	}
	return err
}

func (s *spool) closeActive() {
	if err := s.file.Close(); err != nil {
		s.log.logf("spool: %v", err)
	}
	s.file = nil
}

// roll seals the active segment and begins another. The caller leads and holds
// mu, which is given up meanwhile.
func (p *pipeline) roll() error {
	s := p.spool
	fresh := &spoolSegment{number: s.next(), seq: p.seq + 1, size: int64(headLen)}
	p.sealActive()
	p.mu.Unlock()
	err := s.create(fresh)
	p.mu.Lock()
	if err != nil {
		return err
	}
	s.active = fresh
	s.segments = append(s.segments, fresh)
	s.disk += fresh.size
	return nil
}

func (s *spool) next() uint64 {
	s.number++
	return s.number
}

// sealActive ends the active segment, if there is one. The caller leads and
// holds mu, which is given up meanwhile.
func (p *pipeline) sealActive() {
	s, g := p.spool, p.spool.active
	if s.file == nil {
		return
	}
	unsaid := g.say()
	s.out = appendEnds(g.appendEnds(s.out[:0], unsaid), 0, tally{0, g.calls, g.saved})
	p.mu.Unlock()
	if _, err := s.file.WriteAt(s.out, g.size); err != nil {
		s.log.debugf("spool: cannot seal a segment: %v", err) // its next reader counts for itself
	}
	s.closeActive()
	p.mu.Lock()
	g.size += int64(len(s.out))
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
		dst = appendEnds(dst, s.first, tally{s.len(), g.calls, g.saved})
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
