package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// The compiler checks that a spool record has room for the largest call.
const _ = uint(spool.MaxBody - MaxCallBytes)

const (
	// memoryWait limits how long a call under Block waits for memory. After that, new calls
	// are kept only on the disk. A fast collector frees memory within milliseconds, and
	// waiting for that is cheaper than reading calls back.
	memoryWait = 250 * time.Millisecond
	// rereadEvery is the pause before a segment that could not be read is read again.
	rereadEvery = time.Second
	// placeAtOnce is the maximum number of calls added to batches while the mutex is held.
	placeAtOnce = 128
	// maxRefill limits the memory that calls use when they are read back.
	maxRefill = 4 << 20
)

// spoolWorker decides which calls of a client with a spool are also kept in memory. It reads
// the other calls back.
type spoolWorker struct {
	*Pipeline
	disk   *spool.Log
	refill int64 // calls are read back while sealedBytes is smaller
	limit  int64 // under Block, calls wait while more than limit bytes of memory are in use
	full   error // the error for a call that would exceed SpoolMaxBytes

	wake chan struct{} // capacity 1; wakes run; never closed
	stop chan struct{} // closed by the loop when the loop exits
	done chan struct{} // closed by run when run returns

	// The following fields are guarded by the pipeline's mu.
	state spoolState
	next  uint64 // in the state diskOnly, the first call that has not been read back

	// The following fields are used only by run.
	page   spool.Page
	placed int      // number of calls of page that have been added to batches
	ids    []CallID // the CallIDs of the calls of page; used only with a callback
}

// spoolState determines where new calls are stored.
//
//	from      event                                      to
//	inMemory  a call has waited too long for memory      spilling
//	inMemory  there is no memory for a call              diskOnly
//	spilling  the next call is written                   diskOnly
//	diskOnly  all calls have been read back              inMemory
//
// A client that finds calls of a previous process starts in the state diskOnly.
type spoolState int

const (
	inMemory spoolState = iota // calls are written to the disk and added to a batch
	spilling                   // like inMemory, except that the next call is not added to a batch
	diskOnly                   // calls are only written to the disk; the worker reads them back later
)

// openSpool opens the spool and counts the calls of previous processes in it.
func (p *Pipeline) openSpool() error {
	w := &spoolWorker{
		Pipeline: p,
		refill:   min(p.MaxBytes/2, maxRefill),
		limit:    p.MaxBytes - p.MaxBytes/8,
		wake:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	options := spool.Options{
		Mutex:     spoolMutex{p},
		MaxBytes:  p.SpoolMaxBytes,
		Source:    sourceOf(p.WriteKey),
		Sync:      p.SpoolSync,
		Appended:  w.appended,
		Freed:     w.freed,
		Drained:   p.wakeLoop,
		Discarded: w.discarded,
		Warn:      w.warn,
	}
	log, found, err := spool.Open(p.Spool, options)
	if err != nil {
		return spoolError(err)
	}
	p.mu.Lock()
	defer p.unlock()
	w.disk = log
	w.full = fmt.Errorf("%w: %s has reached Config.SpoolMaxBytes, %d bytes", ErrQueueFull, log.Dir(), p.SpoolMaxBytes)
	p.spool = w
	p.budget.low = w.limit - p.MaxBytes/16
	p.seq = uint64(found.Last)
	p.stats.Recovered, p.stats.Accepted = found.Records, found.Records
	w.logFound(found)
	if found.Records > 0 {
		w.state = diskOnly
		w.wakeUp()
	}
	return nil
}

// spoolError returns the error for a call that cannot be written. It shortens a long path.
func spoolError(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) && len(path.Path) > wire.MaxRepeated {
		err = &clippedError{fmt.Sprintf("%s %s: %v", path.Op, wire.Clip(path.Path, wire.MaxRepeated), path.Err), err}
	}
	return fmt.Errorf("%w: %w", ErrSpool, err)
}

// logFound logs problems that were found when the spool was opened. The caller holds mu.
func (w *spoolWorker) logFound(found spool.Recovered) {
	dir := w.disk.Dir()
	if n := found.Foreign; n > 0 {
		w.note(slog.LevelWarn, "the spool contains files of another write key",
			fmt.Sprintf("%s contains %d files of another write key, which are kept", dir, n), slog.Int("files", n))
	}
	if n := len(found.Strange); n > 0 {
		first := found.Strange[0]
		w.note(slog.LevelWarn, "the spool contains unexpected files",
			fmt.Sprintf("%s contains %d unexpected files; the first: %v", dir, n, first), slog.Int("files", n), errorAttr(first))
	}
	if n := found.Records; n > 0 && w.log.verbose {
		w.note(slog.LevelDebug, "the spool contains calls of a previous process",
			fmt.Sprintf("%s contains %s of a previous process", dir, CountCalls(n)), slog.Int64("calls", n))
	}
}

// note logs an entry about the spool. message and attrs are for Config.Slog, and line is for
// Config.Logger.
func (w *spoolWorker) note(level slog.Level, message, line string, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("dir", w.Spool))
	w.results.note(entry{level, message, attrs, "spool: " + line})
}

