package journal

import (
	"context"
	"errors"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Errors that a [Journal] answers with. They may be wrapped.
var (
	// ErrFull says that the journal holds as many bytes as its limit
	// allows. Senders are answered 429, and should try again later. A disk without
	// room is another error, which is answered 503.
	ErrFull = errors.New("mockserver: the journal is full")

	// ErrUnwritable says that the journal's store cannot be written to at present: its
	// disk is full or read-only, or its directory is gone.
	ErrUnwritable = errors.New("journal: the store cannot be written to")

	// ErrClosed says that Close was called.
	ErrClosed = errors.New("mockserver: the journal is closed")

	// ErrNotAttached says that no destination of that name was attached.
	ErrNotAttached = errors.New("mockserver: no destination of this name is attached")
)

// A PartialReplayError says that a replay ended before all of its calls were due again.
type PartialReplayError struct {
	Replayed int // how many of the calls, from the first, are due again
	Err      error
}

// Error implements error.
func (e *PartialReplayError) Error() string { return e.Err.Error() }

// Unwrap returns what ended the replay.
func (e *PartialReplayError) Unwrap() error { return e.Err }

// An AppendError says that a whole batch is not stored, or that it is not known
// to be.
type AppendError struct {
	// Err is why.
	Err error
	// Stored returns how many of the batch's calls, the first ones, are stored all
	// the same. It waits until that is known, or the journal is closed.
	Stored func() int
}

// Error returns the text of Err.
func (e *AppendError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *AppendError) Unwrap() error { return e.Err }

// A Journal keeps accepted calls until every destination is done with them. It
// is the seam between the two sizes of the collector: [NewMemory] for one
// process, JetStream in the module mockserver/collector for a durable one. The
// suite in mockserver/internal/journal/journaltest says in tests what the comments here say in
// words; every implementation passes it.
//
// All methods may be called from many goroutines at once.
type Journal interface {
	// Append stores the batch for every destination attached to its source.
	// When it returns nil, the batch is as durable as the journal promises and
	// each such destination will be handed its calls at least once. On an error
	// nothing of it is stored, unless the error is an *AppendError. A journal that
	// is full returns ErrFull.
	//
	// A journal whose disk or servers do not answer limits by itself how long
	// Append takes. Where it gives up, or ctx ends, while the batch may still be
	// stored, it returns an *AppendError.
	//
	// The journal keeps b.Calls; the caller must not change it afterwards.
	Append(ctx context.Context, b event.Batch) error

	// Attach opens the queue of a destination. A destination seen for the first
	// time gets the calls that are appended from now on; one seen before goes on
	// where it was. No sources means all of them. Attaching again replaces the
	// sources for calls that are appended from now on, and closes the Reader that
	// was open before.
	Attach(ctx context.Context, destination string, sources []string) (Reader, error)

	// Detach forgets a destination, its pending and its failed calls. A
	// destination that is not attached is no error.
	Detach(ctx context.Context, destination string) error

	// Replay makes calls due again for a destination, at once, as an entry of
	// their own whose window begins now. In the ledger they move from the state
	// `from` to pending; calls replayed from StateFailed, and from StateFiltered those
	// that were kept, are no longer listed by Failed. traces are those of the calls. Where
	// it fails after some, the error is a *PartialReplayError.
	Replay(ctx context.Context, destination string, calls []tracking.Call, traces tracecontext.List, from tracking.State) error

	// Failed yields the calls that a destination has given up, and those that were
	// filtered and kept, oldest first, until yield returns false. It begins with all that
	// the ledger has counted so before the call, and yields none that ends so after it has
	// begun: yield may replay them, or call other methods of the journal. While the
	// journal's store cannot be written to, the newest may not be listed. A journal
	// may keep only the newest of them, and says in its own documentation how many.
	Failed(ctx context.Context, destination string, yield func(FailedCall) bool) error

	// Ledger returns the account of every attached destination, by name.
	Ledger(ctx context.Context) ([]tracking.Ledger, error)

	// Verify proves or refutes the account of every destination, by name. A journal that
	// can counts anew what it has stored. Calls may be accepted and delivered meanwhile.
	Verify(ctx context.Context) ([]Verification, error)

	// Health returns what the journal holds, and an error if it could not store
	// a batch now: ErrFull, or what keeps it from storing.
	Health(ctx context.Context) (Health, error)

	// Close ends all readers and releases what the journal holds. What is durable
	// stays. Close may be called again.
	Close() error
}

// A Reader hands out the entries of one destination, until the destination is attached
// again or detached, or the journal is closed: then those that are leased, and those that
// wait, stay pending for the next reader. Its methods may be called from many goroutines
// at once.
type Reader interface {
	// Next waits for an entry that is due and wanted, and leases it to the caller.
	// Sources take turns, however much of one waits and however long it has: calls
	// that were never tried come in their order within a source. Where both wait, an
	// entry that is tried again comes after four of calls that were never tried at
	// most. Next returns ctx's error, or ErrClosed once the reader hands out no
	// more.
	Next(ctx context.Context, want Want) (Lease, error)

	// Since is when the destination was attached, to a millisecond: for the first
	// time, or the first since it was detached. What became of calls before that was
	// at another destination of its name.
	Since() time.Time

	// Hold waits until this process may hand out entries in order, and no other that
	// shares the journal does. That lasts until release is called, or held ends: then
	// nothing more may begin of what was leased meanwhile, and what is under way is to
	// be broken off. Its Err looks at the clock, and may say so before Done does where the
	// process has stood still. release must be called once, when no entry is leased. The error is
	// ctx's, or ErrClosed.
	Hold(ctx context.Context) (held context.Context, release func(), err error)

	// Waiting yields the entries that wait for their next attempt, in any order, and
	// when each is due, until yield returns false. Those that wait for Resume have the zero
	// time. None of the reader's entries may be leased.
	Waiting(ctx context.Context, yield func(e Entry, due time.Time) bool) error

	// Resume has the entry come at once that waits for it, see Result.Parked, and has the
	// call at a position. Where none does, nothing happens. It must not wait.
	Resume(position uint64)

	// Keeps reports whether a call that was handed out before, by its position, is
	// pending still. A journal may end one by itself, such as one that was damaged.
	Keeps(position uint64) bool
}

// A Want says which entries Next is to hand out. The zero value takes any.
type Want struct {
	// NoRetries leaves out entries that were tried before.
	NoRetries bool
	// Except leaves out calls of these sources that were never tried.
	Except []string
	// InOrder has sources take no turns: entries that were never tried come in the order
	// of their positions, also those that are replayed, and one comes after four of those
	// that are tried again at most. NoRetries and Except must not be
	// set beside it. Where several processes share the journal, none come but while this
	// one holds the destination, see Reader.Hold.
	InOrder bool
}

// A Lease is the right to work at one entry. The journal renews it by itself
// until Finish or Return, and hands the entry out again if the process dies.
type Lease interface {
	Entry() Entry

	// Finish records how each call ended. Calls that are to be tried again come
	// back as one entry at r.RetryAt. If Finish fails, the entry is handed out
	// again later: a delivery may then be repeated, never lost.
	Finish(ctx context.Context, r Result) error

	// Return gives the entry back as if it had never been leased. It has the place
	// again that it had.
	Return()
}

// An Entry is what a destination works at in one go: a batch, batches of one
// source that came at the same time, or the calls of an entry that are to be
// tried again.
type Entry struct {
	// ID is the same each time this entry is handed out.
	ID string
	// Calls is shared with other destinations and must not be changed.
	Calls []tracking.Call
	// First is where the batch that the calls came in begins among all calls, in the
	// order in which they were accepted or replayed, and Places say which calls of the
	// batch these are, ascending. No Places stand for the first ones.
	First  uint64
	Places []int
	// Attempt is 1 at first, and one higher each time the entry comes back after a
	// Finish. A call of it may have been tried less often.
	Attempt int
	// Since is when the retry window began: when the calls were accepted, or
	// when they were replayed.
	Since time.Time
	// Notes holds for each of Calls what its Outcome noted when it was last tried.
	// It is nil where none noted anything.
	Notes []string
	// Traces are those of the requests that brought each of Calls.
	Traces tracecontext.List
}

// Position returns the place of one of the calls among all, in the order in which they
// were accepted or replayed. It stays the same each time the call is handed out.
func (e *Entry) Position(call int) uint64 {
	if e.Places == nil {
		return e.First + uint64(call)
	}
	return e.First + uint64(e.Places[call])
}

// A Result says how a lease ended.
type Result struct {
	// Outcomes has one element for each of Entry.Calls.
	Outcomes []tracking.Outcome
	// Kept says for each of Entry.Calls whether it is kept, and listed by Failed, though
	// it was filtered. Nil says that none is.
	Kept []bool
	// RetryAt is when the calls left in StatePending are due again, as an entry
	// whose Attempt is one higher.
	RetryAt time.Time
	// Parked says that these calls have no time: they wait for Reader.Resume, or until
	// Next is called without Want.InOrder. After a restart that is for Reader.Waiting to
	// tell.
	Parked bool
	// MayWait says that nothing else waits until it is stored: a journal may wait a moment
	// for others, to store them together.
	MayWait bool
	// OnPlaced, if not nil, is called once by Finish, as soon as the result has its place: what
	// is handed over afterwards is not stored without it. It must not block.
	OnPlaced func()
}

// Keeps reports whether the call at a place was filtered and is kept.
func (r *Result) Keeps(place int) bool {
	return place < len(r.Kept) && r.Kept[place] && r.Outcomes[place].State == tracking.StateFiltered
}
