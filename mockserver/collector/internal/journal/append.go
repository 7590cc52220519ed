package journal

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
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
// a message, and so a write to the disk.
func (j *Journal) Append(ctx context.Context, b mockserver.Batch) error {
	if err := j.open(); err != nil {
		return err
	}
	if err := j.usage.room(j.options.MaxBytes); err != nil {
		return err
	}
	if _, err := j.health.up(); err != nil {
		return err
	}
	lane := j.lane(b.Source)
	var groups []*group
	for calls := b.Calls; len(calls) > 0; {
		piece, n := cutPiece(calls)
		calls = calls[n:]
		groups = append(groups, lane.add(piece, b.ReceivedAt))
	}
	for _, g := range groups {
		select {
		case <-g.done:
			if g.err != nil {
				return g.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// A piece is so many calls as one message may have.
type piece struct {
	calls   int
	size    int // decompressed
	ids     []byte
	segment []byte
}

// cutPiece encodes the first calls, and tells how many.
func cutPiece(calls []mockserver.Call) (piece, int) {
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
	ids     []byte
	payload []byte
	done    chan struct{} // closed when err says how it ended
	err     error
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
		g = &group{at: at, payload: []byte{callsFormat}, done: make(chan struct{})}
		l.open = g
		go l.publish(g)
	}
	if at.Before(g.at) {
		g.at = at
	}
	g.calls, g.size = g.calls+p.calls, g.size+p.size
	g.payload = append(g.payload, p.segment...)
	if len(g.ids) > 0 {
		g.ids = append(g.ids, ',')
	}
	g.ids = append(g.ids, p.ids...)
	return g
}

// publish waits for its turn, closes the group and stores it.
func (l *lane) publish(g *group) {
	l.slots <- struct{}{}
	l.mu.Lock()
	if l.open == g {
		l.open = nil
	}
	l.mu.Unlock()
	g.err = l.journal.store(l.source, g)
	<-l.slots
	close(g.done)
}

// store publishes a group.
func (j *Journal) store(source string, g *group) error {
	m := nats.NewMsg(j.names.subject(kindCalls, token(source)))
	m.Data = g.payload
	m.Header[headerCalls] = []string{strconv.Itoa(g.calls)}
	m.Header[headerIDs] = []string{string(g.ids)}
	setTime(m.Header, g.at)
	j.identify(m)
	seq, err := j.publish(j.ctx, j.in, m)
	if err != nil {
		return fmt.Errorf("journal: %d calls of source %q: %w", g.calls, source, err)
	}
	j.usage.add(len(m.Data) + len(g.ids))
	j.sawCalls(seq)
	return nil
}

// identify names a message, so that a cluster stores it once though it may be
// published twice.
func (j *Journal) identify(m *nats.Msg) {
	if j.options.NATS != nil {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%x-%x", j.writer, j.messages.Add(1)))
	}
}
