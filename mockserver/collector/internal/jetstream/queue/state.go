package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/turns"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Set are the queues of a journal, by destination, and what they share.
type Set struct {
	*store.Store
	settler Settler
	account *ledger.Ledger
	results *results
	written atomic.Uint64 // messages of outcomes, to name them
	claims  claims
	unkept  pause.InFlight // the ends of entries that give calls up which are not kept yet, by destination

	mu     sync.Mutex // guards what follows
	queues map[string]*Queue
	closed bool
}

// keeping says that calls are given up from now on, until kept is called: then they are kept.
func (set *Set) keeping(destination string, given []tracking.Call) (kept func()) {
	if len(given) == 0 {
		return func() {}
	}
	return set.unkept.Begin(destination)
}

// A Settler does what follows from outcomes that are stored. To do it twice does no harm.
type Settler interface {
	// Settle schedules the next attempt, and keeps the calls that were given up.
	Settle(o *record.Outcome, given []tracking.Call, traces tracecontext.List) error
	// SettleFor does so for what is stored of messages of CALLS, by their numbers.
	SettleFor(ctx context.Context, destination string, messages []uint64) error
	// SettleSince does so for all that is stored since a time, and shortly before.
	SettleSince(ctx context.Context, destination string, since time.Time) error
	// RestoreRetry publishes a retry as its outcome says.
	RestoreRetry(ctx context.Context, destination string, ref record.Ref, r ledger.Waiting, read *store.Outcomes) error
	// Unpark publishes the retries that are parked, as due now.
	Unpark(ctx context.Context, destination string) error
}

// A Queue is what this process has before it for one destination. It asks the
// servers for as many messages as there are goroutines that wait for one.
type Queue struct {
	set *Set
	attachment
	ctx      context.Context
	cancel   context.CancelFunc // ends ctx: the queue is closed
	fresh    *puller            // of CALLS
	retries  *puller            // of RETRY
	claimant string             // its name where it claims the destination

	mu       sync.Mutex                 // guards what follows
	reader   *reader                    // the one that is open, or nil
	wants    map[*journal.Want]struct{} // of the goroutines that wait in Next
	items    map[record.Ref]*item       // all that this process has to do
	ready    *turns.Queue[*item]        // those that nobody works at; put off and retries have a time
	parked   map[record.Ref]*item       // that wait to be resumed; they are not among items
	messages map[uint64]*pendingMessage // messages of CALLS whose first attempt has not ended
	last     uint64                     // the newest message of CALLS that came; all before it that are to come did, or it was looked that there are none
	came     uint64                     // the newest that came
	inOrder  bool                       // entries are asked for in the order of their positions
	unparked bool                       // entries are asked for in no order, and nothing is parked any more
	hold     *hold                      // in which this process alone does so; nil where it does not, or need not say so
	phase    context.Context            // ends when the queue begins or ends a hold
	endPhase context.CancelFunc
	ahead    overtaking
	again    repeats
}

// A hold is the time in which this process hands out the entries of a destination in order.
type hold struct {
	queue    *Queue
	name     string          // which its consumer has
	ctx      context.Context // ends when it may no longer do so
	cancel   context.CancelCauseFunc
	until    atomic.Pointer[time.Time] // when it ends unless the claim is renewed
	ending   *time.Timer               // which ends it unless the claim is renewed
	claim    uint64                    // the message of STATE; used by one goroutine at a time
	earlier  time.Time                 // when somebody held the destination last
	renewing chan struct{}
	results  *results // by which the outcomes of its entries are stored
}

// An attachment is a destination as it was attached.
type attachment struct {
	name     string
	attached uint64    // the message of CALLS that attached it
	since    time.Time // when that was
}

// repeats are messages of CALLS that came again after all in them had ended.
type repeats struct {
	messages map[uint64][]jetstream.Msg // which are acknowledged once what follows is done
	settling bool                       // settleRepeated runs
}

// A pendingMessage is a message of CALLS that came for its first attempt.
type pendingMessage struct {
	msg    jetstream.Msg // which is acknowledged; nil where it has overtaken others
	calls  int
	at     time.Time
	source string
	left   int // parts that have not ended

	decode  sync.Once // guards what follows
	payload []byte
	traces  string
	bodies  [][]byte
	decoded tracecontext.List // the traces
	err     error
}

// An item is an entry to be worked at.
//
//	state    what has it                when it leaves
//	(none)   the stream                 a message comes: ready
//	ready    items, ready               Next: leased; nobody asks for it: given back to the stream
//	leased   items                      Finish: ends; Return, or its end is not stored: ready
//	ends     items, until what follows  its message is acknowledged: (none)
//	         from the outcome is done
type item struct {
	record.Retry                 // of a first attempt it has but ref and attempt, and due where it was put off
	message      *pendingMessage // for a first attempt
	msg          jetstream.Msg   // for a retry: which is acknowledged
	since        time.Time       // when it came, for its renewal
	leased       bool
	misses       int // how often its calls were not found
}

// source returns the source of an item that is a first attempt.
func (it *item) source() string {
	if it.message == nil {
		return ""
	}
	return it.message.source
}

// isReplay reports whether an item is calls that are replayed and were not tried since.
func (it *item) isReplay() bool { return it.message == nil && it.Attempt == 1 }

// A puller asks a consumer for messages, for so many as are wanted and no more:
// a backlog stays on the disk. They are taken one after the other, in their order.
type puller struct {
	queue  *Queue
	kind   string // of the stream
	wanted func() int
	got    func(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata)
	wake   chan struct{} // holds a token when more may be wanted; never closed

	// Used by run alone.

	alone bool   // nobody else asks the consumer of this session
	came  uint64 // how many messages have come in it
}

// An overtaking is how far it was looked for messages that overtake.
type overtaking struct {
	behind  uint64 // how many messages were behind the newest that came
	looking bool
	looked  time.Time
	source  string            // the last one for which it was looked
	passed  map[string]uint64 // by source: the last message that overtook
}

// A reader hands out the items of a queue.
type reader struct {
	queue *Queue
	wake  chan struct{} // closed when there may be something to lease; then there is another; guarded by queue.mu
	done  chan struct{} // closed by end
	once  sync.Once     // guards done
}

func (r *reader) end() { r.once.Do(func() { close(r.done) }) }
