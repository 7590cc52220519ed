package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// attemptsBytes bounds what is kept of attempts. More would be read at each
	// start than the history remembers.
	attemptsBytes = 64 << 20
	// restoredBytes bounds what is read back into the history.
	restoredBytes = 16 << 20
)

// An attemptLog stores what became of calls, so that the history of an earlier
// process, and of others that share the queue, can be shown. It is an
// event.Observer.
type attemptLog struct {
	log     *attempts.Log
	history *history.History
	writer  string // names this process
	logger  *slog.Logger

	cancel   context.CancelFunc // ends reading
	reading  sync.WaitGroup     // of what read has begun
	restored chan struct{}      // closed when what was stored before is read
}

// newAttemptLog returns a log of which nothing is read yet.
func newAttemptLog(log *attempts.Log, history *history.History, plans *plans, logger *slog.Logger) *attemptLog {
	history.RecordUnknown(plans.mark)
	return &attemptLog{
		log: log, history: history, writer: rand.Text()[:8], logger: logger,
		cancel: func() {}, restored: make(chan struct{}),
	}
}

// read begins to read what is stored into the history, without waiting for it. Where
// hear is not nil it goes on with what others store, and tells hear. It is for when calls are taken: to read
// takes time and memory that the start needs, and nobody waits for it.
func (l *attemptLog) read(hear func(event.Event)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.reading.Go(func() {
		next, err := l.restore(ctx)
		close(l.restored)
		if err == nil && hear != nil {
			err = l.log.Follow(ctx, next, func(record []byte) { l.apply(record, hear) })
		}
		if err != nil && ctx.Err() == nil {
			l.logger.Warn("cannot read attempts of other processes", "error", err)
		}
	})
}

// close ends the reading.
func (l *attemptLog) close() {
	l.cancel()
	l.reading.Wait()
}

// restore reads the newest records, and returns where to go on.
func (l *attemptLog) restore(ctx context.Context) (next uint64, err error) {
	newest, next, err := l.log.Newest(ctx, restoredBytes)
	for _, record := range newest {
		l.apply(record, l.history.Restore)
	}
	return next, err
}

// Observe implements event.Observer. It stores attempts, and outcomes but for
// deliveries, which follow from their attempts. The queue has what is accepted, and
// the rest is for those who look at this process.
func (l *attemptLog) Observe(e event.Event) {
	buffer := recordBuffers.Get().(*[]byte)
	defer recordBuffers.Put(buffer)
	switch e := e.(type) {
	case tracking.Attempt:
		*buffer = appendAttempt((*buffer)[:0], l.writer, &e)
	case tracking.Ended:
		if e.State == tracking.StateDelivered {
			return
		}
		*buffer = appendEnded((*buffer)[:0], l.writer, &e)
	default:
		return
	}
	l.log.Record(*buffer)
}

// recordBuffers hold records until the log has copied them.
var recordBuffers = sync.Pool{New: func() any { return new([]byte) }}

// deliveredBy is what followed from an attempt that succeeded.
func deliveredBy(a *tracking.Attempt) tracking.Ended {
	e := tracking.Ended{
		CallID: a.CallID, Source: a.Source, Destination: a.Destination, At: a.Time.Add(a.Duration), Attempt: a.Number,
		Outcome: tracking.Outcome{State: tracking.StateDelivered}, Call: a.Call,
	}
	if a.Call != nil {
		e.ReceivedAt = a.Call.ReceivedAt
	}
	return e
}

// apply tells of a record of another process.
func (l *attemptLog) apply(data []byte, tell func(event.Event)) {
	r, err := readLogged(data)
	switch {
	case err != nil:
		l.logger.Warn("skipped an unreadable attempt record", "error", err)
	case r.writer == l.writer: // the history heard of it when it happened
	case r.attempt != nil:
		tell(*r.attempt)
		if r.attempt.Verdict == webhook.Success {
			tell(deliveredBy(r.attempt))
		}
	case r.ended != nil:
		tell(*r.ended)
	}
}
