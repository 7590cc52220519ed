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
// meanwhile, by one that was before it.
//
// Calls that are written go into batches in memory as well, as long as there is
// memory for them. When there is none, the spool falls behind: calls are
// written and no more, until the keeper has read back what is on the disk alone.
// So it is too when there are calls that an earlier process has left.
type spool struct {
	dir         string
	max         int64 // bytes on the disk
	segmentSize int64 // of a segment, while there is not much on the disk
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
	queued   int64           // the bytes of these
	segments []*spoolSegment // those with calls that have not ended, and the active one, oldest first
	active   *spoolSegment   // the last of segments, that calls are written to; nil before the first
	done     []*spoolSegment // to be removed
	spares   []*segmentFile  // files for segments to come
	spare    int64           // the bytes of these
	disk     int64           // the bytes of all files, until they are gone
	doomed   int64           // those of them that the keeper is about to remove
	rolled   time.Time       // when active was begun
	state    spoolState
	cursor   spoolCursor // of the calls on the disk alone, if there are any
	touched  bool        // the keeper has been told that calls have ended, since it last saved that

	// Writing is held by whoever writes to the active segment, which puts calls
	// in their order. It is taken before mu; that is what others wait for, who
	// have no use for the disk. It guards what follows.
	writing sync.Mutex
	lock    *os.File
	out     []byte     // what is written, in one piece
	group   []*scratch // memory for a queue
	number  uint64     // of the newest segment
	checked time.Time  // when the active segment was last seen in the directory

	mapped   atomic.Int32 // files that are mapped, see segmentFile
	unmapped atomic.Bool  // none can be

	page page // the keeper's
}

// spoolState says how calls get into batches:
//
//	inMemory  → spilling  a call has waited for memory in vain
//	inMemory  → starved   there is no memory for a call
//	spilling  → starved   the next call is written
//	starved   → reading   the collector has answered, and memory has come free
//	reading   → starved   that memory is taken
//	any other → inMemory  all calls have been read back
type spoolState int

const (
	inMemory spoolState = iota // each call is placed in a batch as it is written
	spilling                   // the next call stays on the disk alone
	starved                    // calls are on the disk alone; the keeper waits for memory to read them
	reading                    // likewise, and the keeper reads them
)

// behind reports whether there are calls on the disk alone.
func (s *spool) behind() bool { return s.state >= starved }

// spoolSegment is a file of calls.
type spoolSegment struct {
	number  uint64 // its name
	edition uint32 // of its records
	seq     uint64 // the number of the call with index 0, see batch.seq

	// File is used by those who hold writing while the segment is active, and
	// by the keeper later. It is nil if it is closed.
	file *segmentFile

	sealed bool // no more calls are written to it
	old    bool // it is of an earlier process
	spared bool // it cannot be read, and is left where it is
	stuck  bool // it could not be removed

	// Its calls were dropped unread: the callback is to be told of them before
	// it is removed.
	discarded bool

	size   int64  // bytes up to the end of the last record
	space  int64  // bytes of the file
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

// feed wakes the keeper if it waits for memory, and there is some. Held is what
// sealed batches take: an open one does not wait for the collector.
func (s *spool) feed(held int64) {
	if s.state == starved && held < s.refill {
		s.state = reading
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
	s := p.spool
	startRecord(w.buf, kindCall)
	w.written = false
	p.mu.Lock()
	p.awaitMemory(ctx, len(w.call()), now)
	if err := p.admit(ctx, int64(len(w.buf))); err != nil {
		p.unlock()
		return err
	}
	s.queue = append(s.queue, w)
	s.writers++
	s.queued += int64(len(w.buf))
	if s.writing.TryLock() { // else mu is given up first: writing is taken before it
		p.writeQueue(now)
	} else {
		p.unlock()
		s.writing.Lock()
	}
	for !w.written { // others may be before it, and too many for one write
		p.mu.Lock()
		p.writeQueue(now)
	}
	err := w.err
	s.writing.Unlock()
	return err
}

// memoryWait is how long a call under Block waits for memory, rather than be on
// the disk alone. A collector that keeps up sets some free in a few milliseconds,
// and to wait for these costs less than to read calls back. One that does not is
// what the disk is for: once a call has waited in vain, none waits until the spool
// has caught up.
const memoryWait = 250 * time.Millisecond

// awaitMemory waits a little for memory for a call of n bytes, if the caller may.
// The caller holds mu.
func (p *pipeline) awaitMemory(ctx context.Context, n int, now time.Time) {
	s := p.spool
	enough := p.maxBytes - p.maxBytes/8
	for p.whenFull == Block && p.closing == nil && s.state == inMemory && p.used > enough {
		if p.open != nil && p.open.hasRoom(n, p.settings) {
			return
		}
		if p.open != nil && p.held() <= enough {
			p.seal(now) // what fills the memory is better sent at once
		}
		late := time.NewTimer(memoryWait)
		if err := p.waitForRoom(ctx, late.C); err != nil && s.state == inMemory {
			s.state = spilling
		}
		late.Stop()
	}
}

// admit finds room on the disk for n bytes. The caller holds mu.
func (p *pipeline) admit(ctx context.Context, n int64) error {
	s := p.spool
	for p.closing == nil {
		switch {
		case n <= s.room():
			return nil
		case n <= s.room()+s.doomed:
			if err := p.await(ctx, nil); err != nil {
				return err
			}
		case p.whenFull == DropOldest && (p.dropOldest() || p.discardOldest()):
		case p.whenFull == Block:
			if err := p.waitForRoom(ctx, nil); err != nil {
				return err
			}
		default:
			return s.full
		}
	}
	return ErrClosed
}

// room is how many bytes of calls may still come. The caller holds mu.
func (s *spool) room() int64 {
	room := s.max - s.disk + s.spare - s.queued
	if g := s.active; g != nil && !g.sealed {
		room += g.space - g.size
	}
	return room
}

// grow notes that n bytes were written to a segment. The caller holds mu.
func (s *spool) grow(g *spoolSegment, n int64) {
	g.size += n
	if more := g.size - g.space; more > 0 {
		g.space += more
		s.disk += more
	}
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
	s.grow(g, int64(len(w.buf)))
	if s.behind() || s.state == inMemory && p.place(w.id, w.call(), at, now) {
		return
	}
	if p.open != nil {
		p.seal(now) // what fills the memory is better sent at once
	}
	s.state = starved
	s.cursor = spoolCursor{g, g.size - int64(len(w.buf)), at.index}
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
	s.remove(g)
}

// remove has the keeper remove a segment. The caller holds mu.
func (s *spool) remove(g *spoolSegment) {
	s.doomed += g.space
	s.done = append(s.done, g)
	s.poke()
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
	if !s.behind() {
		return false
	}
	i := s.afterCursor()
	if i < 0 || !s.segments[i].sealed {
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