// sourceOf returns an identifier of the source that does not reveal the write key.
func sourceOf(writeKey string) (id [8]byte) {
	sum := sha256.Sum256([]byte(writeKey))
	copy(id[:], sum[:])
	return id
}

// add writes a call to the spool and accepts it.
func (w *spoolWorker) add(ctx context.Context, c *Call) error {
	now := c.clock.now()
	c.record.Prepare()
	w.lock()
	defer w.unlock()
	if w.WhenFull == Block {
		w.awaitMemory(ctx, len(c.Encoded()), now)
	}
	for {
		switch err := w.disk.Append(&c.record, now); err {
		case nil:
			return nil
		case spool.ErrClosed:
			return ErrClosed
		case spool.ErrFull:
			if err := w.awaitRoom(ctx, &c.record); err != nil {
				return err
			}
		default:
			return spoolError(err)
		}
	}
}

// awaitMemory waits up to memoryWait for memory for a call of n bytes. After a wait without
// success, no call waits for memory until all calls have been read back. The caller holds mu, which
// is unlocked during the wait.
func (w *spoolWorker) awaitMemory(ctx context.Context, n int, now time.Time) {
	for w.phase == running && w.state == inMemory && w.budget.used > w.limit {
		if w.open.calls > 0 && w.open.hasRoom(n, w.settings) {
			return
		}
		if w.open.calls > 0 && w.sealedBytes() <= w.limit {
			w.seal(now) // the open batch uses memory, so send it
		}
		late := time.NewTimer(memoryWait)
		if err := w.waitForRoom(ctx, late.C); err != nil && w.state == inMemory && w.budget.used > w.limit {
			w.state = spilling
		}
		late.Stop()
	}
}

// awaitRoom waits for disk space for r, or makes room, depending on Config.WhenFull. The caller
// holds mu, which is unlocked during the wait.
func (w *spoolWorker) awaitRoom(ctx context.Context, r *spool.Record) error {
	for w.phase == running {
		switch room := w.disk.Room(r); {
		case room == spool.Enough:
			return nil
		case room == spool.Freeing:
			if err := w.waitForRoom(ctx, nil); err != nil {
				return err
			}
		case w.WhenFull == DropOldest && (w.dropOldest() || w.discardOldest()):
		case w.WhenFull == Block:
			if err := w.waitForRoom(ctx, nil); err != nil {
				return err
			}
		default:
			return w.full
		}
	}
	return ErrClosed
}

// discardOldest drops the oldest segment that is only on the disk. It reports false if there
// is no such segment. The caller holds mu.
func (w *spoolWorker) discardOldest() bool {
	first, n, ok := w.disk.Discard()
	if ok {
		w.stats.Dropped.Overflow += int64(n)
		w.flushes.ended(uint64(first), int64(n))
	}
	return ok
}

// appended accepts calls that have been written. The spool calls it before Append returns. The
// caller holds mu.
func (w *spoolWorker) appended(records []*spool.Record, now time.Time) {
	for _, r := range records {
		w.count(r, now)
	}
}

// count counts a written call. It also adds the call to a batch, unless calls are kept only on
// the disk. The caller holds mu.
func (w *spoolWorker) count(r *spool.Record, now time.Time) {
	w.seq = uint64(r.Position)
	w.stats.Accepted++
	if w.state == inMemory && w.appendToOpen(r.Body(), w.seq) {
		return
	}
	if w.state == diskOnly || w.state == inMemory && w.place(r.Owner.(*Call).CallID, r.Body(), w.seq, now) {
		return
	}
	if w.open.calls > 0 {
		w.seal(now) // the open batch uses memory, so send it
	}
	w.state = diskOnly
	w.next = w.seq
	w.disk.ReadFrom(r)
}

// freed wakes calls that wait for disk space.
func (w *spoolWorker) freed() {
	w.mu.Lock()
	defer w.unlock()
	w.budget.wakeWaiting()
}

// discarded reports calls to the callback as dropped. discardOldest has discarded these calls.
func (w *spoolWorker) discarded(bodies [][]byte) {
	lost := &batch{calls: len(bodies)}
	if w.Callback != nil {
		for _, body := range bodies {
			lost.ids = append(lost.ids, readID(body))
		}
	}
	w.mu.Lock()
	defer w.unlock()
	w.results.dispatch(result{batch: lost, why: &Drop{Reason: Overflow}})
}

// warn logs a failure that no method of the spool returns.
func (w *spoolWorker) warn(problem spool.Problem, err error) {
	level, message := slog.LevelWarn, ""
	switch problem {
	case spool.NotRemoved:
		message = "calls will be sent again by the next process"
	case spool.NotSaved:
		level, message = slog.LevelDebug, "calls may be sent again by the next process"
	case spool.NotSealed:
		level, message = slog.LevelDebug, "cannot seal a segment"
	case spool.Vanished:
		w.note(level, "a file of the spool was removed", err.Error(), errorAttr(err))
		return
	}
	if level == slog.LevelWarn || w.log.verbose {
		w.note(level, message, message+": "+err.Error(), errorAttr(err))
	}
}

