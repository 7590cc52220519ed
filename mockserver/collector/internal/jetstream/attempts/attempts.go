package attempts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

const (
	// attemptsEvery is how long records gather before they are stored.
	attemptsEvery = 100 * time.Millisecond
	// attemptsPiece bounds the records of one message, and attemptsWaiting those
	// that wait to be stored.
	attemptsPiece   = 512 << 10
	attemptsWaiting = 8 << 20
)

// An Log keeps records of attempts, in whatever form its user gives them:
// for Options.KeepAttempts, as many as Options.AttemptsBytes has room for. It is
// a log for people: a kill may lose the last tenth of a second, and a power cut
// more. Its methods may be called from many goroutines at once.
type Log struct {
	store    *store.Store
	diskFull func() bool
	storing  sync.Mutex // lets one flush store at a time

	mu      sync.Mutex // guards what follows
	waiting []*recordPiece
	size    int
	timer   *time.Timer // set while records wait
	dropped uint64
	closed  bool
}

// A recordPiece is the records of one message, as AppendBody wrote them.
type recordPiece struct {
	raw     *[]byte // of NewBuffer
	records int
}

// New returns a log that takes nothing while the disk is full.
func New(s *store.Store, diskFull func() bool) *Log {
	return &Log{store: s, diskFull: diskFull}
}

// Record keeps a record, which it copies. It never blocks: where records come
// faster than they can be stored, it drops and counts them.
func (l *Log) Record(data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.size+len(data) > attemptsWaiting || l.diskFull() {
		l.dropped++
		return
	}
	n := len(l.waiting)
	if n == 0 || len(*l.waiting[n-1].raw)+len(data) > attemptsPiece {
		l.waiting, n = append(l.waiting, &recordPiece{raw: record.NewBuffer()}), n+1
	}
	p := l.waiting[n-1]
	*p.raw = record.AppendBody(*p.raw, data)
	p.records++
	l.size += len(data)
	if l.timer == nil {
		l.timer = time.AfterFunc(attemptsEvery, l.flush)
	}
}

// Dropped returns how many records were not kept.
func (l *Log) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// flush stores what waits.
func (l *Log) flush() {
	l.storing.Lock()
	defer l.storing.Unlock()
	l.mu.Lock()
	pieces := l.waiting
	l.waiting, l.size, l.timer = nil, 0, nil
	l.mu.Unlock()
	for _, p := range pieces {
		m := nats.NewMsg(l.store.Names.Subject("t"))
		m.Data = record.AppendBlock([]byte{record.CallsFormat}, *p.raw)
		record.PutBuffer(p.raw)
		if _, err := l.store.Publish(context.Background(), m); err != nil {
			l.store.Log.Debug("records of attempts were dropped", "records", p.records, "error", err)
			l.mu.Lock()
			l.dropped += uint64(p.records)
			l.mu.Unlock()
		}
	}
}

// Close stores what waits, and takes nothing more.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.flush()
}

// Newest returns the newest records that are stored now, as many as have limit bytes
// together, oldest first, and where Follow goes on. It reads little more than these.
func (l *Log) Newest(ctx context.Context, limit int) (records [][]byte, next uint64, err error) {
	state, err := l.store.Measure(ctx, record.StreamAttempts)
	if err != nil {
		return nil, 0, fmt.Errorf("reading attempts: %w", err)
	}
	first := max(1, state.FirstSeq)
	next = state.LastSeq + 1
	messages := uint64(firstRead) // their size is not known
	for end, enough := next, false; !enough && end > first; messages *= 2 {
		begin := end - min(messages, end-first)
		var older [][]byte
		if older, enough, err = l.between(ctx, begin, end, limit); err != nil {
			return nil, 0, err
		}
		for _, r := range older {
			limit -= len(r)
		}
		records, end = append(older, records...), begin
	}
	return records, next, nil
}

// firstRead is how many messages are read at first.
const firstRead = 8

// between returns the newest records of the messages from begin on, and before end, and
// whether there are more than limit bytes of them.
func (l *Log) between(ctx context.Context, begin, end uint64, limit int) (records [][]byte, more bool, err error) {
	t := l.store.Tail(record.StreamAttempts, begin, func(m jetstream.Msg, seq uint64) error {
		if seq < end {
			l.read(m, seq, func(r []byte) {
				records = append(records, r)
				for limit -= len(r); limit < 0; records, more = records[1:], true {
					limit += len(records[0])
					records[0] = nil
				}
			})
		}
		if seq+1 < end {
			return nil
		}
		return store.ErrEnough
	})
	t.Batch = int(min(readAhead, end-begin))
	err = t.Scan(ctx)
	return records, more, err
}

// readAhead is how many messages are asked for at once.
const readAhead = 100

// Follow calls f with each record that is stored from next on, by this process or
// another, until ctx ends. f may keep the record.
func (l *Log) Follow(ctx context.Context, next uint64, f func(data []byte)) error {
	t := l.store.Tail(record.StreamAttempts, next, func(m jetstream.Msg, seq uint64) error {
		l.read(m, seq, f)
		return nil
	})
	t.Batch = readAhead
	return t.Follow(ctx)
}

// read calls f with each record of a message.
func (l *Log) read(m jetstream.Msg, seq uint64, f func([]byte)) {
	records, err := record.DecodeCalls(m.Data())
	if err != nil {
		l.store.Log.Warn("records of attempts cannot be read; they are passed over", "error", fmt.Errorf("message %d: %w", seq, err))
		return
	}
	for _, r := range records {
		f(r)
	}
}
