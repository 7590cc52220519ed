package service

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
)

const (
	// attemptsBytes bounds what is kept of attempts. More would be read at each
	// start than the history remembers.
	attemptsBytes = 64 << 20
	// restoredBytes bounds what is read back into the history.
	restoredBytes = 16 << 20
)

// An attemptLog stores what became of calls, so that the history of an earlier
// process, and of others that share the queue, can be shown. It is a
// mockserver.Recorder.
type attemptLog struct {
	log     *journal.AttemptLog
	history *mockserver.History
	writer  string // names this process
	logger  *slog.Logger

	cancel context.CancelFunc // ends following
	done   chan struct{}      // closed when it has ended
}

// newAttemptLog begins to read what is stored into the history, without waiting
// for it. On a cluster it goes on with what others store.
func newAttemptLog(log *journal.AttemptLog, history *mockserver.History, shared bool, logger *slog.Logger) *attemptLog {
	ctx, cancel := context.WithCancel(context.Background())
	l := &attemptLog{log: log, history: history, writer: rand.Text()[:8], logger: logger, cancel: cancel, done: make(chan struct{})}
	history.Adopt()
	started := time.Now()
	go func() {
		defer close(l.done)
		err := l.restore(ctx)
		if err == nil && shared {
			err = log.Follow(ctx, started, func(record []byte) { l.apply(record) })
		}
		if err != nil && ctx.Err() == nil {
			logger.Warn("attempts of other processes cannot be shown", "error", err)
		}
	}()
	return l
}

// close ends the reading.
func (l *attemptLog) close() {
	l.cancel()
	<-l.done
}

// restore reads the newest records. Which these are is known at the end only; the
// others are thrown away unread.
func (l *attemptLog) restore(ctx context.Context) error {
	var newest [][]byte
	size := 0
	err := l.log.Read(ctx, time.Time{}, func(record []byte) {
		newest = append(newest, record)
		size += len(record)
		for size > restoredBytes {
			size -= len(newest[0])
			newest[0] = nil
			newest = newest[1:]
		}
	})
	for _, record := range newest {
		l.apply(record)
	}
	return err
}

// A logged is a record: this as JSON, and then the bodies.
type logged struct {
	Writer  string              `json:"w"`
	Source  string              `json:"s"`
	Attempt *mockserver.Attempt `json:"a,omitempty"`
	Ended   *mockserver.Ended   `json:"e,omitempty"`
}

// Attempted implements mockserver.Recorder.
func (l *attemptLog) Attempted(a mockserver.Attempt) {
	bodies := [][]byte{a.Call.Body, a.RequestBody, a.ResponseBody}
	source := a.Source
	a.RequestBody, a.ResponseBody = nil, nil
	l.record(logged{Writer: l.writer, Source: source, Attempt: &a}, bodies)
}

// Ended implements mockserver.Recorder. The call's body is stored where no attempt
// may have stored it.
func (l *attemptLog) Ended(e mockserver.Ended) {
	var body []byte
	if e.Call != nil && (e.State == mockserver.StateFiltered || e.State == mockserver.StateFailed) {
		body = e.Call.Body
	}
	l.record(logged{Writer: l.writer, Source: e.Source, Ended: &e}, [][]byte{body})
}

// Accepted implements mockserver.Recorder. The queue has what is accepted.
func (l *attemptLog) Accepted(mockserver.Batch)     {}
func (l *attemptLog) Repeated(mockserver.Batch)     {} // is not stored
func (l *attemptLog) Rejected(mockserver.Rejection) {} // is not stored
func (l *attemptLog) Refused(mockserver.Refusal)    {} // is not stored

func (l *attemptLog) record(r logged, bodies [][]byte) {
	meta, err := json.Marshal(r)
	if err != nil {
		l.logger.Error("a record of an attempt cannot be written", "error", err)
		return
	}
	size := len(meta) + 4*binary.MaxVarintLen32
	for _, body := range bodies {
		size += len(body)
	}
	out := make([]byte, 0, size)
	for _, part := range append([][]byte{meta}, bodies...) {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	l.log.Record(out)
}

var errRecord = errors.New("a record of an attempt ends too early")

// read is the other side of record.
func read(data []byte) (r logged, bodies [][]byte, err error) {
	var parts [][]byte
	for len(data) > 0 {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return r, nil, errRecord
		}
		end := used + int(n)
		parts = append(parts, data[used:end:end])
		data = data[end:]
	}
	if len(parts) == 0 {
		return r, nil, errRecord
	}
	return r, parts[1:], json.Unmarshal(parts[0], &r)
}

// apply shows the history a record of another process.
func (l *attemptLog) apply(data []byte) {
	r, bodies, err := read(data)
	if err != nil || len(bodies) == 0 {
		l.logger.Warn("a record of an attempt cannot be read; it is not shown", "error", err)
		return
	}
	if r.Writer == l.writer {
		return
	}
	var call *mockserver.Call
	if len(bodies[0]) > 0 {
		if c, err := mockserver.ReadCall(r.Source, bodies[0]); err == nil {
			call = &c
		}
	}
	switch {
	case r.Attempt != nil && len(bodies) == 3:
		r.Attempt.Call, r.Attempt.RequestBody, r.Attempt.ResponseBody = call, bodies[1], bodies[2]
		l.history.Attempted(*r.Attempt)
	case r.Ended != nil:
		r.Ended.Call = call
		l.history.Ended(*r.Ended)
	}
}
