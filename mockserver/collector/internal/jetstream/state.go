package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
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
	skipping  pause.Lock // held while a message of CALLS is counted, or skipTrimmed replaces the ledger
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

// A previousRun is the state that the previous process left behind.
type previousRun struct {
	clean    bool              // whether the journal was closed
	snapshot *snapshot         // may be nil
	accepted []record.Accepted // messages accepted since the snapshot, in order
	causes   []string          // causes of accepted damage
	settled  chan struct{}     // closed when the lists of failed calls are complete
	tried    chan struct{}     // closed when recovery is complete or has failed once
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

// seen contains information about CALLS that the ledger does not have.
type seen struct {
	acked    atomic.Uint64                           // sequence number of the last message known to be stored
	onStored atomic.Pointer[func(source, id string)] // nil until OnStored

	mu     sync.Mutex            // guards oldest
	oldest map[string]oldestCall // results of oldestUnattempted, keyed by destination
}

// An oldestCall is a result of oldestUnattempted. It is valid until another first attempt has ended, or the
// destination was attached again.
type oldestCall struct {
	attached uint64
	ended    int64 // number of calls whose first attempt has ended
	at       time.Time
}

// replays is the state of this process's replays.
type replays struct {
	running pause.Lock        // serializes Replay; guards found
	found   map[string]uint64 // last message of FAILED in which findFailed has found a call, keyed by destination

	mu     sync.Mutex        // guards marked
	marked map[string]uint64 // keyed by destination, see Journal.marked
}

// trimmer is the state of Trim.
type trimmer struct {
	running pause.Lock    // serializes Trim
	soon    chan struct{} // contains one token to trim early; never closed
}
