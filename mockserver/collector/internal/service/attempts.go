package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// attemptsBytes limits the size of stored attempts, because each start checks them. They are
	// compressed, so they contain more records than restoredBytes allows.
	attemptsBytes = 16 << 20
	// restoredBytes limits the size of the records that are read into the history.
	restoredBytes = 16 << 20
)

// An attemptLog is an event.Observer that stores attempts and outcomes. The stored records let
// the history include previous runs, and other collectors that share the queue.
type attemptLog struct {
	log     *store.AttemptLog
	history *history.History
	writer  string // identifies this process
	logger  *slog.Logger

	cancel   context.CancelFunc // stops reading
	reading  sync.WaitGroup     // waits for the goroutine of read
	restored chan struct{}      // closed when existing records have been read
}

// newAttemptLog returns a log. Call read to read existing records.
func newAttemptLog(log *store.AttemptLog, history *history.History, plans *plans, logger *slog.Logger) *attemptLog {
	history.RecordUnknown(plans.mark)
	return &attemptLog{
		log: log, history: history, writer: rand.Text()[:8], logger: logger,
		restored: make(chan struct{}),
	}
}

// read starts reading existing records into the history. If observe is not nil, it then passes
// the new records of other processes to observe. Call it after the start is complete, because reading
// takes time and memory.
func (l *attemptLog) read(observe func(event.Event)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.reading.Go(func() {
		newest, next, err := l.log.Newest(ctx, restoredBytes)
		for _, data := range newest {
			l.apply(data, l.history.Restore)
		}
		close(l.restored)
		if err == nil && observe != nil {
			err = l.log.Follow(ctx, next, func(data []byte) { l.apply(data, observe) })
		}
		if err != nil && ctx.Err() == nil {
			l.logger.Warn("cannot read attempts of other processes", "error", err)
		}
	})
}

// close stops reading.
func (l *attemptLog) close() {
	l.cancel()
	l.reading.Wait()
}

// Observe implements event.Observer. It stores attempts, and all outcomes except deliveries.
// Deliveries can be derived from attempts. Accepted calls are stored in the queue, and other
// events are only relevant for this process.
func (l *attemptLog) Observe(e event.Event) {
	buffer := record.NewBuffer()
	defer record.PutBuffer(buffer) // the log copies the record
	switch e := e.(type) {
	case tracking.Attempt:
		*buffer = appendAttempt(*buffer, l.writer, &e)
	case tracking.Ended:
		if e.State == tracking.StateDelivered {
			return
		}
		*buffer = appendEnded(*buffer, l.writer, &e)
	default:
		return
	}
	l.log.Record(*buffer)
}

// deliveredBy returns the outcome of the attempt that delivered a call.
func deliveredBy(a *tracking.Attempt) tracking.Ended {
	e := tracking.Ended{
		CallID: a.CallID, Source: a.Source, Destination: a.Destination, At: a.Time.Add(a.Duration), Attempt: a.Number,
		Outcome: tracking.Outcome{State: tracking.StateDelivered}, Shared: a.Shared, Call: a.Call,
	}
	if a.Call != nil {
		e.ReceivedAt = a.Call.ReceivedAt
	}
	return e
}

// apply decodes a record and passes its events to observe.
func (l *attemptLog) apply(data []byte, observe func(event.Event)) {
	r, err := readLogged(data)
	switch {
	case err != nil:
		l.logger.Warn("skipped an unreadable attempt record", "error", err)
	case r.writer == l.writer: // the history already contains this process's record
	case r.attempt != nil:
		observe(*r.attempt)
		if r.attempt.Verdict == webhook.Success && !r.attempt.Late {
			observe(deliveredBy(r.attempt))
		}
	case r.ended != nil:
		observe(*r.ended)
	}
}
