package mockserver

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of a memory journal.
const (
	// DefaultJournalBytes is about how much memory the calls in a memory journal take
	// at most by default, in bytes.
	DefaultJournalBytes = 256 << 20
	// memoryFailedCalls is how many failed calls it keeps for each destination, and
	// failedShare which part of the memory these may take.
	memoryFailedCalls = 10_000
	failedShare       = 8

	// What is kept takes about so many bytes: a call beside its texts, and an entry
	// beside its calls.
	callBytes  = 384
	entryBytes = 192
)

// NewMemoryJournal returns a Journal that keeps its calls in memory: they are
// gone when the process is. It refuses more while those that wait for a
// destination take about maxBytes of memory, by default DefaultJournalBytes; what
// is tried again or replayed is never refused. Of each destination's failed calls
// it keeps the newest 10,000, or those that fit into an eighth of maxBytes. A nil
// clock is the machine's.
func NewMemoryJournal(maxBytes int64, clock Clock) Journal {
	if maxBytes <= 0 {
		maxBytes = DefaultJournalBytes
	}
	if clock == nil {
		clock = systemClock{}
	}
	return &memoryJournal{clock: clock, maxBytes: maxBytes, queues: map[string]*memoryQueue{}}
}

type memoryJournal struct {
	clock    Clock
	maxBytes int64

	mu     sync.Mutex // guards what follows, and every queue
	bytes  int64      // of stored batches and entries, about
	closed bool
	queues map[string]*memoryQueue
}

// A memoryQueue is what one destination has before it.
type memoryQueue struct {
	journal *memoryJournal
	name    string
	sources map[string]bool // nil: all
	ledger  Ledger
	fresh   []*memoryEntry // in the order of arrival
	later   dueHeap        // retries
	leased  map[*memoryEntry]bool
	failed  []FailedCall // oldest first
	failing int64        // bytes that failed takes, about
	lastID  int
	reader  *memoryReader // the one that is open, or nil
	since   time.Time     // when it was attached
}

type memoryEntry struct {
	Entry
	due   time.Time // zero: at once
	size  int64     // beside the batch
	batch *storedBatch
}

// A storedBatch counts its bytes until the last entry that holds one of its
// calls is done: they share their memory.
type storedBatch struct {
	size int64
	refs int
}

// memoryOf is about how many bytes calls take.
func memoryOf(calls ...Call) (n int64) {
	for i := range calls {
		c := &calls[i]
		n += callBytes + int64(len(c.Body)+len(c.ID)+len(c.UserID)+len(c.AnonymousID)+
			len(c.Event)+len(c.Name)+len(c.Category)+len(c.GroupID)+len(c.PreviousID))
	}
	return n
}

func (j *memoryJournal) Append(_ context.Context, b Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrJournalClosed
	}
	var wanting []*memoryQueue
	for _, q := range j.queues {
		if q.sources == nil || q.sources[b.Source] {
			wanting = append(wanting, q)
		}
	}
	if len(wanting) == 0 {
		return nil
	}
	stored := &storedBatch{size: memoryOf(b.Calls...)}
	if size := stored.size + int64(len(wanting))*entryBytes; j.bytes+size > j.maxBytes {
		return fmt.Errorf("%w, %w: it holds %d of %d bytes, and the batch takes %d", ErrJournalFull, errOverLimit, j.bytes, j.maxBytes, size)
	}
	j.bytes += stored.size
	for _, q := range wanting {
		q.ledger.Accepted += int64(len(b.Calls))
		q.push(&memoryEntry{Entry: Entry{Calls: b.Calls, Attempt: 1, Since: b.ReceivedAt}, batch: stored})
	}
	return nil
}

func (j *memoryJournal) Attach(_ context.Context, destination string, sources []string) (Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrJournalClosed
	}
	q := j.queues[destination]
	if q == nil {
		q = &memoryQueue{journal: j, name: destination, leased: map[*memoryEntry]bool{}, since: j.clock.Now()}
		q.ledger.Destination = destination
		j.queues[destination] = q
	}
	q.sources = nil
	for _, s := range sources {
		if q.sources == nil {
			q.sources = map[string]bool{}
		}
		q.sources[s] = true
	}
	q.closeReader()
	q.reader = &memoryReader{queue: q, wake: make(chan struct{}, 1), done: make(chan struct{})}
	return q.reader, nil
}

func (j *memoryJournal) Detach(_ context.Context, destination string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := j.queues[destination]
	if q == nil {
		return nil
	}
	q.closeReader()
	for _, e := range q.fresh {
		q.release(e)
	}
	for _, e := range q.later {
		q.release(e)
	}
	for e := range q.leased {
		q.release(e)
	}
	delete(j.queues, destination)
	return nil
}

