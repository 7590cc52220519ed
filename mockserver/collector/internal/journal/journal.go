package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Journal is a mockserver.Journal on JetStream. Its methods may be called from
// many goroutines at once.
type Journal struct {
	options Options
	names   names
	log     *slog.Logger
	writer  uint64 // names this process among those that share the streams
	lock    *flock.Flock
	server  *embedded // nil on a cluster
	ballast *ballast  // nil on a cluster
	canary  *canary   // nil where messages are acknowledged before they are synced, and on a cluster
	in, nc  *nats.Conn
	js      jetstream.JetStream
	// The streams that are read by number or subject.
	calls, outcomes, retry, failed, state jetstream.Stream
	health                                health
	account                               *account
	recovered                             bool // Open has come to its end
	results                               *results
	attempts                              *AttemptLog
	usage                                 usage
	servers                               servers // of the cluster
	scrubber                              scrubber
	kept                                  *snapshot       // what must be there, as Open found it; nil where that is not known
	clean                                 bool            // the journal was closed before it was opened
	causes                                []string        // what Open found damaged and may go on without
	accepted                              []acceptedCalls // since the snapshot that Open found, in their order
	recent                                recent
	snapshots                             snapshotStore
	settled                               chan struct{} // closed when the lists of failed calls have what earlier processes left undone
	trimSoon                              chan struct{} // holds one token when there is reason to trim before the time; never closed

	ctx    context.Context // ends when the journal is closed
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // goroutines that end with ctx

	acked    atomic.Uint64 // the last message of CALLS that this process knows of
	messages atomic.Uint64 // counts what was published, to name it

	stored atomic.Pointer[func(source, id string)] // nil until OnStored

	link   atomic.Pointer[link]  // replaced when a connection is made again
	warned atomic.Pointer[error] // what a connection reported last; nil when it was made again

	attaching sync.Mutex // lets one Attach or Detach run at a time
	replaying sync.Mutex // lets one Replay run at a time
	trimming  sync.Mutex // lets one Trim run at a time
	oldest    oldestCalls

	mu      sync.Mutex // guards what follows
	lanes   map[string]*lane
	queues  map[string]*queue
	replays map[string]uint64 // of each destination: see marked
	claims  map[string]bool   // the destinations that this process has
	closed  bool
}

var _ journal.Journal = (*Journal)(nil)

// Open opens a journal, and returns once it has recovered what is stored and can
// take calls. It returns ErrInUse where another process works on the directory,
// and ErrDamaged where what is there is not what was stored.
func Open(ctx context.Context, o Options) (_ *Journal, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Journal{
		options: o, names: names{o.Name}, log: o.Logger, writer: randomNumber(), account: newAccount(), settled: make(chan struct{}), trimSoon: make(chan struct{}, 1),
		lanes: map[string]*lane{}, queues: map[string]*queue{}, replays: map[string]uint64{}, claims: map[string]bool{}, oldest: oldestCalls{found: map[string]oldestCall{}},
	}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	j.link.Store(newLink())
	defer func() {
		if err != nil {
			_ = j.Close()
		}
	}()
	if o.NATS == nil {
		if err := j.openServer(); err != nil {
			return nil, err
		}
	}
	if err := j.connect(ctx); err != nil {
		return nil, err
	}
	if err := j.ensure(ctx); err != nil {
		return nil, err
	}
	j.health.rise()
	if err := j.measure(ctx); err != nil {
		return nil, fmt.Errorf("journal: measuring CALLS: %w", err)
	}
	if err := j.recover(ctx); err != nil {
		return nil, err
	}
	if o.NATS == nil {
		if err := j.snapshot(ctx, true); err != nil {
			return nil, err
		}
		if err := j.recent.open(o.Dir); err != nil {
			return nil, err
		}
	}
	j.kept, j.accepted, j.options.AcceptLoss = nil, nil, false // what is damaged from now on was not accepted
	j.recovered = true
	j.results, j.attempts = newResults(j), &AttemptLog{journal: j}
	j.work.Go(j.results.run)
	j.work.Go(j.keepHouse)
	j.work.Go(j.keepTrimmed)
	j.work.Go(j.keepScrubbed)
	if o.NATS != nil {
		j.work.Go(j.keepClaims)
		j.work.Go(j.keepAlive)
		j.work.Go(j.keepLinked)
		j.work.Go(j.keepServers)
	}
	j.work.Go(j.settleEarlier)
	return j, nil
}

