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

// Read calls f with each record that is stored now, oldest first, and returns where
// Follow goes on. f may keep the record.
func (l *Log) Read(ctx context.Context, f func(data []byte)) (next uint64, err error) {
	t := l.tail(1, f)
	err = t.Scan(ctx)
	return t.Next, err
}

// Follow calls f with each record that is stored from next on, by this process or
// another, until ctx ends. f may keep the record.
func (l *Log) Follow(ctx context.Context, next uint64, f func(data []byte)) error {
	t := l.tail(next, f)
	return t.Follow(ctx)
}

func (l *Log) tail(next uint64, f func([]byte)) *store.Tail {
	t := l.store.Tail(record.StreamAttempts, next, func(m jetstream.Msg, seq uint64) error {
		records, err := record.DecodeCalls(m.Data())
		if err != nil {
			l.store.Log.Warn("records of attempts cannot be read; they are passed over", "error", fmt.Errorf("message %d: %w", seq, err))
			return nil
		}
		for _, r := range records {
			f(r)
		}
		return nil
	})
	t.Batch = 100
	return t
}
