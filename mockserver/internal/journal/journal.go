package journal

import (
	"context"
	"errors"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Errors of a [Journal]. They may be wrapped.
var (
	// ErrFull reports that the journal has reached its size limit. Senders receive 429 and should
	// retry later. A full disk is a different error, for which senders receive 503.
	ErrFull = errors.New("mockserver: the journal is full")

	// ErrUnwritable reports that the store cannot be written to: its disk is full or read-only,
	// or its directory is missing.
	ErrUnwritable = errors.New("journal: the store cannot be written to")

	// ErrNoResponse reports that the servers of the store cannot be reached or do not respond.
	ErrNoResponse = errors.New("journal: the store does not respond")

	// ErrClosed reports that Close was called.
	ErrClosed = errors.New("mockserver: the journal is closed")

	// ErrNotAttached reports that no destination of this name is attached.
	ErrNotAttached = errors.New("mockserver: no destination of this name is attached")
)

// A PartialReplayError reports that only some calls of a replay are pending again.
type PartialReplayError struct {
	Replayed int // number of replayed calls; they are the first ones
	Err      error
}

// Error implements error.
func (e *PartialReplayError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PartialReplayError) Unwrap() error { return e.Err }

// An AppendError reports that a batch is not completely stored, or may not be.
type AppendError struct {
	// Err is the cause.
	Err error
	// Stored returns the number of the batch's calls that are stored; they are the first ones. It
	// waits until the number is known or the journal is closed.
	Stored func() int
}

// Error returns the text of Err.
func (e *AppendError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *AppendError) Unwrap() error { return e.Err }

// A Journal stores accepted calls until every destination has finished them. [NewMemory]
// implements it in memory, and the module mockserver/collector on JetStream. The tests in package
// journaltest check the behavior documented here.
//
// Its methods are safe for concurrent use.
type Journal interface {
	// Append stores the batch for every destination attached to its source. When it returns
	// nil, the batch is as durable as the journal promises, and each destination gets its calls
	// at least once. After an error nothing is stored, unless the error is an *AppendError.
	// The error is ErrFull if the journal is full.
	//
	// The journal limits the duration of Append if its disk or servers do not respond. If
	// Append times out or ctx is canceled while the batch may still be stored, the error is an
	// *AppendError.
	//
	// The journal retains b.Calls; the caller must not modify it afterwards.
	Append(ctx context.Context, b event.Batch) error

	// Attach opens the queue of a destination. A new destination gets the calls that are
	// appended from now on; an existing destination continues. An empty list means all sources.
	// Attaching again replaces the sources for calls appended from now on, and closes the
	// previous Reader.
	Attach(ctx context.Context, destination string, sources []string) (Reader, error)

	// Detach deletes a destination with its pending and failed calls. It does nothing if the
	// destination is not attached.
	Detach(ctx context.Context, destination string) error

	// Replay makes calls of a destination pending again, as a new entry with a window that
	// begins now. In the ledger, the calls move from the state from to pending. Failed no longer
	// yields calls that were replayed from StateFailed, or kept calls that were replayed from
	// StateFiltered. traces contains the trace contexts of the calls. If only some calls were
	// replayed, the error is a *PartialReplayError.
	Replay(ctx context.Context, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) error

	// Failed yields the failed calls of a destination and the filtered calls that are kept,
	// oldest first, until yield returns false. It yields all calls that the ledger counted when
	// Failed was called, and no calls that end later, so yield may replay calls or call other
	// methods. If the store cannot be written to, the newest calls may be missing. A journal may
	// keep only the newest failed calls; its documentation states the limit.
	Failed(ctx context.Context, destination string, yield func(FailedCall) bool) error

	// Ledger returns the ledger of every attached destination, sorted by name.
	Ledger(ctx context.Context) ([]tracking.Ledger, error)

	// Verify verifies the ledger of every destination. The result is sorted by name. If possible,
	// Verify counts the stored calls. Calls may be accepted and delivered at the same time.
	Verify(ctx context.Context) ([]Verification, error)

	// Health returns the health of the journal. If the journal cannot store a batch now, the
	// error is ErrFull or the cause.
	Health(ctx context.Context) (Health, error)

	// Close closes all readers and releases resources. Stored data remains. Close may be called
	// again.
	Close() error
}

// A Reader leases the entries of one destination, until the destination is attached again or
// detached, or the journal is closed. After that, leased and waiting entries stay pending for the
// next reader. Its methods are safe for concurrent use.
type Reader interface {
	// Next waits for an entry that is due and selected by want, and leases it. Sources take
	// turns, regardless of the number and age of their entries. Entries of a source without
	// earlier attempts are leased in order. A retry waits for at most four other entries. Next
	// returns the error of ctx, or ErrClosed if the reader is closed.
	Next(ctx context.Context, want Want) (Lease, error)

	// Since returns the time when the destination was first attached, or first attached after a
	// Detach, in milliseconds. Earlier results belong to a previous destination of this name.
	Since() time.Time

	// Acquire waits until no other process with the same journal may lease the destination's
	// entries in order, and makes this process the owner. The ownership ends when release is
	// called or owned is canceled. When owned is canceled, the caller must begin no more calls
	// of leased entries, and must cancel requests in flight. If the process was suspended,
	// owned.Err may return an error before Done is closed, because it checks the clock. The
	// caller must call release once, when no entry is leased. Acquire returns the error of ctx,
	// or ErrClosed.
	Acquire(ctx context.Context) (owned context.Context, release func(), err error)

	// Waiting yields the entries that wait for a retry, in any order, with their due times,
	// until yield returns false. The time is zero for entries that wait for Resume. While Waiting
	// runs, no entry of the reader may be leased.
	Waiting(ctx context.Context, yield func(e Entry, due time.Time) bool) error

	// Resume makes a parked entry due now (see Result.Parked). It is the entry that contains the
	// call at a position. If there is no such entry, Resume does nothing. It does not block.
	Resume(position uint64)

	// IsPending reports whether a call that was leased before is still pending. A journal may remove
	// a call itself, for example after corruption.
	IsPending(position uint64) bool
}

// A Want selects the entries that Next leases. The zero value selects all.
type Want struct {
	// NoRetries excludes retries.
	NoRetries bool
	// Except excludes sources. Retries of their calls are not excluded.
	Except []string
	// InOrder leases entries without earlier attempts in the order of their positions,
	// including replayed entries, instead of by source. Such an entry waits for at most four
	// retries. NoRetries and Except must not be set. If several processes share the journal,
	// entries are leased only while this process owns the destination; see Reader.Acquire.
	InOrder bool
}

// A Lease is the right to process one entry. The journal renews it automatically until Finish or
// Return. If the process ends, the entry is leased again.
type Lease interface {
	Entry() Entry

	// Finish stores the result of each call. Pending calls are leased again as one entry at
	// r.RetryAt. If Finish fails, the whole entry is leased again after a delay. A delivery may
	// then be repeated, but is not lost.
	Finish(ctx context.Context, r Result) error

	// Return returns the entry to its previous place, as if it had not been leased.
	Return()
}

// An Entry is the unit of delivery. It is a batch, several batches of one source that were received
// at the same time, or the remaining calls of a previous entry.
type Entry struct {
	// ID is the same each time this entry is leased.
	ID string
	// Calls is shared with other destinations and must not be modified.
	Calls []tracking.Call
	// First is the position of the batch's first call. Positions number all calls in the order
	// in which they were accepted or replayed. Places contains the indices of Calls in the
	// batch, ascending. If it is empty, Calls are the first calls of the batch.
	First  uint64
	Places []int
	// Attempt starts at 1 and increases with each Finish. Some calls may have been attempted
	// less often.
	Attempt int
	// Since is the start of the retry window: the time when the calls were accepted or replayed.
	Since time.Time
	// Notes contains, for each of Calls, the Outcome.Note of the last attempt. It is nil if
	// there are no notes.
	Notes []string
	// Traces contains, for each of Calls, the trace context of the request.
	Traces event.Traces
}

// Position returns the position of one of Calls among all calls, in the order in which calls were
// accepted or replayed. The position never changes.
func (e *Entry) Position(call int) uint64 {
	if e.Places == nil {
		return e.First + uint64(call)
	}
	return e.First + uint64(e.Places[call])
}

// A Result is the result of a lease.
type Result struct {
	// Outcomes contains the outcome of each of Entry.Calls.
	Outcomes []tracking.Outcome
	// Kept reports, for each of Entry.Calls, whether the call is filtered but kept, so that
	// Failed yields it. It may be nil.
	Kept []bool
	// RetryAt is the time at which the calls with StatePending are due again, as an entry with
	// the next Attempt.
	RetryAt time.Time
	// Parked makes pending calls wait for Reader.Resume, or for a Next without Want.InOrder,
	// instead of RetryAt. After a restart, Reader.Waiting yields them.
	Parked bool
	// MayWait allows the journal to delay the result briefly to store several together.
	MayWait bool
	// OnPlaced is called at most once by Finish, when later results can only be stored after
	// this one: if this one is not stored, neither are they. It must not block. It may be nil.
	OnPlaced func()
}

// Keeps reports whether the call at a place is filtered but kept.
func (r *Result) Keeps(place int) bool {
	return place < len(r.Kept) && r.Kept[place] && r.Outcomes[place].State == tracking.StateFiltered
}
