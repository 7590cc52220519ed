package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Ledger returns the account of every attached destination. It knows all that
// this process was told is stored, and of other processes what they had stored a
// moment ago.
func (j *Journal) Ledger(ctx context.Context) ([]tracking.Ledger, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	if err := j.ledger.Reached(ctx, j.seen.acked.Load()); err != nil {
		return nil, fmt.Errorf("journal: the account is behind: %w", err)
	}
	ledgers, fresh := j.ledger.Ledgers()
	for i := range ledgers {
		l := &ledgers[i]
		if !fresh[l.Destination] {
			continue
		}
		at, err := j.oldestFresh(ctx, l.Destination)
		if err != nil {
			return nil, err
		}
		if l.OldestPending.IsZero() || at.Before(l.OldestPending) {
			l.OldestPending = at
		}
	}
	return ledgers, nil
}

// oldestFresh returns when the oldest call was accepted whose first attempt at a
// destination has not ended.
func (j *Journal) oldestFresh(ctx context.Context, destination string) (time.Time, error) {
	var now oldestCall
	var sources []string
	j.ledger.With(destination, func(b *ledger.Account) {
		now.floor, now.done, sources = b.Floor, len(b.Done), b.Sources()
	})
	if at := j.queues.Oldest(destination); !at.IsZero() {
		return at, nil
	}
	j.seen.oldest.mu.Lock()
	before, ok := j.seen.oldest.found[destination]
	j.seen.oldest.mu.Unlock()
	if ok && before.floor == now.floor && before.done == now.done {
		return before.at, nil
	}
	t := j.TailCalls(now.floor+1, func(parsed *record.Calls) error {
		if j.ledger.With(destination, func(b *ledger.Account) { ok = b.IsOpen(parsed) }) && !ok {
			return nil
		}
		now.at = parsed.At
		return store.ErrEnough
	})
	t.Subjects, t.Batch = j.Names.CallSubjects(sources), 16
	if err := t.Scan(ctx); err != nil {
		return time.Time{}, fmt.Errorf("journal: looking for the oldest call of %q: %w", destination, err)
	}
	if now.at.IsZero() {
		return time.Now(), nil // it has ended meanwhile
	}
	j.seen.oldest.mu.Lock()
	defer j.seen.oldest.mu.Unlock()
	j.seen.oldest.found[destination] = now
	return now.at, nil
}

