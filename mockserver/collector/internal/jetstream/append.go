package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// writerDepth is the number of messages in flight per source. With a higher number,
	// concurrent batches would be stored in separate messages instead of one.
	writerDepth = 1
	// noEnd is the timeout of requests without a deadline, because the NATS client's own default is
	// short.
	noEnd = 24 * time.Hour
)

// Append stores a batch. Concurrent batches of one source share a message and thus a disk
// write. Append waits at most PublishTimeout, or ClusterAppendTimeout on a cluster. If the store has
// not responded by then, the batch may be stored later; AppendError.Stored waits for the result.
func (j *Journal) Append(ctx context.Context, b event.Batch) error {
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.Status.Writable(); err != nil {
		return err
	}
	timeout := store.PublishTimeout
	if j.Shared {
		timeout = store.ClusterAppendTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, journal.ErrNoResponse)
	defer cancel()
	writer := j.writerOf(b.Source)
	for stored := 0; stored < len(b.Calls); {
		p, n := cutPiece(b.Calls[stored:])
		p.trace = b.Trace
		if err := j.incoming.usage.begin(p.bytes(), j.options.MaxBytes); err != nil {
			return incomplete(err, stored)
		}
		g := writer.add(p, b.ReceivedAt)
		select {
		case <-g.done:
			if g.err != nil {
				return incomplete(g.err, stored)
			}
			stored += n
		case <-g.unconfirmed:
			return &journal.AppendError{Err: g.unconfirmedErr, Stored: func() int { return stored + g.stored(n) }}
		case <-ctx.Done():
			return &journal.AppendError{Err: context.Cause(ctx), Stored: func() int { return stored + g.stored(n) }}
		}
	}
	return nil
}

// incomplete returns the error for a batch of which only the first calls are stored.
func incomplete(err error, stored int) error {
	if stored == 0 {
		return err
	}
	return &journal.AppendError{Err: err, Stored: func() int { return stored }}
}

// A piece is a part of a batch that fits into one message.
type piece struct {
	calls   int
	size    int // decompressed size
	ids     []byte
	segment []byte
	trace   *event.Trace // may be nil
}

// bytes returns the piece's size in the message.
func (p *piece) bytes() int64 {
	n := len(p.segment) + len(p.ids)
	if p.trace != nil {
		n += len(p.trace.Parent) + len(p.trace.State)
	}
	return int64(n)
}

// cutPiece encodes the first calls of a batch and returns their number.
func cutPiece(calls []tracking.Call) (piece, int) {
	var p piece
	bodies := make([][]byte, 0, min(len(calls), groupCalls))
	ids := make([]string, 0, cap(bodies))
	idBytes := 0
	for i := range calls {
		c := &calls[i]
		full := len(bodies) == groupCalls || p.size+len(c.Body) > groupBytes || idBytes+3*len(c.ID) > groupIDs
		if full && len(bodies) > 0 {
			break
		}
		bodies, ids = append(bodies, c.Body), append(ids, c.ID)
		p.size += len(c.Body)
		idBytes += 3*len(c.ID) + 1 // in the worst case, every byte is escaped
	}
	p.calls = len(bodies)
	p.segment = record.AppendSegment(nil, bodies)
	p.ids = record.AppendIDs(make([]byte, 0, 40*len(ids)), ids)
	return p, p.calls
}

// A sourceWriter publishes the calls of one source. While all slots are taken, it collects further
// batches in one group.
type sourceWriter struct {
	journal *Journal
	source  string
	slots   chan struct{} // one token per message in flight; never closed

	mu   sync.Mutex // guards the fields below
	open *group     // accepts further batches
}

// A group is a message that is being assembled.
type group struct {
	at      time.Time // time of the earliest batch
	calls   int
	size    int
	bytes   int64 // included in the usage
	ids     []byte
	traces  []byte // see record.AppendTrace
	traced  int    // number of calls covered by traces
	payload []byte
	done    chan struct{} // closed when err is set
	err     error

	unconfirmed    chan struct{} // closed when unconfirmedErr is set: the result will take longer
	unconfirmedErr error
}

