package journal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Limits of the memory journal.
const (
	// DefaultBytes is the default size limit of NewMemory.
	DefaultBytes = 256 << 20
	// memoryFailedCalls is the maximum number of failed calls that are kept per destination. They
	// may use 1/failedShare of the memory.
	memoryFailedCalls = 10_000
	failedShare       = 8

	// callBytes is the approximate size of a call in addition to its strings. entryBytes is the
	// approximate size of an entry in addition to its calls.
	callBytes  = 384
	entryBytes = 192
)

// NewMemory returns a Journal in memory. The journal is full when pending calls take about maxBytes,
// by default DefaultBytes. Retries and replays are stored even if it is full. It keeps the newest
// 10,000 failed calls of each destination, or as many as fit into an eighth of maxBytes.
func NewMemory(maxBytes int64) Journal {
	if maxBytes <= 0 {
		maxBytes = DefaultBytes
	}
	return &memoryJournal{maxBytes: maxBytes, queues: map[string]*memoryQueue{}}
}

type memoryJournal struct {
	maxBytes int64

	mu     sync.Mutex // guards the fields below and all queues
	bytes  int64      // approximate size of stored batches and entries
	next   uint64     // position of the next call
	closed bool
	queues map[string]*memoryQueue
}

// A memoryQueue contains the entries of one destination.
type memoryQueue struct {
	journal *memoryJournal
	name    string
	sources map[string]bool // nil means all
	ledger  tracking.Ledger
	waiting *WaitingQueue[*memoryEntry]
	leased  map[*memoryEntry]bool
	parked  map[uint64]*memoryEntry // entries that wait for Resume, by the positions of their calls
	failed  []FailedCall            // including filtered calls that are kept; oldest first
	failing int64                   // approximate size of failed in bytes
	lastID  int
	reader  *memoryReader // the open reader, or nil
	since   time.Time     // when the destination was attached
}

type memoryEntry struct {
	Entry
	source string
	due    time.Time // zero if the entry is due now
	size   int64     // approximate size without the batch
	batch  *storedBatch
}

func newMemoryQueue(j *memoryJournal, name string) *memoryQueue {
	source := func(e *memoryEntry) string { return e.source }
	due := func(e *memoryEntry) time.Time { return e.due }
	q := &memoryQueue{journal: j, name: name, waiting: NewWaitingQueue(source, due, func(e *memoryEntry) uint64 { return e.First }), leased: map[*memoryEntry]bool{}, parked: map[uint64]*memoryEntry{}, since: time.Now()}
	q.ledger.Destination = name
	return q
}

// A storedBatch is memory that several entries share. Its size is counted until the last of these
// entries is done.
type storedBatch struct {
	size int64
	refs int
}

// memoryOf returns the approximate size of calls in bytes.
func memoryOf(calls ...tracking.Call) (n int64) {
	for i := range calls {
		c := &calls[i]
		n += callBytes + int64(len(c.Body)+len(c.ID)+len(c.UserID)+len(c.AnonymousID)+
			len(c.Event)+len(c.Name)+len(c.Category)+len(c.GroupID)+len(c.PreviousID))
	}
	return n
}

func (j *memoryJournal) Append(_ context.Context, b event.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
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
	traces := event.RepeatTrace(b.Trace, len(b.Calls))
	stored := &storedBatch{size: memoryOf(b.Calls...) + traces.Size()}
	if size := stored.size + int64(len(wanting))*entryBytes; j.bytes+size > j.maxBytes {
		return fmt.Errorf("%w: it holds %d of %d bytes, and the batch takes %d", ErrFull, j.bytes, j.maxBytes, size)
	}
	j.bytes += stored.size
	for _, q := range wanting {
		q.ledger.Accepted += int64(len(b.Calls))
		q.push(&memoryEntry{source: b.Source, Entry: Entry{Calls: b.Calls, Traces: traces, First: j.next, Attempt: 1, Since: b.ReceivedAt}, batch: stored})
	}
	j.next += uint64(len(b.Calls))
	return nil
}

