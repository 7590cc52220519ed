package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Ledger returns the totals of every attached destination. It includes all calls that this
// process has stored, and after a short delay the calls of other processes.
func (j *Journal) Ledger(ctx context.Context) ([]tracking.Ledger, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	if err := j.ledger.Reached(ctx, j.seen.acked.Load(), 0); err != nil {
		return nil, fmt.Errorf("journal: the ledger is behind: %w", err)
	}
	ledgers, unattempted := j.ledger.Ledgers()
	for i := range ledgers {
		l := &ledgers[i]
		if !unattempted[l.Destination] {
			continue
		}
		at, err := j.oldestUnattempted(ctx, l.Destination)
		if err != nil {
			return nil, err
		}
		if l.OldestPending.IsZero() || at.Before(l.OldestPending) {
			l.OldestPending = at
		}
	}
	return ledgers, nil
}

// oldestUnattempted returns when the oldest call without a finished first attempt was accepted.
func (j *Journal) oldestUnattempted(ctx context.Context, destination string) (time.Time, error) {
	var now oldestCall
	var floor uint64
	var sources []string
	j.ledger.With(destination, func(a *ledger.Account) {
		now.attached, now.ended, floor, sources = a.Attached, a.Totals.Accepted-a.Unattempted, a.Floor, a.Sources()
	})
	if at := j.queues.Oldest(destination); !at.IsZero() {
		return at, nil
	}
	j.seen.mu.Lock()
	before, ok := j.seen.oldest[destination]
	j.seen.mu.Unlock()
	if ok && before.attached == now.attached && before.ended == now.ended {
		return before.at, nil
	}
	t := j.TailCalls(floor+1, func(parsed *record.Calls) error {
		if j.ledger.With(destination, func(a *ledger.Account) { ok = a.UnattemptedIn(parsed) > 0 }) && !ok {
			return nil
		}
		now.at = parsed.At
		return store.ErrEnough
	})
	t.Subjects, t.Batch = j.Names.CallSubjects(sources), 16
	if err := t.Scan(ctx); err != nil {
		return time.Time{}, fmt.Errorf("journal: finding the oldest call of %q: %w", destination, err)
	}
	if now.at.IsZero() {
		return time.Now(), nil // the attempt was finished in the meantime
	}
	j.seen.mu.Lock()
	defer j.seen.mu.Unlock()
	j.seen.oldest[destination] = now
	return now.at, nil
}

// Failed yields the failed calls of a destination, and the filtered calls that can be replayed,
// oldest first. Options.KeepFailed and Options.FailedBytes limit the list.
func (j *Journal) Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	if err := j.open(); err != nil {
		return err
	}
	if !j.ledger.With(destination, func(*ledger.Account) {}) {
		return fmt.Errorf("%w: %q", journal.ErrNotAttached, destination)
	}
	if err := j.awaitListed(ctx, destination); err != nil {
		return err
	}
	// Measure before reading the marks: calls that are replayed during the listing may fail again.
	list, err := j.Measure(ctx, record.StreamFailed)
	if err != nil {
		return err
	}
	marks, err := j.marks(ctx, destination)
	if err != nil {
		return err
	}
	return j.eachFailed(ctx, destination, record.Span{First: 1, Last: list.LastSeq}, false, func(m *record.FailedMessage) error {
		replayed := marks[m.Ref.Token()]
		bodies, err := record.DecodeCalls(m.Data)
		if err != nil {
			return fmt.Errorf("journal: message %d of FAILED: %w", m.Seq, err)
		}
		traces := record.Traces(m.Traces, len(bodies))
		for place, body := range bodies {
			if replayed.Has(place) {
				continue
			}
			call, err := event.ReadCall(m.Why.Source, body)
			if err != nil {
				return fmt.Errorf("journal: message %d of FAILED: %w", m.Seq, err)
			}
			reason, filtered := m.Why.Reason(place)
			if !yield(journal.FailedCall{Call: call, Trace: traces.At(place), Filtered: filtered, Reason: reason, FailedAt: m.At, Attempts: m.Why.Attempts}) {
				return store.ErrEnough
			}
		}
		return nil
	})
}