func (j *Journal) writerOf(source string) *sourceWriter {
	j.incoming.mu.Lock()
	defer j.incoming.mu.Unlock()
	l := j.incoming.writers[source]
	if l == nil {
		l = &sourceWriter{journal: j, source: source, slots: make(chan struct{}, writerDepth)}
		j.incoming.writers[source] = l
	}
	return l
}

// add adds a piece to the open group, or opens a new group if the piece does not fit.
func (w *sourceWriter) add(p piece, at time.Time) *group {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.open
	if g == nil || g.calls+p.calls > groupCalls || g.size+p.size > groupBytes || len(g.ids)+1+len(p.ids)+g.roomForTrace(&p) > groupIDs {
		g = &group{at: at, payload: []byte{record.CallsFormat}, done: make(chan struct{}), unconfirmed: make(chan struct{})}
		if !w.journal.Work.Go(func() { w.publish(g) }) {
			w.journal.incoming.usage.end(p.bytes(), false)
			g.err = journal.ErrClosed
			close(g.done)
			return g
		}
		w.open = g
	}
	if at.Before(g.at) {
		g.at = at
	}
	g.addTrace(&p)
	g.calls, g.size, g.bytes = g.calls+p.calls, g.size+p.size, g.bytes+p.bytes()
	g.payload = append(g.payload, p.segment...)
	if len(g.ids) > 0 {
		g.ids = append(g.ids, ',')
	}
	g.ids = append(g.ids, p.ids...)
	return g
}

// addTrace records the trace of a piece before the piece is added.
func (g *group) addTrace(p *piece) {
	if p.trace == nil {
		return
	}
	if g.traced < g.calls {
		g.traces = record.AppendTrace(g.traces, g.calls-g.traced, nil)
	}
	g.traces = record.AppendTrace(g.traces, p.calls, p.trace)
	g.traced = g.calls + p.calls
}

// roomForTrace returns the maximum size of the group's traces if the piece is added.
func (g *group) roomForTrace(p *piece) int {
	if p.trace == nil {
		return len(g.traces)
	}
	return len(g.traces) + len(p.trace.Parent) + 3*len(p.trace.State) + 16 // in the worst case, every byte is escaped
}

// stored waits for the group's result. It returns how many of n calls in the group are stored.
func (g *group) stored(n int) int {
	if <-g.done; g.err != nil {
		return 0
	}
	return n
}

// publish waits for a slot, closes the group and stores its message.
func (w *sourceWriter) publish(g *group) {
	defer close(g.done)
	acquired := w.acquireSlot()
	w.mu.Lock()
	if w.open == g {
		w.open = nil
	}
	w.mu.Unlock()
	if !acquired {
		w.journal.incoming.usage.end(g.bytes, false)
		g.err = fmt.Errorf("journal: %d calls of source %q: %w", g.calls, w.source, journal.ErrNoResponse)
		return
	}
	g.err = w.journal.storeGroup(w.source, g)
	w.journal.incoming.usage.end(g.bytes, g.err == nil)
	<-w.slots
	w.journal.dropIdle(w)
}

// dropIdle removes an idle writer, because the number of sources is unlimited. If a batch is
// added to the writer at the same moment, it is still published, in parallel with the next writer.
func (j *Journal) dropIdle(l *sourceWriter) {
	j.incoming.mu.Lock()
	defer j.incoming.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil && len(l.slots) == 0 && j.incoming.writers[l.source] == l {
		delete(j.incoming.writers, l.source)
	}
}