// readID decodes the CallID of an encoded call.
func readID(encoded []byte) CallID {
	var id struct{ MessageId, Type string }
	_ = json.Unmarshal(encoded, &id) // cannot fail, because the client has encoded the call
	return CallID{ID: id.MessageId, Kind: id.Type}
}

// run is the worker goroutine. It reads back calls that are only on the disk.
func (w *spoolWorker) run() {
	defer close(w.done)
	var again <-chan time.Time // nil, unless a segment could not be read
	for {
		select {
		case <-w.wake:
			if again != nil {
				continue
			}
		case <-again:
			again = nil
		case <-w.stop:
			return
		}
		if !w.readBack() {
			again = time.After(rereadEvery)
		}
	}
}

// readBack adds calls that are only on the disk to batches while there is memory. It reports
// false if a segment cannot be read at the moment.
func (w *spoolWorker) readBack() bool {
	for w.wantsPage() {
		if w.placed == w.page.Len() {
			if err := w.disk.Read(&w.page); err != nil {
				w.note(slog.LevelWarn, "a segment of the spool cannot be read; retrying", fmt.Sprintf("a segment cannot be read; retrying: %v", err), errorAttr(err))
				return false
			}
			w.openPage()
		}
		if !w.placePage(time.Now()) {
			return true
		}
	}
	return true
}

// wantsPage reports whether there are calls to read back and memory for them.
func (w *spoolWorker) wantsPage() bool {
	w.mu.Lock()
	defer w.unlock()
	switch {
	case w.state != diskOnly || w.phase == aborting:
		w.page, w.placed = spool.Page{}, 0
		return false
	case w.sealedBytes() >= w.refill:
		return false
	case w.placed == w.page.Len() && w.next > w.seq:
		w.caughtUp()
		return false
	}
	return true
}

// caughtUp leaves the state diskOnly. The caller holds mu.
func (w *spoolWorker) caughtUp() {
	w.state = inMemory
	w.page, w.placed = spool.Page{}, 0
	w.disk.ReadFrom(nil)
	if w.open.calls > 0 && len(w.flushes.waiting) > 0 {
		w.seal(time.Now()) // a flush that started in diskOnly could not seal this batch
	}
	w.work = true // the loop may be waiting for this state
}

// openPage counts the lost calls of the page. If there is a callback, it also reads the IDs of
// the other calls.
func (w *spoolWorker) openPage() {
	p := &w.page
	w.placed, w.ids = 0, w.ids[:0]
	if w.Callback != nil {
		for i := range p.Len() {
			_, body := p.At(i)
			w.ids = append(w.ids, readID(body))
		}
	}
	w.mu.Lock()
	defer w.unlock()
	w.stats.Accepted += p.Recounted
	w.stats.Recovered += p.Recounted
	if p.Recounted != 0 {
		w.flushes.recount(p.Recounted, uint64(p.Next)-1)
	}
	if p.Err != nil && len(p.Missing) == 0 {
		w.note(slog.LevelWarn, "the spool is corrupted, but no call is known to be lost", fmt.Sprintf("%v; no call is known to be lost", p.Err), errorAttr(p.Err))
	}
	for _, m := range p.Missing {
		w.stats.Dropped.Damaged += int64(m.N)
		w.flushes.ended(uint64(m.First), int64(m.N))
		w.results.dispatch(result{batch: &batch{calls: m.N}, why: &Drop{Reason: Damaged, Err: p.Err}})
	}
	w.advance()
}

// advance sets next to the end of the page if all calls of the page are in batches. The caller
// holds mu.
func (w *spoolWorker) advance() {
	if w.placed == w.page.Len() {
		w.next = uint64(w.page.Next)
	}
}

// placePage adds calls of the page to batches. It reports false if there is not enough memory.
func (w *spoolWorker) placePage(now time.Time) bool {
	w.mu.Lock()
	defer w.unlock()
	for range min(placeAtOnce, w.page.Len()-w.placed) {
		var id CallID
		if w.Callback != nil {
			id = w.ids[w.placed]
		}
		seq, body := w.page.At(w.placed)
		if !w.place(id, body, uint64(seq), now) {
			if w.open.calls > 0 {
				w.seal(now)
			}
			return false
		}
		w.placed++
	}
	w.advance()
	return true
}

// feed wakes the worker if it waits for memory and memory is available. The caller holds mu.
func (w *spoolWorker) feed(held int64) {
	if w.state == diskOnly && held < w.refill {
		w.wakeUp()
	}
}

// wakeUp wakes run. It does not block.
func (w *spoolWorker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // run is already awake
	}
}

// finished reports whether the loop can exit without waiting for the spool. The caller holds mu.
func (w *spoolWorker) finished(aborted bool) bool {
	return !w.disk.Busy() && (w.state != diskOnly || aborted)
}

// close stops the worker and closes the spool. No call may be added afterwards.
func (w *spoolWorker) close() {
	close(w.stop)
	<-w.done
	w.disk.Close()
}