// awaitListed waits until the list of failed calls is complete. The list then contains the calls of
// this process, of previous processes, and the recent calls of other processes. While the store is
// not writable, awaitListed does not wait, and the list may be incomplete.
func (j *Journal) awaitListed(ctx context.Context, destination string) error {
	err := j.awaitSettled(ctx)
	if err == nil {
		err = j.awaitKept(ctx, destination)
	}
	if err != nil && (ctx.Err() != nil || j.Ctx.Err() != nil) {
		return fmt.Errorf("journal: the list of failed calls is incomplete: %w", err)
	}
	return nil
}

// awaitKept waits until the recently failed calls of this and other processes are listed.
func (j *Journal) awaitKept(ctx context.Context, destination string) error {
	storable, stop, err := j.WritableContext(ctx, store.PublishTimeout)
	if err != nil {
		return err
	}
	defer stop()
	err = j.queues.AwaitFailedStored(storable, destination)
	if err == nil && j.Shared {
		err = j.settleLatest(storable, destination)
	}
	return err
}

// Verify recounts all stored calls. For every destination, it checks that
// accepted = delivered + failed + filtered + pending + lost, and that the ledger has the same
// numbers. Calls may be accepted and delivered at the same time. Verify takes a few seconds for a
// million messages. For each destination, it needs 12 bytes of memory per unattempted message and
// about 50 bytes per retry. If the store is not writable, Verify waits a few seconds and then
// returns journal.ErrUnwritable.
func (j *Journal) Verify(ctx context.Context) (all []journal.Verification, err error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	err = j.RetryAfterOutage(ctx, func(ctx context.Context) (err error) {
		all, err = j.verify(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return all, nil
}

func (j *Journal) verify(ctx context.Context) (all []journal.Verification, err error) {
	if err := j.awaitRecovery(ctx, j.previous.tried); err != nil { // retries are missing until the first attempt at recovery
		return nil, err
	}
	if err := j.trimmer.running.LockContext(ctx); err != nil { // prevents this process from removing messages before they are read
		return nil, fmt.Errorf("waiting until old calls are removed: %w", err)
	}
	defer j.trimmer.running.Unlock()
	err = j.Retry(ctx, func(ctx context.Context) (err error) {
		all, err = j.recount(ctx, audit.Waits)
		return err
	})
	return all, err
}

// recount recounts the stored calls. It starts again if another process removes messages in the meantime.
func (j *Journal) recount(ctx context.Context, waits int) ([]journal.Verification, error) {
	for try := 1; ; try++ {
		base, _, err := j.loadBase(ctx)
		if err != nil {
			return nil, err
		}
		now, err := j.ledgerState(ctx)
		if err != nil {
			return nil, err
		}
		v := audit.Verifier{Store: j.Store, Ledger: j.ledger, Waits: waits}
		all, err := v.Verify(ctx, base, now)
		if !errors.Is(err, record.ErrDamaged) {
			return all, err
		}
		if err := j.unlessTrimmed(ctx, base.Purged, err); err != nil {
			return nil, err
		}
		if try == maxTries {
			return nil, fmt.Errorf("other collectors removed old calls during each of %d recounts; try again later", maxTries)
		}
	}
}

// ledgerState returns the current state of the ledger. It reads the acknowledged positions first,
// because acknowledged messages must have outcomes that the ledger has read.
func (j *Journal) ledgerState(ctx context.Context) (*ledger.State, error) {
	acknowledged := map[string]uint64{}
	for _, name := range j.ledger.Destinations() {
		floor, err := j.ackFloor(ctx, name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) { // the consumer may be missing until Attach creates it
			return nil, err
		}
		acknowledged[name] = floor
	}
	calls, outcomes, err := j.ends(ctx) // other processes may have stored messages that the ledger has not read
	if err != nil {
		return nil, err
	}
	if err := j.ledger.Reached(ctx, max(calls, j.seen.acked.Load()), outcomes); err != nil {
		return nil, err
	}
	return j.ledger.State(acknowledged), nil
}

// ackFloor returns the number of the last message of CALLS before the first message that a
// destination has not acknowledged.
func (j *Journal) ackFloor(ctx context.Context, destination string) (uint64, error) {
	consumer, err := j.JS.Consumer(ctx, j.Names.Stream(record.StreamCalls), j.Names.Consumer(destination))
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().AckFloor.Stream, nil
}

// Seen yields the source and the messageIds of each message of calls accepted since a time, oldest
// first, until yield returns false. A restarted collector uses Seen to detect duplicates. It reads at
// least the newest limit calls. It returns ErrDamaged if a message cannot be read.
func (j *Journal) Seen(ctx context.Context, since time.Time, limit int, yield func(source string, ids iter.Seq[string]) bool) error {
	handle := func(parsed *record.Calls) error {
		if parsed.Kind == record.KindCalls && !parsed.At.Before(since) && !yield(parsed.Name, record.EachID(parsed.IDs)) {
			return store.ErrEnough
		}
		return nil
	}
	calls, err := j.Measure(ctx, record.StreamCalls)
	next := newest(calls, limit)
	if err == nil && j.local != nil && calls.NumDeleted == 0 { // the files may still contain deleted messages
		next, err = j.readFiles(record.Span{First: next, Last: calls.LastSeq}, handle)
	}
	if err == nil {
		t := j.TailCalls(next, handle)
		var unknown error
		t.Whole = func(gap record.Span) (expected bool) {
			if expected = j.ledger.IsLostCall(gap); !expected {
				expected, unknown = j.isTrimmed(ctx, gap.Last)
			}
			return expected
		}
		err = errors.Join(t.Scan(ctx), unknown)
	}
	if err != nil && !errors.Is(err, store.ErrEnough) {
		return fmt.Errorf("journal: reading the IDs of stored calls: %w", err)
	}
	return nil
}

// readFiles reads messages of CALLS like TailCalls, but from the server's files, which takes much less
// time. It returns the number of the first message that it did not read.
func (j *Journal) readFiles(span record.Span, handle func(*record.Calls) error) (next uint64, err error) {
	return j.local.files.ReadHeaders(j.Names.Stream(record.StreamCalls), span, func(m *jetstream.RawStreamMsg) error {
		parsed, err := j.Names.ParseCalls(m)
		if err != nil {
			return err
		}
		return handle(parsed)
	})
}

// OnStored registers a function that receives each newly stored call of all collectors. A call that
// is sent to two collectors is therefore recognized as a duplicate. f must not block.
func (j *Journal) OnStored(f func(source, id string)) { j.seen.onStored.Store(&f) }

// newest returns the sequence number of a message of CALLS. At least limit calls follow this
// message, if CALLS contains that many.
func newest(calls jetstream.StreamState, limit int) uint64 {
	// Each message has at least one call.
	if first := int64(calls.LastSeq) - int64(limit) + 1; first > int64(calls.FirstSeq) {
		return uint64(first)
	}
	return max(1, calls.FirstSeq)
}

// Health implements journal.Journal.
func (j *Journal) Health(ctx context.Context) (journal.Health, error) {
	cluster := j.conns.servers.State()
	return journal.Health{
		Bytes: j.incoming.usage.bytes(), LimitBytes: j.options.MaxBytes,
		Servers: cluster.Servers, Replicas: cluster.Replicas, Scrub: j.scrubber.Health(),
	}, j.Ready(ctx)
}

// Ready returns nil if the journal accepts calls, or the reason.
func (j *Journal) Ready(ctx context.Context) error {
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.Status.Writable(); err != nil {
		return err
	}
	if err := j.incoming.usage.begin(0, j.options.MaxBytes); err != nil {
		return err
	}
	info, err := j.JS.Info(ctx, j.Names.Stream(record.StreamCalls))
	switch {
	case err != nil:
		if !errors.Is(err, journal.ErrNoResponse) {
			err = fmt.Errorf("%w: %w", journal.ErrNoResponse, err)
		}
		return err
	case info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "":
		return errors.New("journal: the cluster has no leader for CALLS")
	}
	return nil
}