func (j *memoryJournal) Replay(_ context.Context, destination string, calls []Call, from State) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := j.queues[destination]
	switch {
	case j.closed:
		return ErrJournalClosed
	case q == nil:
		return fmt.Errorf("%w: %q", ErrNotAttached, destination)
	case len(calls) == 0:
		return nil
	}
	if from == StateFailed {
		replayed := map[callHash]bool{}
		for _, c := range calls {
			replayed[hashCall(c.Source, c.ID)] = true
		}
		q.failed = slices.DeleteFunc(q.failed, func(f FailedCall) bool {
			gone := replayed[hashCall(f.Call.Source, f.Call.ID)]
			if gone {
				q.failing -= f.memory()
			}
			return gone
		})
	}
	stored := &storedBatch{size: memoryOf(calls...)}
	j.bytes += stored.size // a replay is never refused: its calls were accepted already
	q.ledger.Move(len(calls), from, StatePending)
	q.push(&memoryEntry{Entry: Entry{Calls: calls, Attempt: 1, Since: j.clock.Now()}, batch: stored})
	return nil
}

func (j *memoryJournal) Failed(_ context.Context, destination string, yield func(FailedCall) bool) error {
	j.mu.Lock()
	q := j.queues[destination]
	if q == nil {
		j.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotAttached, destination)
	}
	failed := slices.Clone(q.failed)
	j.mu.Unlock()
	for _, f := range failed {
		if !yield(f) {
			break
		}
	}
	return nil
}

func (j *memoryJournal) Ledger(context.Context) ([]Ledger, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ledgers := make([]Ledger, 0, len(j.queues))
	for _, q := range j.queues {
		l := q.ledger
		l.Pending, l.OldestPending = q.pending()
		ledgers = append(ledgers, l)
	}
	slices.SortFunc(ledgers, func(a, b Ledger) int { return cmp.Compare(a.Destination, b.Destination) })
	return ledgers, nil
}

// Health implements HealthChecker.
func (j *memoryJournal) Health(context.Context) (JournalHealth, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	health := JournalHealth{Bytes: j.bytes, LimitBytes: j.maxBytes}
	switch {
	case j.closed:
		return health, ErrJournalClosed
	case j.bytes >= j.maxBytes:
		return health, ErrJournalFull
	}
	return health, nil
}

func (j *memoryJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, q := range j.queues {
		q.closeReader()
	}
	return nil
}

// The methods of memoryQueue are called with the journal's lock held.

// push gives a new entry its name and its place.
func (q *memoryQueue) push(e *memoryEntry) {
	q.lastID++
	e.ID = fmt.Sprintf("%s/%d", q.name, q.lastID)
	e.size += entryBytes
	e.batch.refs++
	q.journal.bytes += e.size
	q.put(e)
}

func (q *memoryQueue) put(e *memoryEntry) {
	if e.due.IsZero() {
		q.fresh = append(q.fresh, e)
	} else {
		heap.Push(&q.later, e)
	}
	q.wake()
}