// Failed yields the calls that a destination has given up, and those that were filtered
// and kept, oldest first. They are kept for Options.KeepFailed, as many as Options.FailedBytes has room for.
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
	list, err := j.Measure(ctx, record.StreamFailed)
	if err != nil {
		return err
	}
	marks, err := j.marks(ctx, destination)
	if err != nil {
		return err
	}
	return j.eachFailed(ctx, destination, false, func(m *record.FailedMessage) error {
		if m.Seq > list.LastSeq { // replayed while it is listed, and failed again
			return store.ErrEnough
		}
		bodies, err := record.DecodeCalls(m.Data)
		if err != nil {
			return fmt.Errorf("journal: message %d of FAILED: %w", m.Seq, err)
		}
		traces := record.Traces(m.Traces, len(bodies))
		for place, body := range bodies {
			if marks[m.Ref.Token()].Has(place) {
				continue
			}
			call, err := fields.ReadCall(m.Why.Source, body)
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

// awaitListed waits until all calls that count as failed are listed: those of earlier
// processes, of this one, and those that other processes gave up a moment ago. While the store
// cannot be written to, some may not be listed.
func (j *Journal) awaitListed(ctx context.Context, destination string) error {
	err := j.awaitSettled(ctx)
	if err == nil {
		err = j.awaitKept(ctx, destination)
	}
	if err != nil && (ctx.Err() != nil || j.Ctx.Err() != nil) {
		return fmt.Errorf("journal: calls that have failed are not listed yet: %w", err)
	}
	return nil
}

// awaitKept waits until the calls are listed that this process and others gave up a moment ago.
func (j *Journal) awaitKept(ctx context.Context, destination string) error {
	storable, stop, err := j.While(ctx, store.PublishPatience)
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

// Verify reads all that is stored and proves or refutes, for every destination,
// that accepted = delivered + failed + filtered + pending + lost, that none of them
// is negative, and that the ledger says the same. Calls may be accepted and delivered meanwhile. It takes a few
// seconds for a million stored messages, and for each destination 12 bytes of memory
// for a message that was not tried and about 50 for what waits for a retry. When the store
// cannot be written to, the account no longer follows: Verify waits for the store for a few
// seconds, and then returns journal.ErrUnwritable.
func (j *Journal) Verify(ctx context.Context) (all []journal.Verification, err error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	err = j.Outlast(ctx, func(ctx context.Context) (err error) {
		all, err = j.verify(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return all, nil
}

func (j *Journal) verify(ctx context.Context) (all []journal.Verification, err error) {
	if err := j.awaitLeft(ctx, j.left.tried); err != nil { // retries are missing before
		return nil, err
	}
	j.trimmer.running.Lock() // what is read must stay
	defer j.trimmer.running.Unlock()
	err = j.Patiently(ctx, func(ctx context.Context) (err error) {
		all, err = j.verifier().Verify(ctx)
		return err
	})
	return all, err
}

func (j *Journal) verifier() *audit.Verifier {
	return &audit.Verifier{Store: j.Store, Account: j.ledger, From: j, Looks: audit.Looks}
}

// ToVerify returns what the account says now. What a consumer takes for acknowledged
// is asked first: each of its messages must then have outcomes that the account has
// read.
func (j *Journal) ToVerify(ctx context.Context) (*ledger.Claim, error) {
	acknowledged := map[string]uint64{}
	for _, name := range j.ledger.Destinations() {
		floor, err := j.ackFloor(ctx, name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) { // it is made when the destination is attached
			return nil, err
		}
		acknowledged[name] = floor
	}
	calls, err := j.Measure(ctx, record.StreamCalls) // another process may have stored more than this one has read
	if err != nil {
		return nil, err
	}
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return nil, err
	}
	if err := j.ledger.ReachedBoth(ctx, max(calls.LastSeq, j.seen.acked.Load()), outcomes.LastSeq); err != nil {
		return nil, err
	}
	return j.ledger.Verified(acknowledged), nil
}

// ackFloor returns up to where all messages of CALLS were acknowledged that a
// destination gets.
func (j *Journal) ackFloor(ctx context.Context, destination string) (uint64, error) {
	consumer, err := j.JS.Consumer(ctx, j.Names.Stream(record.StreamCalls), j.Names.Consumer(destination))
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().AckFloor.Stream, nil
}

// Seen calls yield with each call that is stored, oldest first, until it returns
// false: its source, its messageId, and when it was accepted. With it a collector
// knows calls again that are sent again after a restart. It reads the newest
// limit calls, and some more. A million take about half a second. It returns
// ErrDamaged where one cannot be read.
func (j *Journal) Seen(ctx context.Context, limit int, yield func(source, id string, at time.Time) bool) error {
	first, err := j.newest(ctx, limit)
	if err != nil {
		return fmt.Errorf("journal: reading which calls are stored: %w", err)
	}
	t := j.TailCalls(first, func(parsed *record.Calls) error {
		if parsed.Kind == record.KindCalls && !record.EachID(parsed.IDs, func(id string) bool { return yield(parsed.Name, id, parsed.At) }) {
			return store.ErrEnough
		}
		return nil
	})
	t.Whole = j.ledger.IsKnownLoss
	if err := t.Scan(ctx); err != nil {
		return fmt.Errorf("journal: reading which calls are stored: %w", err)
	}
	return nil
}

// OnStored has f called with each call that is stored from about now on, by this
// process or by another that shares the journal: what is sent to one collector and
// again to another is known there too, after a moment. f must not block.
func (j *Journal) OnStored(f func(source, id string)) { j.seen.onStored.Store(&f) }

// newest returns a message of CALLS from which on there are at least so many
// calls, if there are so many.
func (j *Journal) newest(ctx context.Context, limit int) (uint64, error) {
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return 0, err
	}
	// A message has one call at least.
	if first := int64(calls.LastSeq) - int64(limit) + 1; first > int64(calls.FirstSeq) {
		return uint64(first), nil
	}
	return max(1, calls.FirstSeq), nil
}

// Stats say how much is stored.
type Stats struct {
	Calls, Outcomes, Retries, Failed, Attempts Stored
	// MaxBytes is what Calls may have before Append refuses.
	MaxBytes int64
}

// Stored is what one stream has.
type Stored struct {
	Messages uint64
	Bytes    uint64
}

// Stats asks the server how much is stored.
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

// Health implements journal.Journal.
func (j *Journal) Health(ctx context.Context) (journal.Health, error) {
	cluster := j.conns.servers.State()
	return journal.Health{
		Bytes: j.incoming.usage.bytes(), LimitBytes: j.options.MaxBytes,
		Servers: cluster.Servers, Replicas: cluster.Replicas, Scrub: j.scrubber.Health(),
	}, j.Ready(ctx)
}

// Ready returns nil if the journal can take calls now, or says why not.
func (j *Journal) Ready(ctx context.Context) error {
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.Status.Writable(); err != nil {
		return err
	}
	if err := j.incoming.usage.room(j.options.MaxBytes); err != nil {
		return err
	}
	info, err := j.JS.Info(ctx, j.Names.Stream(record.StreamCalls))
	switch {
	case err != nil:
		return errors.Join(errors.New("journal: the store does not answer"), err)
	case info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "":
		return errors.New("journal: the cluster has no leader for CALLS")
	}
	return nil
}
