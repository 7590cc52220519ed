package journal

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// groupCalls and groupBytes bound what is published as one message. A message
	// costs one write to the disk, however many batches are in it.
	groupCalls = partCalls * maxParts
	groupBytes = 896 << 10 // decompressed
	groupIDs   = 48 << 10
	// maxHeaders is how many bytes the headers of a message may have.
	maxHeaders = 64 << 10
	// laneDepth is how many messages of one source are under way at once. While one
	// is written the next gathers: two would be written one after the other.
	laneDepth = 1
)

// Append stores a batch. Batches of one source that come at the same time share
// a message, and so a write to the disk. It takes publishPatience at most, or
// clusterAnswer on a cluster, which may be cut off; where the store has not answered by then, the batch may still be stored, and its AppendError
// tells.
func (j *Journal) Append(ctx context.Context, b event.Batch) error {
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.health.up(); err != nil {
		return err
	}
	patience := publishPatience
	if j.options.NATS != nil {
		patience = clusterAnswer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	lane := j.lane(b.Source)
	for stored := 0; stored < len(b.Calls); {
		p, n := cutPiece(b.Calls[stored:])
		if err := j.usage.begin(p.bytes(), j.options.MaxBytes); err != nil {
			return incomplete(err, stored)
		}
		g := lane.add(p, b.ReceivedAt)
		select {
		case <-g.done:
			if g.err != nil {
				return incomplete(g.err, stored)
			}
			stored += n
		case <-g.doubtful:
			return &journal.AppendError{Err: g.doubt, Stored: func() int { return stored + g.stored(n) }}
		case <-ctx.Done():
			return &journal.AppendError{Err: context.Cause(ctx), Stored: func() int { return stored + g.stored(n) }}
		}
	}
	return nil
}

// incomplete returns the error of a batch whose first calls are stored, so many.
func incomplete(err error, stored int) error {
	if stored == 0 {
		return err
	}
	return &journal.AppendError{Err: err, Stored: func() int { return stored }}
}

// A piece is so many calls as one message may have.
type piece struct {
	calls   int
	size    int // decompressed
	ids     []byte
	segment []byte
}

// bytes is how many the piece takes in a message.
func (p *piece) bytes() int64 { return int64(len(p.segment) + len(p.ids)) }

// cutPiece encodes the first calls, and tells how many.
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
		idBytes += 3*len(c.ID) + 1 // as if each byte were escaped
	}
	p.calls = len(bodies)
	p.segment = appendSegment(nil, bodies)
	p.ids = appendIDs(make([]byte, 0, 40*len(ids)), ids)
	return p, p.calls
}

// A lane publishes the calls of one source. While as many messages as may be are
// under way, what comes gathers in one group.
type lane struct {
	journal *Journal
	source  string
	slots   chan struct{} // one token for each message under way; never closed

	mu   sync.Mutex // guards what follows
	open *group     // the group that may still grow
}

// A group is what becomes one message.
type group struct {
	at      time.Time // when the first batch came
	calls   int
	size    int
	bytes   int64 // that usage counts
	ids     []byte
	payload []byte
	done    chan struct{} // closed when err says how it ended
	err     error

	doubtful chan struct{} // closed when doubt says why that is not known soon, if it is not
	doubt    error
}

func (j *Journal) lane(source string) *lane {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lanes[source]
	if l == nil {
		l = &lane{journal: j, source: source, slots: make(chan struct{}, laneDepth)}
		j.lanes[source] = l
	}
	return l
}

// add puts a piece into a group, which it may have to begin.
func (l *lane) add(p piece, at time.Time) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.open
	if g == nil || g.calls+p.calls > groupCalls || g.size+p.size > groupBytes || len(g.ids)+1+len(p.ids) > groupIDs {
		g = &group{at: at, payload: []byte{callsFormat}, done: make(chan struct{}), doubtful: make(chan struct{})}
		l.open = g
		go l.publish(g)
	}
	if at.Before(g.at) {
		g.at = at
	}
	g.calls, g.size, g.bytes = g.calls+p.calls, g.size+p.size, g.bytes+p.bytes()
	g.payload = append(g.payload, p.segment...)
	if len(g.ids) > 0 {
		g.ids = append(g.ids, ',')
	}
	g.ids = append(g.ids, p.ids...)
	return g
}

// stored waits until it is known what became of the group, and returns how many of
// n calls in it are stored.
func (g *group) stored(n int) int {
	if <-g.done; g.err != nil {
		return 0
	}
	return n
}

// publish waits for its turn, closes the group and stores it.
func (l *lane) publish(g *group) {
	defer close(g.done)
	turn := l.awaitTurn()
	l.mu.Lock()
	if l.open == g {
		l.open = nil
	}
	l.mu.Unlock()
	if !turn {
		l.journal.usage.end(g.bytes, false)
		g.err = fmt.Errorf("journal: %d calls of source %q: %w", g.calls, l.source, errNoAnswer)
		return
	}
	g.err = l.journal.store(l.source, g)
	l.journal.usage.end(g.bytes, g.err == nil)
	<-l.slots
}

// awaitTurn waits for a slot. It reports false when that takes longer than anybody
// waits for the group.
func (l *lane) awaitTurn() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(publishPatience)
	defer patience.Stop()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-patience.C:
	case <-l.journal.ctx.Done():
	}
	return false
}

// store publishes a group, and returns when it is known whether it is stored.
func (j *Journal) store(source string, g *group) error {
	m := nats.NewMsg(j.names.subject(kindCalls, token(source)))
	m.Data = g.payload
	m.Header[headerCalls] = []string{strconv.Itoa(g.calls)}
	m.Header[headerIDs] = []string{string(g.ids)}
	setTime(m.Header, g.at)
	j.identify(m)
	before := j.acked.Load()
	seq, err := j.publishCalls(m)
	if isUnanswered(err) {
		g.doubt = err
		close(g.doubtful)
		seq, err = j.find(m, before, err)
	}
	if err != nil {
		return fmt.Errorf("journal: %d calls of source %q: %w", g.calls, source, err)
	}
	j.sawCalls(seq)
	if err := j.recent.add(acceptedCalls{seq, g.calls, source}); err != nil {
		j.log.Debug("what was accepted is noted once only", "error", err)
	}
	return nil
}

// publishCalls publishes a message of calls. Within the process its answer is on its
// way unless the store cannot be written to, however long that takes.
func (j *Journal) publishCalls(m *nats.Msg) (uint64, error) {
	if j.options.NATS != nil {
		return j.publish(j.ctx, j.in, m)
	}
	ctx, stop, err := j.while(j.ctx, 0)
	if err != nil {
		return 0, err
	}
	defer stop()
	return j.publishUntil(ctx, j.in, m)
}

// identify names a message, so that a cluster stores it once though it may be
// published twice.
func (j *Journal) identify(m *nats.Msg) {
	if j.options.NATS != nil {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%x-%x", j.writer, j.messages.Add(1)))
	}
}
