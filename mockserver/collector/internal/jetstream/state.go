package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
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

// open returns ErrJournalClosed once it is closed.
func (j *Journal) open() error {
	if j.Ctx.Err() != nil {
		return journal.ErrClosed
	}
	return nil
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

// awaitSettled waits until the lists of failed calls are settled: before, calls that
// failed may not be listed, and calls that were replayed still be.
func (j *Journal) awaitSettled(ctx context.Context) error { return j.awaitLeft(ctx, j.left.settled) }

// awaitLeft waits until so much of what an earlier process left undone is done. It is not
// done while the store cannot be written to: then awaitLeft returns the store's error.
func (j *Journal) awaitLeft(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	up, stop, err := j.While(ctx, 0)
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
		return fmt.Errorf("journal: what an earlier process left undone is not done yet: %w", context.Cause(up))
	}
}

// unsettled is how long before the end of a process something may have been
// stored of which what follows was not done.
const unsettled = time.Minute

// leftovers are what an earlier process has left, as Open found it.
type leftovers struct {
	clean    bool              // the process ended in good order
	kept     *snapshot         // what must be there; nil where that is not known
	accepted []record.Accepted // since that snapshot, in their order
	causes   []string          // what is damaged, and Open may go on without
	settled  chan struct{}     // closed when the lists of failed calls have what was left undone
	tried    chan struct{}     // closed when all was done that was left undone, or could not be at first
}

// A snapshot is what must be in the data directory, in a file beside the streams:
// the account as far as it had read, the account of what was removed, and how far
// the other streams had come. Whatever is damaged in the streams, it says what that
// was; whatever of it is damaged can be made again from the streams. What it says is
// there was brought to the disk before.
//
// There are two files, of which one is always whole. Where a cluster keeps the
// streams there is none: checkpoints are there for a quick start.
type snapshot struct {
	number  uint64
	account *ledger.Ledger
	base    *ledger.Ledger // nil where it is not known
	marks   map[string]extentMark
}

// An extentMark is what a stream must have at least.
type extentMark struct {
	last     uint64 // the number of its last message
	messages uint64 // of a bucket: how many values; 0 where they are not counted
}

// A local is what a journal has on a directory of its own.
type local struct {
	lock      *datadir.Lock
	files     *datadir.Files
	ballast   *datadir.Ballast
	server    *servers.Embedded // nil until the directory was checked
	canary    *datadir.Canary   // nil where messages are acknowledged before they are synced
	recent    datadir.Recent
	snapshots snapshotStore
	recovered bool // Open has come to its end
}

// A snapshotStore stores snapshots.
type snapshotStore struct {
	mu     turn      // guards what follows; held while one is made, or values are deleted
	number uint64    // of the last one
	base   []byte    // encoded; nil where it is not known
	stored *progress // of the last one; nil if there is none that is current
	next   time.Time
}

// A progress says where the journal is: it stays the same while nothing is stored.
type progress struct {
	calls, outcomes uint64 // up to where the account was read
	changes         uint64 // see store.Store
}

// connections are those to the server within the process, or to a cluster.
type connections struct {
	in, out *nats.Conn            // nil until they are made
	cluster *servers.Cluster      // nil within the process
	servers servers.Known         // of the cluster
	warned  atomic.Pointer[error] // what a connection reported last; nil when it was made again
}

func (c *connections) close() {
	for _, nc := range []*nats.Conn{c.in, c.out} {
		if nc != nil {
			nc.Close()
		}
	}
}

// incoming are the calls that are about to be stored.
type incoming struct {
	usage usage

	mu      sync.Mutex // guards writers
	writers map[string]*sourceWriter
}

// A sourceWriter publishes the calls of one source. While as many messages as may be are
// under way, what comes gathers in one group.
type sourceWriter struct {
	journal *Journal
	source  string
	slots   chan struct{} // one token for each message under way; never closed

	mu   sync.Mutex // guards what follows
	open *group     // the group that may still grow
}

// A group is what becomes one message.
type group struct {
	at      time.Time // when the first batch came
	calls   int
	size    int
	bytes   int64 // that usage counts
	ids     []byte
	traces  []byte // see record.AppendTrace
	traced  int    // how many of the calls, the first ones, traces has
	payload []byte
	done    chan struct{} // closed when err says how it ended
	err     error

	doubtful chan struct{} // closed when doubt says why that is not known soon, if it is not
	doubt    error
}

// A usage follows how many bytes CALLS has. The server is asked now and then;
// between, what this process stores is added.
type usage struct {
	mu       sync.Mutex // guards what follows
	stored   int64
	underway int64 // of calls that are being stored
	diskFull bool  // the ballast was given up
}

// begin counts n bytes that are about to be stored, or returns ErrJournalFull or
// errDiskFull. end must follow.
func (u *usage) begin(n, limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.full(limit); err != nil {
		return err
	}
	u.underway += n
	return nil
}

// end says whether n bytes that begin has counted were stored.
func (u *usage) end(n int64, stored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.underway -= n; stored {
		u.stored += n
	}
}

// room returns ErrJournalFull or errDiskFull where no calls may be stored.
func (u *usage) room(limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.full(limit)
}

// full is room with the lock held.
func (u *usage) full(limit int64) error {
	if u.diskFull {
		return errDiskFull
	}
	if used := u.stored + u.underway; used >= limit {
		return fmt.Errorf("%w: it holds %d of %d bytes", journal.ErrFull, used, limit)
	}
	return nil
}

// errDiskFull refuses calls while the ballast is given up.
var errDiskFull = fmt.Errorf("journal: calls are refused until the disk has room: %w", syscall.ENOSPC)

func (u *usage) setDiskFull(full bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.diskFull = full
}

func (u *usage) isDiskFull() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.diskFull
}

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
	return u.stored + u.underway
}

// seen is what this process knows of CALLS beside the ledger.
type seen struct {
	acked    atomic.Uint64                           // the last message that it knows to be stored
	onStored atomic.Pointer[func(source, id string)] // nil until OnStored
	oldest   oldestCalls
}

// oldestCalls remembers what oldestFresh found.
type oldestCalls struct {
	mu    sync.Mutex // guards found
	found map[string]oldestCall
}

// An oldestCall holds as long as the account has moved no further.
type oldestCall struct {
	floor uint64
	done  int
	at    time.Time
}

// claims are the destinations that this process has.
type claims struct {
	attaching turn // lets one Attach or Detach run at a time

	mu    sync.Mutex // guards names
	names map[string]bool
}

// replays are those of this process.
type replays struct {
	running turn // lets one Replay run at a time

	mu     sync.Mutex        // guards marked
	marked map[string]uint64 // of each destination: see Journal.marked
}

// A trimmer removes what is no longer needed.
type trimmer struct {
	running turn          // lets one Trim run at a time
	soon    chan struct{} // holds one token when there is reason to trim before the time; never closed
}

// A turn is a lock that is held while servers are asked. Who waits for it is blocked as
// package synctest understands it, which nobody is who waits for a mutex. The zero value is
// not taken.
type turn struct {
	once  sync.Once     // makes taken
	taken chan struct{} // holds a token while somebody has the turn; never closed
}

func (t *turn) Lock() {
	t.once.Do(func() { t.taken = make(chan struct{}, 1) })
	t.taken <- struct{}{}
}

func (t *turn) Unlock() { <-t.taken }
