package jetstream

import (
	"context"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

var _ journal.Journal = (*Journal)(nil)

// Open opens a journal. It returns when all stored data is recovered and the journal
// accepts calls. It returns ErrInUse if another process uses the directory, and ErrDamaged
// if stored data is missing or corrupt.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newJournal(o).opened(func(j *Journal) error {
		err := j.openServers(ctx)
		if err == nil {
			err = j.begin(ctx)
		}
		return err
	})
}

func newJournal(o Options) *Journal {
	j := &Journal{
		Store: store.New(o.Name, o.NATS != nil, o.Logger), options: o, ledger: ledger.NewLive(ledger.New()),
		previous: previousRun{settled: make(chan struct{}), tried: make(chan struct{})}, incoming: incoming{writers: map[string]*sourceWriter{}},
		seen:    seen{oldest: map[string]oldestCall{}},
		replays: replays{found: map[string]uint64{}, marked: map[string]uint64{}}, trimmer: trimmer{soon: make(chan struct{}, 1)},
	}
	j.queues = queue.NewSet(j.Store, j)
	return j
}

// opened runs open and closes the journal if it fails.
func (j *Journal) opened(open func(*Journal) error) (*Journal, error) {
	if err := open(j); err != nil {
		_ = j.Close()
		return nil, err
	}
	return j, nil
}

// begin recovers stored data and starts the journal's goroutines.
func (j *Journal) begin(ctx context.Context) error {
	if err := j.withBallast(func() error { return j.ensure(ctx) }); err != nil {
		return err
	}
	j.Status.Up()
	if err := j.measure(ctx); err != nil {
		return fmt.Errorf("journal: measuring CALLS: %w", err)
	}
	if err := j.recover(ctx); err != nil {
		return err
	}
	var files *datadir.Files
	if j.local != nil {
		files = j.local.files
		files.AcceptLoss = false
		if err := j.withBallast(func() error { return j.snapshot(ctx, true) }); err != nil {
			return err
		}
		if err := j.withBallast(func() error { return j.local.recent.Open(j.options.Dir) }); err != nil {
			return err
		}
		j.local.recovered = true
	}
	j.previous.snapshot, j.previous.accepted, j.options.AcceptLoss = nil, nil, false // later damage has not been accepted
	// Store the time now, because new outcomes may arrive long before the lists of failed calls
	// are complete.
	if _, err := j.unsettledSince(ctx); err != nil {
		if j.Shared {
			return fmt.Errorf("journal: storing the time of unfinished work: %w", err)
		}
		j.Log.Warn("cannot store the time of unfinished work; will retry", "error", err)
	}
	j.queues.Begin(j.ledger)
	j.attempts = store.NewAttemptLog(j.Store, j.incoming.usage.diskFull.Load)
	j.scrubber = audit.NewScrubber(j.Store, files, j.streamNames())
	all := []func(){j.maintain, j.trimPeriodically, j.settlePredecessors}
	if j.local != nil || j.Shared {
		all = append(all, j.scrubber.Run)
	}
	if j.Shared {
		all = append(all, j.renewPresence, j.renewLeases)
	}
	if j.conns.cluster != nil {
		all = append(all, j.watchCluster, j.watchServers)
	}
	for _, run := range all {
		j.Work.Go(run)
	}
	return nil
}

// Transient reports whether an error of a cluster may be temporary: a server does not respond
// yet, an election is in progress, or some servers do not know a new stream yet.
func Transient(err error) bool { return store.IsTransient(err) }

// recover restores the ledger and reads the messages that follow it.
func (j *Journal) recover(ctx context.Context) error {
	if err := j.restore(ctx); err != nil {
		return err
	}
	j.follow()
	if err := j.catchUp(ctx); err != nil || j.Shared || j.previous.clean {
		return err
	}
	if err := j.dropUnfailed(ctx); err != nil {
		return fmt.Errorf("journal: checking the failed calls: %w", err)
	}
	return nil
}

