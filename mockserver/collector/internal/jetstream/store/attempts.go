package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// attemptsEvery is how long records are collected before they are stored.
	attemptsEvery = 100 * time.Millisecond
	// attemptsPiece limits the size of one message. attemptsWaiting limits the total size of
	// the records that wait to be stored.
	attemptsPiece   = 512 << 10
	attemptsWaiting = 8 << 20
)

// An AttemptLog stores records of attempts for the history, within the limits KeepAttempts and
// AttemptsBytes of the options. It may lose the last tenth of a second after a kill, and more after
// a power cut. Its methods are safe for concurrent use.
type AttemptLog struct {
	store    *Store
	diskFull func() bool
	storing  pause.Lock // held while flush stores records

	mu      sync.Mutex // guards the fields below
	waiting []*recordPiece
	size    int
	timer   *time.Timer // nil if no records wait to be stored
	dropped uint64
	closed  bool
}

// A recordPiece contains the records of one message, encoded by record.AppendText.
type recordPiece struct {
	raw     *[]byte // buffer from record.NewBuffer
	records int
}

// NewAttemptLog returns a log that drops records while the disk is full.
func NewAttemptLog(s *Store, diskFull func() bool) *AttemptLog {
	return &AttemptLog{store: s, diskFull: diskFull}
}

// Record stores a copy of a record. It never blocks: if records arrive faster than they can
// be stored, it drops and counts them.
func (l *AttemptLog) Record(data []byte) {
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
	*p.raw = record.AppendText(*p.raw, data)
	p.records++
	l.size += len(data)
	if l.timer == nil {
		l.timer = time.AfterFunc(attemptsEvery, l.flush)
	}
}

// Dropped returns the number of dropped records.
func (l *AttemptLog) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// flush stores the waiting records.
func (l *AttemptLog) flush() {
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

// Close stores the waiting records. Later records are dropped.
func (l *AttemptLog) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.flush()
}

// Newest returns the newest stored records, oldest first, up to limit bytes in total. next is
// the message where Follow continues. Newest reads few older records.
func (l *AttemptLog) Newest(ctx context.Context, limit int) (records [][]byte, next uint64, err error) {
	state, err := l.store.Measure(ctx, record.StreamAttempts)
	if err != nil {
		return nil, 0, fmt.Errorf("reading attempts: %w", err)
	}
	first := max(1, state.FirstSeq)
	next = state.LastSeq + 1
	messages := uint64(firstRead) // the sizes of messages are unknown
	for end, enough := next, false; !enough && end > first; {
		begin := end - min(messages, end-first)
		var older [][]byte
		if older, enough, err = l.between(ctx, begin, end, limit); err != nil {
			return nil, 0, err
		}
		size := 0
		for _, r := range older {
			size += len(r)
		}
		limit -= size
		messages = min(2*messages, messages*uint64(limit)/uint64(max(size, 1))+1) // an estimate, which assumes that sizes remain the same
		records, end = append(older, records...), begin
	}
	return records, next, nil
}

// firstRead is the number of messages that Newest reads first.
const firstRead = 8

// between returns the newest records of messages begin to end-1, and whether these contain
// more than limit bytes.
func (l *AttemptLog) between(ctx context.Context, begin, end uint64, limit int) (records [][]byte, more bool, err error) {
	t := l.store.Tail(record.StreamAttempts, begin, func(m *jetstream.RawStreamMsg) error {
		l.read(m, func(r []byte) {
			records = append(records, r)
			for limit -= len(r); limit < 0; records, more = records[1:], true {
				limit += len(records[0])
				records[0] = nil
			}
		})
		return nil
	})
	t.Batch, t.Last = int(min(readAhead, end-begin)), end-1
	t.Whole = func(gap record.Span) bool {
		if s, err := l.store.Measure(ctx, record.StreamAttempts); err == nil && gap.Last < s.FirstSeq {
			return true // these messages were removed in the meantime, because of their age or the stream's size
		}
		l.store.Log.Warn("attempts cannot be read; the history lacks them", "first", gap.First, "last", gap.Last)
		return true
	}
	err = t.Scan(ctx)
	return records, more, err
}

// readAhead is the number of messages per request.
const readAhead = 100

// Follow calls f with each record stored from message next on, by any process, until ctx
// ends. f may keep the record.
func (l *AttemptLog) Follow(ctx context.Context, next uint64, f func(data []byte)) error {
	t := l.store.Tail(record.StreamAttempts, next, func(m *jetstream.RawStreamMsg) error {
		l.read(m, f)
		return nil
	})
	t.Batch = readAhead
	return t.Follow(ctx)
}

// read calls f with each record of a message.
func (l *AttemptLog) read(m *jetstream.RawStreamMsg, f func([]byte)) {
	records, err := record.DecodeCalls(m.Data)
	if err != nil {
		l.store.Log.Warn("records of attempts cannot be read; they are skipped", "error", fmt.Errorf("message %d: %w", m.Sequence, err))
		return
	}
	for _, r := range records {
		f(r)
	}
}
