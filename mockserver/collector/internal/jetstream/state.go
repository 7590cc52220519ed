package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Journal is a journal.Journal on JetStream. Its methods are safe for concurrent use.
type Journal struct {
	*store.Store
	options  Options
	ledger   *ledger.Live
	queues   *queue.Set
	attempts *store.AttemptLog
	scrubber *audit.Scrubber

	local    *local      // nil if there is no data directory
	conns    connections // zero if the streams belong to a test
	previous previousRun
	incoming incoming
	seen     seen
	replays  replays
	trimmer  trimmer
	closing  sync.Once

	attaching pause.Lock // serializes Attach and Detach
}

// open returns ErrClosed after Close.
func (j *Journal) open() error {
	if j.Ctx.Err() != nil {
		return journal.ErrClosed
	}
	return nil
}

// recordStored records that a message of CALLS is stored.
func (j *Journal) recordStored(seq uint64) {
	for {
		have := j.seen.acked.Load()
		if seq <= have || j.seen.acked.CompareAndSwap(have, seq) {
			return
		}
	}
}

// awaitSettled waits until the lists of failed calls are complete. Before that, failed calls may
// be missing, and replayed calls may still be listed.
func (j *Journal) awaitSettled(ctx context.Context) error {
	return j.awaitRecovery(ctx, j.previous.settled)
}

// awaitRecovery waits for a step of the recovery. It returns the store's error if the store
// is not writable.
func (j *Journal) awaitRecovery(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	up, stop, err := j.WritableContext(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-done:
		return nil
	case <-j.Ctx.Done():
		return journal.ErrClosed
	case <-up.Done():
		return fmt.Errorf("journal: the work of the previous process is not completed yet: %w", context.Cause(up))
	}
}

// settleWithin is the longest time between storing an outcome and applying it. If the process is killed
// in between, another process receives the message again, and applies the outcome at most
// settleWithinShared after it was stored.
const (
	settleWithin       = time.Minute
	settleWithinShared = 3*queue.AckWait + settleWithin
)

// A previousRun is the state that the previous process left behind.
type previousRun struct {
	clean    bool              // whether the journal was closed
	snapshot *snapshot         // may be nil
	accepted []record.Accepted // messages accepted since the snapshot, in order
	causes   []string          // causes of accepted damage
	settled  chan struct{}     // closed when the lists of failed calls are complete
	tried    chan struct{}     // closed when recovery is complete or has failed once
}

// A snapshot is a file in the data directory that contains the ledger, the base, and the last
// message of each other stream. It shows which data is missing if streams are damaged. If the
// snapshot is damaged, it can be restored from the streams. All data that a snapshot refers to was
// synced before the snapshot.
//
// Two files are written alternately, so one is always valid. On a cluster, checkpoints replace
// snapshots.
type snapshot struct {
	number uint64
	ledger *ledger.Ledger
	base   *ledger.Ledger // may be nil
	marks  map[string]extentMark
}

// An extentMark is the minimum content of a stream.
type extentMark struct {
	last     uint64 // sequence number of the last message
	messages uint64 // number of values in a bucket; 0 if unknown
}

// A local is the state of a journal with a data directory.
type local struct {
	lock      *datadir.Lock
	files     *datadir.Files
	ballast   *datadir.Ballast
	server    *servers.Embedded // nil until the directory is checked
	canary    *datadir.Canary   // nil if messages are acknowledged before they are synced
	recent    datadir.Recent
	snapshots snapshotStore
	recovered bool // Open has succeeded
}

// A snapshotStore stores snapshots.
type snapshotStore struct {
	mu     pause.Lock // guards the fields below; held during a snapshot or a deletion of values
	number uint64     // number of the last snapshot
	base   []byte     // encoded base; nil if unknown
	stored *progress  // position of the last snapshot; nil if it is outdated
	next   time.Time
}

// A progress is the journal's position. It changes whenever data is stored.
type progress struct {
	calls, outcomes uint64 // the ledger's position
	changes         uint64 // see store.Store
}

// connections are the NATS connections of a journal.
type connections struct {
	in, out *nats.Conn       // nil until connected
	cluster *servers.Cluster // nil for an embedded server
	servers servers.Known
	warned  atomic.Pointer[error] // last reported error; nil after a reconnect
}

func (c *connections) close() {
	for _, nc := range []*nats.Conn{c.in, c.out} {
		if nc != nil {
			nc.Close()
		}
	}
}

// incoming is the state of Append.
type incoming struct {
	usage usage

	mu      sync.Mutex // guards writers
	writers map[string]*sourceWriter
}

// A sourceWriter publishes the calls of one source. While all slots are taken, it collects further
// batches in one group.
type sourceWriter struct {
	journal *Journal
	source  string
	slots   chan struct{} // one token per message in flight; never closed

	mu   sync.Mutex // guards the fields below
	open *group     // accepts further batches
}

// A group is a message that is being assembled.
type group struct {
	at      time.Time // time of the earliest batch
	calls   int
	size    int
	bytes   int64 // included in the usage
	ids     []byte
	traces  []byte // see record.AppendTrace
	traced  int    // number of calls covered by traces
	payload []byte
	done    chan struct{} // closed when err is set
	err     error

	unconfirmed    chan struct{} // closed when unconfirmedErr is set: the result will take longer
	unconfirmedErr error
}

// A usage tracks the size of CALLS in bytes. The size is measured periodically. Between two
// measurements, the bytes stored by this process are added.
type usage struct {
	diskFull atomic.Bool // whether the ballast is released

	mu       sync.Mutex // guards the fields below
	stored   int64
	inFlight int64 // number of bytes being stored
}

// begin reserves n bytes, or returns ErrFull or errDiskFull. The caller must call end.
func (u *usage) begin(n, limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.diskFull.Load() {
		return errDiskFull
	}
	if used := u.stored + u.inFlight; used >= limit {
		return fmt.Errorf("%w: it holds %d of %d bytes", journal.ErrFull, used, limit)
	}
	u.inFlight += n
	return nil
}

// end releases n reserved bytes, and adds them to the size if they were stored.
func (u *usage) end(n int64, stored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.inFlight -= n; stored {
		u.stored += n
	}
}

// errDiskFull rejects calls while the ballast is released.
var errDiskFull = fmt.Errorf("journal: new calls are refused until the disk has space: %w", syscall.ENOSPC)

func (u *usage) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored += int64(n)
}

func (u *usage) set(stored int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored = stored
}

func (u *usage) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored + u.inFlight
}

// seen contains information about CALLS that the ledger does not have.
type seen struct {
	acked    atomic.Uint64                           // sequence number of the last message known to be stored
	onStored atomic.Pointer[func(source, id string)] // nil until OnStored
	oldest   oldestCalls
}

// oldestCalls caches the results of oldestUnattempted.
type oldestCalls struct {
	mu    sync.Mutex // guards found
	found map[string]oldestCall
}

// An oldestCall is the cached result for a destination. It is valid until the ledger's position
// changes.
type oldestCall struct {
	floor uint64
	done  int
	at    time.Time
}

// replays is the state of this process's replays.
type replays struct {
	running pause.Lock // serializes Replay

	mu     sync.Mutex        // guards marked
	marked map[string]uint64 // keyed by destination, see Journal.marked
}

// trimmer is the state of Trim.
type trimmer struct {
	running pause.Lock    // serializes Trim
	soon    chan struct{} // contains one token to trim early; never closed
}