// follow starts reading CALLS and OUTCOMES into the ledger.
func (j *Journal) follow() {
	readCalls, readOutcomes := j.ledger.Position()
	j.recordStored(readCalls)
	calls := j.TailCalls(readCalls+1, func(parsed *record.Calls) error {
		j.skipping.Lock()
		j.ledger.ReadCalls(parsed)
		j.skipping.Unlock()
		if parsed.Kind == record.KindDetach {
			j.queues.Leave(parsed.Name, parsed.Seq)
		}
		if notify := j.seen.onStored.Load(); notify != nil && parsed.Kind == record.KindCalls {
			for id := range record.EachID(parsed.IDs) {
				(*notify)(parsed.Name, id)
			}
		}
		return nil
	})
	calls.Whole = func(gap record.Span) bool { return j.ledger.IsLostCall(gap) || j.skipTrimmed(gap.Last, 0) }
	outcomes := j.TailOutcomes(readOutcomes+1, func(m *record.Outcomes) error { return j.ledger.ReadOutcomes(j.Ctx, m) })
	outcomes.Whole = func(gap record.Span) bool { return j.ledger.IsLostOutcome(gap) || j.skipTrimmed(0, gap.Last) }
	for _, t := range []*store.Tail{calls, outcomes} {
		// After a failed write, the server may deliver messages that it has lost. It reports the loss
		// only when it shuts down.
		t.Paused = func() bool {
			_, err := j.Status.Writable()
			return err != nil || j.CheckSynced() != nil
		}
		j.Work.Go(func() {
			if err := t.Follow(j.Ctx); j.Ctx.Err() == nil {
				j.Log.Error("the ledger can no longer be updated", "stream", t.Stream, "error", err)
				j.ledger.Fail(err)
				j.Status.Down(err)
			}
		})
	}
}

// skipTrimmed replaces the ledger if another process has removed messages that this process has not read. This
// happens if this process was cut off for longer than Options.Keep. skipTrimmed waits while the store does not
// respond. It reports whether the ledger then includes CALLS and OUTCOMES up to the given sequence numbers.
func (j *Journal) skipTrimmed(calls, outcomes uint64) bool {
	j.skipping.Lock()
	defer j.skipping.Unlock()
	isIncluded := func() bool {
		readCalls, readOutcomes := j.ledger.Position()
		return readCalls >= calls && readOutcomes >= outcomes
	}
	var err error
	for try := 1; !isIncluded(); try++ {
		if !j.Shared || try > leaderTries {
			if err != nil {
				j.Log.Error("the stored ledger cannot be used to skip the removed calls", "error", err)
			}
			return false
		}
		if err = j.skipToBase(j.Ctx); store.IsTransient(err) {
			try = 0
		}
		if !isIncluded() && pause.For(j.Ctx, leaderPause) != nil {
			return false
		}
	}
	for name, attached := range j.queues.Attached() {
		same := false
		if j.ledger.With(name, func(a *ledger.Account) { same = a.Attached == attached }); !same {
			j.queues.Leave(name, attached+1) // another process has detached the destination
		}
	}
	return true
}

// skipToBase replaces the ledger if it is behind the base. The new ledger consists of the base and the later
// messages of CALLS that the previous ledger had read. The caller must hold j.skipping.
func (j *Journal) skipToBase(ctx context.Context) error {
	var base *ledger.Ledger
	err := j.Retry(ctx, func(ctx context.Context) (err error) {
		base, _, err = j.loadBase(ctx)
		return err
	})
	if err != nil || !j.ledger.IsBehind(base) {
		return err
	}
	readCalls, _ := j.ledger.Position()
	t := j.TailCalls(base.Calls+1, func(parsed *record.Calls) error {
		base.ReadCalls(parsed)
		return nil
	})
	t.Whole, t.Last, t.Must = base.IsLostCall, readCalls, true
	if err := t.Scan(ctx); err != nil {
		return err
	}
	j.ledger.Skip(base)
	return nil
}

// Close stops all goroutines, syncs pending writes and stops the embedded server.
func (j *Journal) Close() (err error) {
	j.closing.Do(func() {
		j.queues.Close()
		if j.attempts != nil {
			j.attempts.Close()
		}
		j.Cancel(journal.ErrClosed)
		j.ledger.Fail(journal.ErrClosed) // ends waits for messages that are not read
		j.Work.Wait()
		j.conns.close()
		if j.local != nil {
			err = j.closeDirectory()
		}
	})
	return err
}

// Settings returns the store for settings made at run time. All collectors of a cluster share the
// store. It is usable until the journal is closed.
func (j *Journal) Settings() state.Store { return j.bucket(record.BucketSettings) }

// State returns the store for deletion requests, audiences and computed traits. All collectors of
// a cluster share the store. It is usable until the journal is closed.
func (j *Journal) State() state.Store { return j.bucket(record.BucketState) }

func (j *Journal) bucket(kind string) state.Store {
	return store.NewBucket(j.Store, kind, j.noteValue, j.withoutCounts)
}

// noteValue records a bucket value in the recent file if the server syncs every write. Otherwise
// a power cut could remove the value and keep the record.
func (j *Journal) noteValue(a record.Accepted) {
	if j.options.SyncInterval <= 0 {
		j.note(a)
	}
}

func (j *Journal) Attempts() *store.AttemptLog { return j.attempts }