// acquireSlot waits up to PublishTimeout for a slot. It reports whether it has acquired one.
func (w *sourceWriter) acquireSlot() bool {
	select {
	case w.slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(store.PublishTimeout)
	defer timer.Stop()
	select {
	case w.slots <- struct{}{}:
		return true
	case <-timer.C:
	case <-w.journal.Ctx.Done():
	}
	return false
}

// storeGroup publishes a group. It returns when the result is known.
func (j *Journal) storeGroup(source string, g *group) error {
	m := nats.NewMsg(j.Names.Subject(record.KindCalls, record.Token(source)))
	m.Data = g.payload
	m.Header[record.HeaderCalls] = []string{strconv.Itoa(g.calls)}
	m.Header[record.HeaderIDs] = []string{string(g.ids)}
	if len(g.traces) > 0 {
		m.Header[record.HeaderTraces] = []string{string(g.traces)}
	}
	record.SetTime(m.Header, g.at)
	j.Identify(m)
	before := j.seen.acked.Load()
	seq, err := j.publishCalls(m)
	if store.MayBeStored(err) {
		g.unconfirmedErr = err
		close(g.unconfirmed)
		seq, err = j.find(m, before, err)
	}
	if err != nil {
		return fmt.Errorf("journal: %d calls of source %q: %w", g.calls, source, err)
	}
	j.recordStored(seq)
	j.note(record.Accepted{Seq: seq, Calls: g.calls, Source: source})
	return nil
}

// publishCalls publishes a message of calls. With an embedded server, it waits for the response
// as long as the store is writable.
func (j *Journal) publishCalls(m *nats.Msg) (uint64, error) {
	timeout := noEnd
	if j.Shared {
		timeout = store.PublishTimeout
	}
	ctx, stop, err := j.WritableContext(j.Ctx, timeout)
	if err != nil {
		return 0, err
	}
	defer stop()
	return j.PublishUntil(ctx, j.In, m)
}

// find determines whether a message is stored, after a request without a response. It returns
// the message's sequence number, or cause if the message is not stored. It retries while the
// store is unreachable. before is a sequence number that was in use before the request.
func (j *Journal) find(m *nats.Msg, before uint64, cause error) (uint64, error) {
	for {
		seq, err := j.lookFor(m, before)
		switch {
		case err == nil && seq == 0:
			return 0, cause
		case err == nil:
			return seq, nil
		}
		j.Log.Debug("cannot determine yet whether calls are stored; will retry", "error", err)
		if err := j.AwaitStore(); err != nil {
			return 0, err
		}
	}
}

// lookFor searches CALLS for a message after the sequence number before. It returns 0 if the
// message is not stored and cannot arrive later.
func (j *Journal) lookFor(m *nats.Msg, before uint64) (found uint64, err error) {
	up, err := j.Status.Writable()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(j.Ctx, store.RequestTimeout)
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	if j.Shared {
		if err := j.flushLeader(ctx, m); err != nil {
			return 0, err
		}
	}
	t := j.Tail(record.StreamCalls, before+1, func(stored *jetstream.RawStreamMsg) error {
		if stored.Subject == m.Subject && stored.Header.Get(record.HeaderIDs) == m.Header.Get(record.HeaderIDs) {
			found = stored.Sequence
			return store.ErrEnough
		}
		return nil
	})
	t.HeadersOnly = true
	if err := t.Scan(ctx); err != nil {
		return 0, err
	}
	return found, j.CheckSynced()
}

// flushLeader ensures that the leader of CALLS has processed all earlier messages. It sends a
// message with the ID of m and an impossible expected sequence number, and waits for the rejection.
func (j *Journal) flushLeader(ctx context.Context, m *nats.Msg) error {
	probe := nats.NewMsg(m.Subject)
	probe.Header.Set(nats.MsgIdHdr, m.Header.Get(nats.MsgIdHdr))
	probe.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(1<<62, 10))
	_, err := j.Try(ctx, j.In, probe)
	if store.IsWrongSequence(err) {
		return nil
	}
	return err
}
