package jetstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Patience is the longest wait of a test.
const Patience = time.Minute

// Within returns a context for one wait of a test.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), Patience, fmt.Errorf("%s waited for %v in vain", t.Name(), Patience))
	context.AfterFunc(ctx, cancel)
	return ctx
}

func within(t testing.TB) context.Context { return Within(t) }

// CleanTimers empties the timer pool of the NATS client between two bubbles.
func CleanTimers() { cleanTimers() }

// openOn opens a journal on existing streams, without a server or a directory. If Options.NATS is
// set, it shares the streams with other journals.
func openOn(ctx context.Context, o Options, in store.Publisher, streams store.Streams) (*Journal, error) {
	o, err := o.withLimits()
	if err != nil {
		return nil, err
	}
	return newJournal(o).opened(func(j *Journal) error {
		j.In, j.JS = in, streams
		return j.begin(ctx)
	})
}

// OpenOn opens a journal on a server in memory, with the connections of production.
func OpenOn(ctx context.Context, o Options, server nats.InProcessConnProvider, writer uint64) (*Journal, error) {
	o, err := o.withLimits()
	if err != nil {
		return nil, err
	}
	j := newJournal(o)
	j.Writer = writer
	return j.opened(func(j *Journal) error {
		if err := j.connect("", append((&NATS{}).ConnectOptions(), nats.InProcessServer(server), nats.ReconnectJitter(0, 0))...); err != nil {
			return err
		}
		return j.begin(ctx)
	})
}

// Copy copies the directory of an open queue, without the large ballast file. The copy is in the
// same state as after a kill.
func Copy(dir string, next func() string) (string, error) {
	return harness.Copy(dir, next, "journal.ballast")
}

// CopyDir copies the directory of a closed queue.
func CopyDir(to, from string) error {
	_, err := Copy(from, func() string { return to })
	return err
}

// InspectServers updates the health of the servers.
func (j *Journal) InspectServers() { j.inspectServers() }

// RemoveCheckpoints makes the next start read all messages.
func (j *Journal) RemoveCheckpoints(ctx context.Context) error { return j.removeCheckpoints(ctx) }

// LockReplay acquires the replay lock, and records that it was acquired the given duration ago.
func (j *Journal) LockReplay(ctx context.Context, destination string, since time.Duration) (renew func(context.Context) error, unlock func(context.Context), err error) {
	l, unlockReplay, err := j.lockReplay(ctx, destination)
	if err != nil {
		return nil, nil, err
	}
	l.At = l.At.Add(-since)
	return l.Renew, func(context.Context) { unlockReplay() }, nil
}

// Orphans is the state of DetachOrphans.
type Orphans = orphans

// DetachOrphans runs the periodic check with a given time.
func (j *Journal) DetachOrphans(ctx context.Context, seen *Orphans, now time.Time) error {
	return j.detachOrphans(ctx, seen, now)
}

// LosePresence removes the presence of all processes, as if it had expired.
func (j *Journal) LosePresence(ctx context.Context) error {
	if err := j.JS.Purge(ctx, j.Names.Stream(record.StreamState), j.Names.Subject("s", "has", "*"), 0); err != nil {
		return err
	}
	return j.StoreCheckpoint(ctx)
}

// StoreCheckpoint stores a checkpoint even if it is not due.
func (j *Journal) StoreCheckpoint(ctx context.Context) error {
	return j.storeCheckpoint(ctx, 0, j.ledger.Encode())
}

// outcomeOf returns the outcome of a first attempt.
func (j *Journal) outcomeOf(l journal.Lease, r journal.Result) *record.Outcome {
	o := &record.Outcome{Decided: time.Now(), Due: r.RetryAt, Accepted: l.Entry().Since}
	var entry string
	o.Destination, entry, _ = strings.Cut(l.Entry().ID, "/")
	_, _ = fmt.Sscanf(entry, "%d.%d/%d", &o.Ref.Seq, &o.Ref.Part, &o.Attempt)
	j.ledger.With(o.Destination, func(a *ledger.Account) { o.Attached = a.Attached })
	for i, c := range r.Outcomes {
		switch place := o.Ref.Part*record.PartCalls + i; c.State {
		case tracking.StateDelivered:
			o.Delivered++
		case tracking.StateFiltered:
			o.Filtered++
		case tracking.StateFailed:
			o.Failed = append(o.Failed, record.Failure{Place: place, Reason: c.Reason})
		default:
			o.Again = append(o.Again, place)
		}
	}
	return o
}

// FinishAhead finishes a lease with a clock that is ahead by step.
func (j *Journal) FinishAhead(ctx context.Context, l journal.Lease, r journal.Result, step time.Duration) error {
	o := j.outcomeOf(l, r)
	o.Decided, o.Due = o.Decided.Add(step), o.Due.Add(step)
	if _, err := j.queues.Record(o); err != nil {
		return err
	}
	_, err := j.Publish(ctx, j.retryMessage(o.Destination, nextAttempt(o), o.Decided))
	return err
}

// RescheduleAhead runs the periodic check of retries.
func (j *Journal) RescheduleAhead(ctx context.Context) error { return j.rescheduleAhead(ctx) }

// FinishUnsettled stores an outcome without applying it, as if the process had been killed in
// the middle of Finish.
func (j *Journal) FinishUnsettled(l journal.Lease, r journal.Result) error {
	_, err := j.queues.Record(j.outcomeOf(l, r))
	return err
}

// Scrub reads all stored data once.
func (j *Journal) Scrub(ctx context.Context) error { return j.scrubber.Scrub(ctx) }

// Scheduled returns the number of messages ever stored in RETRY.
func (j *Journal) Scheduled(ctx context.Context) (uint64, error) {
	retries, err := j.Measure(ctx, record.StreamRetry)
	return retries.LastSeq, err
}

// Stats contains the sizes of the streams.
type Stats struct {
	Calls, Outcomes, Retries, Failed, Attempts Stored
	// MaxBytes is the limit of Calls.
	MaxBytes int64
}

// Stored is the size of a stream.
type Stored struct {
	Messages uint64
	Bytes    uint64
}

// Stats measures the streams.
func (j *Journal) Stats(ctx context.Context) (Stats, error) {
	s := Stats{MaxBytes: j.options.MaxBytes}
	for kind, stored := range map[string]*Stored{
		record.StreamCalls: &s.Calls, record.StreamOutcomes: &s.Outcomes, record.StreamRetry: &s.Retries, record.StreamFailed: &s.Failed, record.StreamAttempts: &s.Attempts,
	} {
		state, err := j.Measure(ctx, kind)
		if err != nil {
			return s, err
		}
		*stored = Stored{state.Msgs, state.Bytes}
	}
	return s, nil
}
