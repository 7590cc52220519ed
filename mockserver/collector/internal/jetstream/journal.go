package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Journal is a journal.Journal on JetStream. Its methods may be called from
// many goroutines at once.
type Journal struct {
	*store.Store
	options  Options
	ledger   *ledger.Ledger
	queues   *queue.Set
	attempts *attempts.Log
	scrubber *audit.Scrubber

	local    *local      // nil where the streams are not in a directory of this process
	conns    connections // the zero value where others have made them
	left     leftovers
	incoming incoming
	seen     seen
	claims   claims
	replays  replays
	trimmer  trimmer
	closing  sync.Once
}

var _ journal.Journal = (*Journal)(nil)

// Open opens a journal, and returns once it has recovered what is stored and can
// take calls. It returns ErrInUse where another process works on the directory,
// and ErrDamaged where what is there is not what was stored.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newJournal(o).opened(func(j *Journal) error {
		if o.NATS == nil {
			if err := j.openServer(); err != nil {
				return err
			}
		}
		if err := j.connect(ctx); err != nil {
			return err
		}
		return j.begin(ctx)
	})
}

// openOn opens a journal on streams that are reached in another way: there is no server
// to start or to watch, and no directory. With Options.NATS it is one of those that share
// the streams.
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

func newJournal(o Options) *Journal {
	j := &Journal{
		Store: store.New(o.Name, o.NATS != nil, o.Logger), options: o, ledger: ledger.New(),
		left: leftovers{settled: make(chan struct{})}, incoming: incoming{writers: map[string]*sourceWriter{}},
		seen: seen{oldest: oldestCalls{found: map[string]oldestCall{}}}, claims: claims{names: map[string]bool{}},
		replays: replays{marked: map[string]uint64{}}, trimmer: trimmer{soon: make(chan struct{}, 1)},
	}
	j.queues = queue.NewSet(j.Store, j)
	return j
}

// opened returns the journal once open has succeeded, or closes it.
func (j *Journal) opened(open func(*Journal) error) (*Journal, error) {
	if err := open(j); err != nil {
		_ = j.Close()
		return nil, err
	}
	return j, nil
}

// begin recovers what is stored, and starts what goes on while the journal is open.
func (j *Journal) begin(ctx context.Context) error {
	if err := j.ensure(ctx); err != nil {
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
		if err := j.snapshot(ctx, true); err != nil {
			return err
		}
		if err := j.local.recent.Open(j.options.Dir); err != nil {
			return err
		}
		j.local.recovered = true
	}
	j.left.kept, j.left.accepted, j.options.AcceptLoss = nil, nil, false // what is damaged from now on was not accepted
	// Outcomes of this process may come for long before it looks after the lists of failed calls.
	if _, err := j.unsettledSince(ctx); err != nil {
		if j.Shared {
			return fmt.Errorf("journal: noting what may be left undone: %w", err)
		}
		j.Log.Warn("what an earlier process may have left undone is not noted; it is tried again", "error", err)
	}
	j.queues.Begin(j.ledger)
	j.attempts = attempts.New(j.Store, j.incoming.usage.isDiskFull)
	j.scrubber = audit.NewScrubber(j.Store, files, j.streamNames())
	all := []func(){j.maintain, j.keepTrimmed, j.settleEarlier}
	if j.local != nil || j.Shared {
		all = append(all, j.scrubber.Run)
	}
	if j.Shared {
		all = append(all, j.keepClaims, j.keepAlive)
	}
	if j.conns.cluster != nil {
		all = append(all, j.keepLinked, j.keepServers)
	}
	for _, run := range all {
		j.Work.Go(run)
	}
	return nil
}

// Transient reports whether what failed on a cluster may succeed later: its servers
// do not answer yet, are choosing a leader, or do not know yet what another server or
// collector has just created.
func Transient(err error) bool { return store.IsTransient(err) }

// recover reads where every destination stands.
func (j *Journal) recover(ctx context.Context) error {
	if err := j.restore(ctx); err != nil {
		return err
	}
	j.follow()
	if err := j.catchUp(ctx); err != nil || j.Shared || j.left.clean {
		return err
	}
	if err := j.dropUnfailed(ctx); err != nil {
		return fmt.Errorf("journal: looking through what failed: %w", err)
	}
	return nil
}