func (q *memoryQueue) wake() {
	if q.reader == nil {
		return
	}
	select {
	case q.reader.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// pop leases the entry that is due first, or tells when one will be. The zero time
// says that none is waiting.
func (q *memoryQueue) pop() (*memoryEntry, time.Time) {
	var e *memoryEntry
	due := q.firstDue()
	switch {
	case !due.IsZero() && !q.journal.clock.Now().Before(due):
		e = heap.Pop(&q.later).(*memoryEntry)
	case len(q.fresh) > 0:
		e = q.fresh[0]
		q.fresh[0] = nil
		q.fresh = q.fresh[1:]
	default:
		return nil, due
	}
	q.leased[e] = true
	if len(q.fresh) > 0 || len(q.later) > 0 {
		q.wake() // for another goroutine that waits in Next
	}
	return e, time.Time{}
}

// firstDue returns when the first retry is due; the zero time if none waits.
func (q *memoryQueue) firstDue() time.Time {
	if len(q.later) == 0 {
		return time.Time{}
	}
	return q.later[0].due
}

// release frees the bytes of an entry that is done.
func (q *memoryQueue) release(e *memoryEntry) {
	q.journal.bytes -= e.size
	if e.batch.refs--; e.batch.refs == 0 {
		q.journal.bytes -= e.batch.size
	}
}

// pending counts the calls that are not done, by looking at them: the ledger is
// an account of two sides. It also tells when the oldest was accepted.
func (q *memoryQueue) pending() (n int64, oldest time.Time) {
	see := func(e *memoryEntry) {
		n += int64(len(e.Calls))
		for i := range e.Calls {
			if at := e.Calls[i].ReceivedAt; oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	for _, e := range q.fresh {
		see(e)
	}
	for _, e := range q.later {
		see(e)
	}
	for e := range q.leased {
		see(e)
	}
	return n, oldest
}

func (q *memoryQueue) closeReader() {
	if q.reader != nil {
		close(q.reader.done)
		q.reader = nil
	}
}

type memoryReader struct {
	queue *memoryQueue
	wake  chan struct{} // holds one token when there may be something to lease; never closed
	done  chan struct{} // closed by the queue when this reader is closed or replaced
}

func (r *memoryReader) Since() time.Time { return r.queue.since }

func (r *memoryReader) Next(ctx context.Context) (Lease, error) {
	j := r.queue.journal
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j.mu.Lock()
		if r.queue.reader != r {
			j.mu.Unlock()
			return nil, ErrJournalClosed
		}
		e, due := r.queue.pop()
		j.mu.Unlock()
		if e != nil {
			return &memoryLease{queue: r.queue, entry: e}, nil
		}
		var timer <-chan time.Time
		stop := func() {}
		if !due.IsZero() {
			timer, stop = wakeAt(j.clock, due)
		}
		select {
		case <-r.wake:
		case <-timer:
		case <-r.done:
		case <-ctx.Done():
		}
		stop()
	}
}

// state tells when Next will return, if an entry is waiting, and how many entries
// are leased.
func (r *memoryReader) state() (due time.Time, waiting bool, leased int) {
	q := r.queue
	q.journal.mu.Lock()
	defer q.journal.mu.Unlock()
	switch {
	case q.reader != r:
	case len(q.fresh) > 0:
		waiting = true
	case len(q.later) > 0:
		due, waiting = q.firstDue(), true
	}
	return due, waiting, len(q.leased)
}

func (r *memoryReader) Close() error {
	j := r.queue.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.queue.reader == r {
		r.queue.closeReader()
	}
	return nil
}

type memoryLease struct {
	queue *memoryQueue
	entry *memoryEntry
}

func (l *memoryLease) Entry() Entry { return l.entry.Entry }

func (l *memoryLease) Finish(_ context.Context, r Result) error {
	if len(r.Outcomes) != len(l.entry.Calls) {
		return fmt.Errorf("mockserver: %d outcomes for the %d calls of entry %s", len(r.Outcomes), len(l.entry.Calls), l.entry.ID)
	}
	q, e := l.queue, l.entry
	q.journal.mu.Lock()
	defer q.journal.mu.Unlock()
	if !q.leased[e] {
		return nil // detached meanwhile, or finished before
	}
	delete(q.leased, e)
	again := Entry{Attempt: e.Attempt + 1, Since: e.Since}
	for i, o := range r.Outcomes {
		switch o.State {
		case StatePending:
			again.add(e.Calls[i], o.Note)
			continue
		case StateFailed:
			q.keepFailed(FailedCall{Call: e.Calls[i], Reason: o.Reason, FailedAt: q.journal.clock.Now(), Attempts: e.Attempt})
		}
		q.ledger.Move(1, StatePending, o.State)
	}
	if len(again.Calls) > 0 {
		q.push(&memoryEntry{Entry: again, due: r.RetryAt, size: again.memory(), batch: e.batch})
	}
	q.release(e)
	return nil
}

// add appends a call to an entry that is being made, with its note.
func (e *Entry) add(c Call, note string) {
	if note != "" && e.Notes == nil {
		e.Notes = make([]string, len(e.Calls))
	}
	e.Calls = append(e.Calls, c)
	if e.Notes != nil {
		e.Notes = append(e.Notes, note)
	}
}

// memory is about how many bytes an entry with calls of a batch takes beside it.
func (e *Entry) memory() (n int64) {
	for _, note := range e.Notes {
		n += int64(len(note))
	}
	return n + int64(len(e.Calls))*callBytes
}

func (l *memoryLease) Return() {
	q := l.queue
	q.journal.mu.Lock()
	defer q.journal.mu.Unlock()
	if !q.leased[l.entry] {
		return
	}
	delete(q.leased, l.entry)
	if l.entry.due.IsZero() {
		q.fresh = slices.Insert(q.fresh, 0, l.entry)
		q.wake()
		return
	}
	q.put(l.entry)
}

func (q *memoryQueue) keepFailed(f FailedCall) {
	f.Call.Body = bytes.Clone(f.Call.Body) // it stays for longer than the calls beside it, whose memory it shares
	q.failing += f.memory()
	for len(q.failed) == memoryFailedCalls || len(q.failed) > 0 && q.failing > q.journal.maxBytes/failedShare {
		q.failing -= q.failed[0].memory()
		q.failed[0] = FailedCall{}
		q.failed = q.failed[1:]
	}
	q.failed = append(q.failed, f)
}

// memory is about how many bytes a failed call takes.
func (f *FailedCall) memory() int64 { return memoryOf(f.Call) + int64(len(f.Reason)) }

// dueHeap is a container/heap with the entry that is due first on top.
type dueHeap []*memoryEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(e any)        { *h = append(*h, e.(*memoryEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
