package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Set contains the queues of a journal, keyed by destination. Its methods are safe for concurrent
// use.
type Set struct {
	*store.Store
	settler  Settler
	ledger   *ledger.Live
	results  *results
	written  atomic.Uint64  // number of messages with outcomes, used to name them
	unstored pause.InFlight // failed calls that are not stored in FAILED yet, keyed by destination

	mu     sync.Mutex // guards the fields below
	queues map[string]*Queue
	closed bool
}

// storing records that failed calls of a destination will be stored. The caller calls stored when
// FAILED contains them.
func (set *Set) storing(destination string, failed []tracking.Call) (stored func()) {
	if len(failed) == 0 {
		return func() {}
	}
	return set.unstored.Begin(destination)
}

// A Settler performs the actions that follow from stored outcomes. Each action is idempotent.
type Settler interface {
	// Settle schedules the next attempt and stores failed calls in FAILED.
	Settle(o *record.Outcome, failed []tracking.Call, traces event.Traces) error
	// SettleFor settles the outcomes of the given messages of CALLS. It reads the outcomes stored after
	// since and shortly before.
	SettleFor(ctx context.Context, destination string, since time.Time, messages []uint64) error
	// SettleSince settles all outcomes stored since a time, and some stored shortly before.
	SettleSince(ctx context.Context, destination string, since time.Time) error
	// RestoreRetry publishes a retry again.
	RestoreRetry(ctx context.Context, r ledger.Retry) error
	// Unpark publishes the parked retries, due now.
	Unpark(ctx context.Context, destination string) error
}

// A Queue contains the entries of one destination in this process. It requests one message for each
// waiting goroutine, or a few more (see puller.mayPullAhead). The rest of a backlog stays on the server.
type Queue struct {
	set *Set
	attachment
	ctx      context.Context
	cancel   context.CancelFunc // closes the queue
	fresh    *puller            // reads CALLS
	retries  *puller            // reads RETRY
	claimant string             // identifies this process in claims

	mu          sync.Mutex                   // guards the fields below
	reader      *reader                      // the open reader, or nil
	wants       map[*journal.Want]struct{}   // the requests of the goroutines that wait in Next
	items       map[record.Ref]*item         // all items except parked ones
	ready       *journal.WaitingQueue[*item] // items that are not leased; retries and postponed items have a time
	parked      map[record.Ref]*item         // items that wait for Resume
	messages    map[uint64]*pendingMessage   // messages of CALLS with first attempts that have not ended
	received    uint64                       // sequence number; all messages of CALLS for this destination up to it have been received
	newest      uint64                       // sequence number of the newest received message of CALLS
	handled     uint64                       // consumer sequence number of the newest message of CALLS that this process has handled
	inOrder     bool                         // the reader wants entries in the order of their positions
	unparked    bool                         // the reader wants entries in any order, and Unpark was called
	ownership   *ownership                   // nil if this process does not own the destination, or no other process shares it
	phase       context.Context              // done when the ownership changes
	endPhase    context.CancelFunc
	ahead       overtaking
	redelivered redeliveries
}

// An ownership gives this process the exclusive right to deliver the entries of a
// destination in order.
type ownership struct {
	queue     *Queue
	name      string          // suffix of the consumer's name
	ctx       context.Context // done when the ownership ends
	cancel    context.CancelCauseFunc
	expires   atomic.Pointer[time.Time] // end of the ownership, unless the claim is renewed
	expiry    *time.Timer               // cancels ctx at expires
	claimSeq  uint64                    // sequence number of the claim in STATE; used by one goroutine at a time
	previous  time.Time                 // when the previous owner last renewed its claim
	renewDone chan struct{}             // closed when renew returns
	results   *results                  // writes the outcomes of the owner's entries
}

// An attachment identifies a destination and the time at which it was attached.
type attachment struct {
	name     string
	attached uint64    // sequence number of the message of CALLS that attached the destination
	since    time.Time // when the destination was attached
}

// redeliveries are messages of CALLS that were redelivered after all of their first
// attempts had ended.
type redeliveries struct {
	messages map[uint64][]*nats.Msg // messages to acknowledge after settling, by sequence number
	oldest   time.Time              // when the oldest of the messages was stored
	settling bool                   // settleRedelivered is running
}

// A pendingMessage is a message of CALLS with first attempts that have not ended.
type pendingMessage struct {
	msg    *nats.Msg // to be acknowledged; nil if the message was read ahead of its turn
	calls  int
	at     time.Time
	source string
	left   int // number of parts that have not ended

	decode  sync.Once // guards the fields below
	payload []byte
	traces  string
	bodies  [][]byte
	decoded event.Traces // decoded from traces
	err     error
}

// An item is an entry in this process.
//
//	state    stored in                  next state
//	(none)   the server                 ready when its message arrives
//	ready    items, ready               leased by Next; (none) if no reader wants it
//	leased   items                      ended by Finish; ready after Return, or if its outcome cannot be stored
//	next     item.next                  ready when the previous attempt is removed from items
//	ended    items, until its outcome   (none) when its message is acknowledged
//	         is settled or settling fails
type item struct {
	record.Retry                 // a first attempt has only Ref and Attempt, and Due if it was postponed
	message      *pendingMessage // the message of a first attempt
	msg          *nats.Msg       // the message of a retry, to be acknowledged
	since        time.Time       // when the item was received or resumed
	returned     time.Time       // when the last lease was returned
	leased       bool
	next         *item          // the next attempt, if another process has ended this one; or nil
	calls        chan readCalls // receives the result of reading ahead; nil if the calls are not read ahead
	misses       int            // number of times that the item's calls were not found
}

// readCalls is the result of reading an item's calls.
type readCalls struct {
	storedCalls
	err error
}

// source returns the source of a first attempt, or "" for a retry.
func (it *item) source() string {
	if it.message == nil {
		return ""
	}
	return it.message.source
}

// isIdle reports whether the item was not received, resumed or returned after the given time.
func (it *item) isIdle(after time.Time) bool {
	return !it.since.After(after) && !it.returned.After(after)
}

// isReplay reports whether the item is a replay that has not been attempted.
func (it *item) isReplay() bool { return it.message == nil && it.Attempt == 1 }

// A puller requests the wanted number of messages from a consumer, and handles the messages in
// order.
type puller struct {
	queue  *Queue
	kind   string // the kind of stream
	wanted func() int
	handle func(ctx context.Context, m *nats.Msg, meta *nats.MsgMetadata)
	wake   chan struct{} // holds a token when more messages may be wanted; never closed

	// The fields below are used only by run.

	alone  bool   // whether this process alone uses the consumer
	newest uint64 // consumer sequence number of the newest received message
	ahead  bool   // the result of mayPullAhead for the newest message
}

// overtaking is the state of the search for messages of other sources behind a backlog.
type overtaking struct {
	behind   uint64 // number of messages on the server behind the newest received message
	checking bool
	checked  time.Time
	source   string            // the source that was checked last
	passed   map[string]uint64 // the last message read ahead of its turn, keyed by source
}

// A reader implements journal.Reader.
type reader struct {
	queue *Queue
	wake  chan struct{} // closed and replaced when an item may be ready; also closed with the reader; guarded by queue.mu
}