// openServer starts the embedded server on a directory that is ours alone.
func (j *Journal) openServer() error {
	var err error
	if j.lock, err = lock(j.options.Dir); err != nil {
		return err
	}
	if err := removeTemporary(j.options.Dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	m, err := j.readMarker()
	if err != nil {
		return err
	}
	if !m.Ready {
		if err := m.write(j.options.Dir); err != nil {
			return err
		}
	}
	j.ballast = newBallast(j.options.Dir)
	if err := j.ballast.take(); isDiskFull(err) {
		j.log.Warn("the disk is full: calls are refused until it has room", "directory", j.options.Dir)
		j.usage.setDiskFull(true)
	} else if err != nil {
		return err
	}
	err = j.checkStore(m)
	if isDiskFull(err) {
		j.giveWay()
		err = j.checkStore(m)
	}
	if err != nil {
		return err
	}
	j.server = newEmbedded(j.options)
	if j.options.SyncInterval <= 0 {
		j.canary = newCanary(j.options.Dir)
	}
	return j.startServer()
}

// startServer starts the server, with a canary beside it.
func (j *Journal) startServer() error {
	if j.canary != nil {
		if err := j.canary.place(); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return j.server.start()
}

// recover reads where every destination stands.
func (j *Journal) recover(ctx context.Context) error {
	if err := j.restore(ctx); err != nil {
		return err
	}
	j.follow()
	if err := j.catchUp(ctx); err != nil || j.options.NATS != nil || j.clean {
		return err
	}
	if err := j.dropUnfailed(ctx); err != nil {
		return fmt.Errorf("journal: looking through what failed: %w", err)
	}
	return nil
}

// follow keeps the account up to date.
func (j *Journal) follow() {
	j.sawCalls(j.account.calls)
	calls := j.tail(streamCalls, j.account.calls+1, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		j.account.readCalls(parsed)
		if parsed.kind == kindDetach {
			j.leave(parsed.name, seq)
		}
		if tell := j.stored.Load(); tell != nil && parsed.kind == kindCalls {
			eachID(parsed.ids, func(id string) bool { (*tell)(parsed.name, id); return true })
		}
		return nil
	})
	calls.headersOnly, calls.whole = true, j.account.isKnownLoss
	outcomes := j.tail(streamOutcomes, j.account.outcomes+1, func(m *nats.Msg, seq uint64) error {
		id, decoded, err := decodeOutcomes(m.Data)
		if err != nil {
			return fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		return j.account.readOutcomes(j.ctx, seq, id, decoded)
	})
	outcomes.whole = j.account.isGone
	for _, t := range []*tail{calls, outcomes} {
		// A server whose write has failed shows what it could not store when it stops.
		t.held = func() bool {
			_, err := j.health.up()
			return err != nil || j.proveSynced() != nil
		}
		j.work.Go(func() {
			if err := t.follow(j.ctx); j.ctx.Err() == nil {
				j.log.Error("the account cannot be followed any longer", "stream", t.stream, "error", err)
				j.account.breakOff(err)
				j.health.fall(err)
			}
		})
	}
}

func (j *Journal) tail(kind string, next uint64, handle func(*nats.Msg, uint64) error) *tail {
	t := &tail{
		link: &j.link, nc: j.nc, js: j.js, stream: j.names.stream(kind), next: next, batch: 1000, heartbeat: 5 * time.Second, handle: handle,
		trouble: func(err error) { j.log.Debug("a reader was made again", "stream", kind, "error", err) },
	}
	if j.options.NATS != nil {
		t.shared, t.heartbeat = true, time.Second // the server that has the consumer may die alone
	}
	return t
}

// Attach opens the queue of a destination.
func (j *Journal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	j.attaching.Lock()
	defer j.attaching.Unlock()
	if err := j.open(); err != nil {
		return nil, err
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	if j.setClaim(destination, true); j.options.NATS != nil {
		if err := j.patiently(ctx, j.claim); err != nil { // before others find that nobody has it
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	if !j.isAttached(destination, sources) {
		if err := j.connectSources(ctx, destination, sources); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
		c := control{Name: destination, Sources: sources}
		if err := j.control(ctx, destination, c); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	q, err := j.queue(ctx, destination)
	if err != nil {
		return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
	}
	return q.newReader(), nil
}

func (j *Journal) isAttached(destination string, sources []string) bool {
	same := false
	return j.account.with(destination, func(b *book) {
		same = slices.Equal(b.scopes[len(b.scopes)-1].sources, sources)
	}) && same
}

// control stores a control message and waits until the account knows it.
func (j *Journal) control(ctx context.Context, destination string, c control) error {
	m := nats.NewMsg(j.names.subject(kindAttach, token(destination)))
	m.Header.Set(headerControl, c.header())
	setTime(m.Header, time.Now())
	seq, err := j.publish(ctx, j.nc, m)
	if err != nil {
		return err
	}
	j.sawCalls(seq)
	if err := j.account.reached(ctx, seq); err != nil {
		return err
	}
	j.remember(ctx)
	return nil
}

// remember has it stored twice what was said in CALLS.
func (j *Journal) remember(ctx context.Context) {
	if j.options.NATS != nil {
		return // its servers have it more than once
	}
	if err := j.snapshot(ctx, true); err != nil {
		j.log.Warn("the account is not stored; it is tried again", "error", err)
	}
}

// queue returns the queue of a destination as it is attached now.
func (j *Journal) queue(ctx context.Context, destination string) (*queue, error) {
	var attached uint64
	var since int64
	if !j.account.with(destination, func(b *book) { attached, since = b.attached, b.since }) {
		return nil, fmt.Errorf("%w: it was detached meanwhile", journal.ErrNotAttached)
	}
	j.mu.Lock()
	q := j.queues[destination]
	j.mu.Unlock()
	if q != nil && q.attached == attached {
		return q, j.patiently(ctx, q.ensure)
	}
	if q != nil {
		q.close()
	}
	q, err := newQueue(j, destination, attached, time.UnixMilli(since))
	if err != nil {
		return nil, err
	}
	if err := j.patiently(ctx, q.ensure); err != nil {
		q.close()
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		q.close()
		return nil, journal.ErrClosed
	}
	j.queues[destination] = q
	return q, nil
}

// Detach forgets a destination, its pending and its failed calls.
func (j *Journal) Detach(ctx context.Context, destination string) error {
	j.attaching.Lock()
	defer j.attaching.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	j.setClaim(destination, false)
	if j.account.with(destination, func(*book) {}) {
		if err := j.control(ctx, destination, control{Name: destination, Detach: true}); err != nil {
			return fmt.Errorf("journal: detaching %q: %w", destination, err)
		}
	}
	j.leave(destination, math.MaxUint64)
	if err := j.clear(ctx, destination); err != nil {
		return fmt.Errorf("journal: %q is detached, but not all of it was removed: %w", destination, err)
	}
	return nil
}

// leave closes the queue of a destination that was attached before a message of CALLS,
// which has detached it, maybe one of another process.
func (j *Journal) leave(destination string, before uint64) {
	j.mu.Lock()
	q := j.queues[destination]
	if q != nil && q.attached < before {
		delete(j.queues, destination)
	} else {
		q = nil
	}
	j.mu.Unlock()
	if q != nil {
		q.close()
	}
}

// clear removes what is stored for a destination beside calls and outcomes.
func (j *Journal) clear(ctx context.Context, destination string) error {
	consumer, t := j.names.consumer(destination), token(destination)
	var errs []error
	for _, kind := range []string{streamCalls, streamRetry} {
		err := j.js.DeleteConsumer(ctx, j.names.stream(kind), consumer)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			errs = append(errs, err)
		}
	}
	for subject, kind := range map[string]string{"at": streamRetry, "due": streamRetry, "f": streamFailed, "m": streamFailed} {
		stream, err := j.js.Stream(ctx, j.names.stream(kind))
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(j.names.subject(subject, t, "*")))
		}
		errs = append(errs, err)
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
	if err := j.account.reached(ctx, j.acked.Load()); err != nil {
		return nil, fmt.Errorf("journal: the account is behind: %w", err)
	}
	ledgers, fresh := j.account.ledgers()
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
		have := j.acked.Load()
		if seq <= have || j.acked.CompareAndSwap(have, seq) {
			return
		}
	}
}

// open returns ErrJournalClosed once it is closed.
func (j *Journal) open() error {
	if j.ctx.Err() != nil {
		return journal.ErrClosed
	}
	return nil
}

// leaveServer stops the server, and remembers that it was stopped in good order where
// all that is stored is on the disk.
func (j *Journal) leaveServer() error {
	if err := j.server.stop(); err != nil || !j.recovered {
		return err
	}
	if _, err := j.health.up(); err != nil {
		return err
	}
	if err := j.prove(); err != nil {
		return err
	}
	return j.writeClean()
}

// Close ends all readers, brings what is under way to the disk, and stops the
// embedded server.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	queues := j.queues
	j.queues = nil
	j.mu.Unlock()
	for _, q := range queues {
		q.close()
	}
	if j.attempts != nil {
		j.attempts.close()
	}
	j.cancel(journal.ErrClosed)
	j.work.Wait()
	for _, nc := range []*nats.Conn{j.in, j.nc} {
		if nc != nil {
			nc.Close()
		}
	}
	if j.server != nil {
		if err := j.leaveServer(); err != nil {
			j.log.Warn("not all that is stored is certain to be on the disk; the next start looks at all of it", "error", err)
		}
	}
	if err := j.recent.close(); err != nil {
		j.log.Debug("what was accepted last is not noted", "error", err)
	}
	if j.lock != nil {
		return j.lock.Unlock()
	}
	return nil
}