// follow keeps the account up to date.
func (j *Journal) follow() {
	j.sawCalls(j.ledger.Calls)
	calls := j.Tail(record.StreamCalls, j.ledger.Calls+1, func(m jetstream.Msg, seq uint64) error {
		parsed, err := j.Names.ParseCalls(seq, m.Subject(), m.Headers())
		if err != nil {
			return err
		}
		j.ledger.ReadCalls(parsed)
		if parsed.Kind == record.KindDetach {
			j.queues.Leave(parsed.Name, seq)
		}
		if tell := j.seen.onStored.Load(); tell != nil && parsed.Kind == record.KindCalls {
			record.EachID(parsed.IDs, func(id string) bool { (*tell)(parsed.Name, id); return true })
		}
		return nil
	})
	calls.HeadersOnly, calls.Whole = true, j.ledger.IsKnownLoss
	outcomes := j.Tail(record.StreamOutcomes, j.ledger.Outcomes+1, func(m jetstream.Msg, seq uint64) error {
		id, decoded, err := record.DecodeOutcomes(m.Data())
		if err != nil {
			return fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		return j.ledger.ReadOutcomes(j.Ctx, seq, id, decoded)
	})
	outcomes.Whole = j.ledger.IsGone
	for _, t := range []*store.Tail{calls, outcomes} {
		// A server whose write has failed shows what it could not store when it stops.
		t.Paused = func() bool {
			_, err := j.Status.Writable()
			return err != nil || j.ProveSynced() != nil
		}
		j.Work.Go(func() {
			if err := t.Follow(j.Ctx); j.Ctx.Err() == nil {
				j.Log.Error("the account cannot be followed any longer", "stream", t.Stream, "error", err)
				j.ledger.BreakOff(err)
				j.Status.Down(err)
			}
		})
	}
}

// Attach opens the queue of a destination.
func (j *Journal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	j.claims.attaching.Lock()
	defer j.claims.attaching.Unlock()
	if err := j.open(); err != nil {
		return nil, err
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	if j.setClaim(destination, true); j.Shared {
		if err := j.Patiently(ctx, j.claim); err != nil { // before others find that nobody has it
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	if !j.isAttached(destination, sources) {
		if err := j.queues.ConnectSources(ctx, destination, sources); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
		c := record.Control{Name: destination, Sources: sources}
		if err := j.control(ctx, destination, c); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	r, err := j.queues.Open(ctx, destination)
	if err != nil {
		return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
	}
	return r, nil
}

func (j *Journal) isAttached(destination string, sources []string) bool {
	same := false
	return j.ledger.With(destination, func(b *ledger.Account) {
		same = slices.Equal(b.Scopes[len(b.Scopes)-1].Sources, sources)
	}) && same
}

// control stores a control message and waits until the account knows it.
func (j *Journal) control(ctx context.Context, destination string, c record.Control) error {
	m := nats.NewMsg(j.Names.Subject(record.KindAttach, record.Token(destination)))
	m.Header.Set(record.HeaderControl, c.Header())
	record.SetTime(m.Header, time.Now())
	seq, err := j.Publish(ctx, m)
	if err != nil {
		return err
	}
	j.sawCalls(seq)
	if err := j.ledger.Reached(ctx, seq); err != nil {
		return err
	}
	j.remember(ctx)
	return nil
}

// remember has it stored twice what was said in CALLS.
func (j *Journal) remember(ctx context.Context) {
	if j.local == nil {
		return // its servers have it more than once
	}
	if err := j.snapshot(ctx, true); err != nil {
		j.Log.Warn("the account is not stored; it is tried again", "error", err)
	}
}

// Detach forgets a destination, its pending and its failed calls.
func (j *Journal) Detach(ctx context.Context, destination string) error {
	j.claims.attaching.Lock()
	defer j.claims.attaching.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	j.setClaim(destination, false)
	if j.ledger.With(destination, func(*ledger.Account) {}) {
		if err := j.control(ctx, destination, record.Control{Name: destination, Detach: true}); err != nil {
			return fmt.Errorf("journal: detaching %q: %w", destination, err)
		}
	}
	j.queues.Leave(destination, math.MaxUint64)
	if err := j.clear(ctx, destination); err != nil {
		return fmt.Errorf("journal: %q is detached, but not all of it was removed: %w", destination, err)
	}
	return nil
}

// clear removes what is stored for a destination beside calls and outcomes.
func (j *Journal) clear(ctx context.Context, destination string) error {
	consumer, t := j.Names.Consumer(destination), record.Token(destination)
	var errs []error
	for _, kind := range []string{record.StreamCalls, record.StreamRetry} {
		err := j.JS.DeleteConsumer(ctx, j.Names.Stream(kind), consumer)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			errs = append(errs, err)
		}
	}
	for subject, kind := range map[string]string{"at": record.StreamRetry, "due": record.StreamRetry, "f": record.StreamFailed, "m": record.StreamFailed} {
		errs = append(errs, j.JS.Purge(ctx, j.Names.Stream(kind), j.Names.Subject(subject, t, "*"), 0))
	}
	return errors.Join(errs...)
}

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

// sawCalls remembers that a message of CALLS is stored.
func (j *Journal) sawCalls(seq uint64) {
	for {
		have := j.seen.acked.Load()
		if seq <= have || j.seen.acked.CompareAndSwap(have, seq) {
			return
		}
	}
}

// open returns ErrJournalClosed once it is closed.
func (j *Journal) open() error {
	if j.Ctx.Err() != nil {
		return journal.ErrClosed
	}
	return nil
}

// Close ends all readers, brings what is under way to the disk, and stops the
// embedded server.
func (j *Journal) Close() (err error) {
	j.closing.Do(func() {
		j.queues.Close()
		if j.attempts != nil {
			j.attempts.Close()
		}
		j.Cancel(journal.ErrClosed)
		j.Work.Wait()
		j.conns.close()
		if j.local != nil {
			err = j.leaveDirectory()
		}
	})
	return err
}