func (j *memoryJournal) Attach(_ context.Context, destination string, sources []string) (Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	q := j.queues[destination]
	if q == nil {
		q = newMemoryQueue(j, destination)
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
	q.reader = &memoryReader{queue: q, wake: make(chan struct{})}
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
	for e := range q.all {
		q.release(e)
	}
	clear(q.leased) // so that results of these leases have no effect
	delete(j.queues, destination)
	return nil
}

func (j *memoryJournal) Replay(_ context.Context, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := j.queues[destination]
	switch {
	case j.closed:
		return ErrClosed
	case q == nil:
		return fmt.Errorf("%w: %q", ErrNotAttached, destination)
	case len(calls) == 0:
		return nil
	}
	if from == tracking.StateFailed || from == tracking.StateFiltered {
		replayed := map[event.Key]bool{}
		for _, c := range calls {
			replayed[event.KeyOf(c.Source, c.ID)] = true
		}
		q.failed = slices.DeleteFunc(q.failed, func(f FailedCall) bool {
			gone := f.Filtered == (from == tracking.StateFiltered) && replayed[event.KeyOf(f.Call.Source, f.Call.ID)]
			if gone {
				q.failing -= memoryOfFailed(&f)
			}
			return gone
		})
	}
	stored := &storedBatch{size: memoryOf(calls...) + traces.Size()}
	j.bytes += stored.size // even if the journal is full
	Move(&q.ledger, len(calls), from, tracking.StatePending)
	q.push(&memoryEntry{source: calls[0].Source, Entry: Entry{Calls: calls, Traces: traces, First: j.next, Attempt: 1, Since: time.Now()}, batch: stored})
	j.next += uint64(len(calls))
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

func (j *memoryJournal) Ledger(context.Context) ([]tracking.Ledger, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ledgers := make([]tracking.Ledger, 0, len(j.queues))
	for _, q := range j.queues {
		l := q.ledger
		l.Pending, l.OldestPending = q.pending()
		ledgers = append(ledgers, l)
	}
	slices.SortFunc(ledgers, func(a, b tracking.Ledger) int { return cmp.Compare(a.Destination, b.Destination) })
	return ledgers, nil
}

func (j *memoryJournal) Verify(ctx context.Context) (all []Verification, err error) {
	ledgers, err := j.Ledger(ctx)
	for _, l := range ledgers {
		all = append(all, Verification{Ledger: l})
	}
	return all, err
}

func (j *memoryJournal) Health(context.Context) (Health, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	health := Health{Bytes: j.bytes, LimitBytes: j.maxBytes}
	switch {
	case j.closed:
		return health, ErrClosed
	case j.bytes >= j.maxBytes:
		return health, ErrFull
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

// The caller of a memoryQueue method must hold the journal's lock.

// push adds a new entry.
func (q *memoryQueue) push(e *memoryEntry) {
	q.keep(e)
	q.waiting.Push(e)
	q.wake()
}

// again adds the remaining calls of an entry as a new entry.
func (q *memoryQueue) again(e *memoryEntry, parked bool) {
	if !parked {
		q.push(e)
		return
	}
	q.keep(e)
	for i := range e.Calls {
		q.parked[e.Position(i)] = e
	}
}

// keep sets the ID of a new entry, and adds its size.
func (q *memoryQueue) keep(e *memoryEntry) {
	q.lastID++
	e.ID = fmt.Sprintf("%s/%d", q.name, q.lastID)
	e.size += entryBytes
	e.batch.refs++
	q.journal.bytes += e.size
}

// wake notifies all callers of Next, which may want different entries.
func (q *memoryQueue) wake() {
	if r := q.reader; r != nil && r.asleep > 0 {
		r.asleep = 0
		close(r.wake)
		r.wake = make(chan struct{})
	}
}

// pop leases the next wanted entry in turn. If no wanted entry is due yet, it returns the earliest
// due time, or the zero time if there is no wanted entry.
func (q *memoryQueue) pop(want Want) (*memoryEntry, time.Time) {
	var e *memoryEntry
	var due time.Time
	var ok bool
	if want.InOrder {
		e, due, ok = q.waiting.PopInOrder(time.Now(), q.journal.next)
	} else {
		for _, parked := range q.parked {
			q.resume(parked)
		}
		e, due, ok = q.waiting.Pop(time.Now(), want.Except, want.NoRetries)
	}
	if !ok {
		return nil, due
	}
	q.leased[e] = true
	return e, time.Time{}
}

// release subtracts the size of an entry that is done.
func (q *memoryQueue) release(e *memoryEntry) {
	q.journal.bytes -= e.size
	if e.batch.refs--; e.batch.refs == 0 {
		q.journal.bytes -= e.batch.size
	}
}

// pending counts the pending calls independently of the ledger. It also returns the time at which
// the oldest pending call was accepted.
func (q *memoryQueue) pending() (n int64, oldest time.Time) {
	for e := range q.all {
		n += int64(len(e.Calls))
		for i := range e.Calls {
			if at := e.Calls[i].ReceivedAt; oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	return n, oldest
}

// all yields the entries that are not done.
func (q *memoryQueue) all(yield func(*memoryEntry) bool) {
	for e := range q.waiting.All {
		if !yield(e) {
			return
		}
	}
	for e := range q.leased {
		if !yield(e) {
			return
		}
	}
	for position, e := range q.parked {
		if position == e.Position(0) && !yield(e) {
			return
		}
	}
}

func (q *memoryQueue) closeReader() {
	if q.reader != nil {
		close(q.reader.wake)
		q.reader = nil
	}
}

type memoryReader struct {
	queue *memoryQueue

	// The fields below are guarded by the journal's lock.

	asleep int           // number of callers that wait for wake
	wake   chan struct{} // closed and replaced when an entry may have become available; also closed with the reader
}

func (r *memoryReader) Since() time.Time { return r.queue.since }

func (r *memoryReader) Next(ctx context.Context, want Want) (Lease, error) {
	j := r.queue.journal
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j.mu.Lock()
		if r.queue.reader != r {
			j.mu.Unlock()
			return nil, ErrClosed
		}
		e, due := r.queue.pop(want)
		if e == nil {
			r.asleep++
		}
		wake := r.wake
		j.mu.Unlock()
		if e != nil {
			return &memoryLease{queue: r.queue, entry: e}, nil
		}
		pause.Until(ctx, due, wake)
	}
}

// Acquire succeeds immediately, because no other process has this journal.
func (r *memoryReader) Acquire(context.Context) (context.Context, func(), error) {
	return context.Background(), func() {}, nil
}

func (r *memoryReader) Waiting(_ context.Context, yield func(e Entry, due time.Time) bool) error {
	q := r.queue
	q.journal.mu.Lock()
	var waiting []*memoryEntry
	for e := range q.all {
		if !e.due.IsZero() || q.parked[e.Position(0)] == e {
			waiting = append(waiting, e)
		}
	}
	q.journal.mu.Unlock()
	for _, e := range waiting {
		if !yield(e.Entry, e.due) {
			break
		}
	}
	return nil
}

func (r *memoryReader) Resume(position uint64) {
	q := r.queue
	q.journal.mu.Lock()
	defer q.journal.mu.Unlock()
	if e := q.parked[position]; e != nil {
		q.resume(e)
	}
}

// resume makes a parked entry due now.
func (q *memoryQueue) resume(e *memoryEntry) {
	for i := range e.Calls {
		delete(q.parked, e.Position(i))
	}
	e.due = time.Now()
	q.waiting.Push(e)
	q.wake()
}

// IsPending always returns true, because the memory journal loses no calls.
func (r *memoryReader) IsPending(uint64) bool { return true }

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
	if r.OnPlaced != nil {
		r.OnPlaced()
	}
	if !q.leased[e] {
		return nil // the destination was detached, or the lease is finished already
	}
	delete(q.leased, e)
	again := Entry{First: e.First, Attempt: e.Attempt + 1, Since: e.Since}
	for i, o := range r.Outcomes {
		switch kept := r.Keeps(i); {
		case o.State == tracking.StatePending:
			again.add(e.Calls[i], e.Traces.At(i), int(e.Position(i)-e.First), o.Note)
			continue
		case o.State == tracking.StateFailed || kept:
			q.keepFailed(FailedCall{Call: e.Calls[i], Trace: e.Traces.At(i), Filtered: kept, Reason: o.Reason, FailedAt: time.Now(), Attempts: e.Attempt})
		}
		Move(&q.ledger, 1, tracking.StatePending, o.State)
	}
	if len(again.Calls) > 0 {
		q.again(&memoryEntry{source: e.source, Entry: again, due: r.RetryAt, size: again.memory(), batch: e.batch}, r.Parked)
	}
	q.release(e)
	return nil
}

// add appends a call to a new entry, with its trace, its place and its note.
func (e *Entry) add(c tracking.Call, trace *event.Trace, place int, note string) {
	e.Traces = e.Traces.With(len(e.Calls), trace)
	e.Places = append(e.Places, place)
	if note != "" && e.Notes == nil {
		e.Notes = make([]string, len(e.Calls))
	}
	e.Calls = append(e.Calls, c)
	if e.Notes != nil {
		e.Notes = append(e.Notes, note)
	}
}

// memory returns the approximate size of an entry without its batch.
func (e *Entry) memory() (n int64) {
	for _, note := range e.Notes {
		n += int64(len(note))
	}
	return n + int64(len(e.Calls))*(callBytes+8)
}

func (l *memoryLease) Return() {
	q := l.queue
	q.journal.mu.Lock()
	defer q.journal.mu.Unlock()
	if !q.leased[l.entry] {
		return
	}
	delete(q.leased, l.entry)
	q.waiting.Push(l.entry)
	q.wake()
}

func (q *memoryQueue) keepFailed(f FailedCall) {
	f.Call.Body = bytes.Clone(f.Call.Body) // does not retain the memory of the whole batch
	q.failing += memoryOfFailed(&f)
	for len(q.failed) == memoryFailedCalls || len(q.failed) > 0 && q.failing > q.journal.maxBytes/failedShare {
		q.failing -= memoryOfFailed(&q.failed[0])
		q.failed[0] = FailedCall{}
		q.failed = q.failed[1:]
	}
	q.failed = append(q.failed, f)
}

// memoryOfFailed returns the approximate size of a failed call.
func memoryOfFailed(f *FailedCall) int64 { return memoryOf(f.Call) + int64(len(f.Reason)) }
