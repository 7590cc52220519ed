package mockserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that a [Journal] answers with. They may be wrapped.
var (
	// ErrJournalFull says that the journal holds as many bytes as its limit
	// allows. Senders are answered 429, and should try again later. A disk without
	// room is another error, which is answered 503.
	ErrJournalFull = errors.New("mockserver: the journal is full")

	// ErrJournalClosed says that Close was called.
	ErrJournalClosed = errors.New("mockserver: the journal is closed")

	// ErrNotAttached says that no destination of that name was attached.
	ErrNotAttached = errors.New("mockserver: no destination of this name is attached")
)

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
// is the seam between the two sizes of the collector: [NewMemoryJournal] for one
// process, JetStream in the module mockserver/collector for a durable one. The
// suite in mockserver/journaltest says in tests what the comments here say in
// words; every implementation passes it.
//
// All methods may be called from many goroutines at once.
type Journal interface {
	// Append stores the batch for every destination attached to its source.
	// When it returns nil, the batch is as durable as the journal promises and
	// each such destination will be handed its calls at least once. On an error
	// nothing of it is stored, unless the error is an *AppendError. A journal that
	// is full returns ErrJournalFull.
	//
	// A journal whose disk or servers do not answer limits by itself how long
	// Append takes. Where it gives up, or ctx ends, while the batch may still be
	// stored, it returns an *AppendError.
	//
	// The journal keeps b.Calls; the caller must not change it afterwards.
	Append(ctx context.Context, b Batch) error

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
	// `from` to pending; calls replayed from StateFailed are no longer listed by
	// Failed.
	Replay(ctx context.Context, destination string, calls []Call, from State) error

	// Failed yields the calls that a destination has given up, oldest first,
	// until yield returns false. yield may call the journal's methods. A journal
	// may keep only the newest of them, and says in its own documentation how many.
	Failed(ctx context.Context, destination string, yield func(FailedCall) bool) error

	// Ledger returns the account of every attached destination, by name.
	Ledger(ctx context.Context) ([]Ledger, error)

	// Close ends all readers and releases what the journal holds. What is durable
	// stays. Close may be called again.
	Close() error
}

// A Reader hands out the entries of one destination. Its methods may be called
// from many goroutines at once.
type Reader interface {
	// Next waits for an entry that is due and wanted, and leases it to the caller.
	// Sources take turns, however much of one waits and however long it has: calls
	// that were never tried come in their order within a source. Where both wait, an
	// entry that is tried again comes after four of calls that were never tried at
	// most. Next returns ctx's error, or ErrJournalClosed once the reader or the
	// journal is closed.
	Next(ctx context.Context, want Want) (Lease, error)

	// Since is when the destination was attached, to a millisecond: for the first
	// time, or the first since it was detached. What became of calls before that was
	// at another destination of its name.
	Since() time.Time

	// Close stops reading. Entries that are leased, and those that wait, stay
	// pending for the next reader.
	Close() error
}

// A Want says which entries Next is to hand out. The zero value takes any.
type Want struct {
	// NoRetries leaves out entries that were tried before.
	NoRetries bool
	// Except leaves out calls of these sources that were never tried.
	Except []string
}

// A Lease is the right to work at one entry. The journal renews it by itself
// until Finish or Return, and hands the entry out again if the process dies.
type Lease interface {
	Entry() Entry

	// Finish records how each call ended. Calls that are to be tried again come
	// back as one entry at r.RetryAt. If Finish fails, the entry is handed out
	// again later: a delivery may then be repeated, never lost.
	Finish(ctx context.Context, r Result) error

	// Return gives the entry back as if it had never been leased. It is the next of
	// its source.
	Return()
}

// An Entry is what a destination works at in one go: a batch, batches of one
// source that came at the same time, or the calls of an entry that are to be
// tried again.
type Entry struct {
	// ID is the same each time this entry is handed out.
	ID string
	// Calls is shared with other destinations and must not be changed.
	Calls []Call
	// Attempt is 1 at first, and one higher each time the entry comes back after a
	// Finish. A call of it may have been tried less often.
	Attempt int
	// Since is when the retry window began: when the calls were accepted, or
	// when they were replayed.
	Since time.Time
	// Notes holds for each of Calls what its Outcome noted when it was last tried.
	// It is nil where none noted anything.
	Notes []string
}

// A Result says how a lease ended.
type Result struct {
	// Outcomes has one element for each of Entry.Calls.
	Outcomes []Outcome
	// RetryAt is when the calls left in StatePending are due again, as an entry
	// whose Attempt is one higher.
	RetryAt time.Time
}

// An Outcome is what became of one call at one destination.
type Outcome struct {
	State State `json:"state"`
	// Reason says why, for calls that were filtered or failed, or are pending.
	Reason string `json:"reason,omitempty"`
	// Note is for the next attempt at a call that is left pending, which finds it
	// in Entry.Notes. The journal keeps it as it is; it has at most 64 bytes of
	// ASCII, without a comma or white space.
	Note string `json:"note,omitempty"`
}

// A State is where a call stands with one destination.
type State uint8

// The states of a call. Each call that was accepted for a destination is in
// exactly one of them.
const (
	StatePending   State = iota // not yet tried, being tried, or waiting for its next attempt
	StateDelivered              // a webhook took it
	StateFailed                 // given up, for a reason; kept for replay
	StateFiltered               // not meant for this destination
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StatePending:
		return "pending"
	case StateDelivered:
		return "delivered"
	case StateFailed:
		return "failed"
	case StateFiltered:
		return "filtered"
	}
	return "unknown"
}

// MarshalText returns String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	state, ok := parseState(string(text))
	if !ok {
		return fmt.Errorf("mockserver: %.40q is no state: use pending, delivered, failed or filtered", text)
	}
	*s = state
	return nil
}

// A FailedCall is a call that a destination has given up.
type FailedCall struct {
	Call     Call
	Reason   string
	FailedAt time.Time
	// Attempts is the Attempt of the entry in which the call was given up: it was
	// tried so often at most.
	Attempts int
}

// A Ledger is the account of one destination, in calls. At any time
//
//	Accepted = Delivered + Failed + Filtered + Pending + Lost
type Ledger struct {
	Destination string `json:"destination"`
	Accepted    int64  `json:"accepted"`
	Delivered   int64  `json:"delivered"`
	Failed      int64  `json:"failed"`
	Filtered    int64  `json:"filtered"`
	Pending     int64  `json:"pending"`
	// Lost is how many calls were pending when the store was damaged, and went with
	// what could not be read. An operator has accepted that.
	Lost int64 `json:"lost"`
	// OldestPending is when the oldest pending call was accepted; zero if none is.
	OldestPending time.Time `json:"oldestPending,omitzero"`
}

// A Verification says whether the ledger of one destination is proved by what is
// stored.
type Verification struct {
	// Ledger is counted anew from what is stored, in another way than that which
	// the journal's Ledger returns.
	Ledger
	// Losses are the records of Lost, oldest first.
	Losses []Loss `json:"losses,omitempty"`
	// Problems are what contradicts the ledger. None means that it is proved.
	Problems []string `json:"problems,omitempty"`
}

// A Loss is a loss of calls that an operator has accepted.
type Loss struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Cause string    `json:"cause"` // what was damaged
}

// OK tells whether the ledger is proved.
func (v Verification) OK() bool { return v.Holds() && len(v.Problems) == 0 }

// A Verifier is a Journal that can prove its ledger.
type Verifier interface {
	// Verify counts anew, for every destination, and says what contradicts its
	// ledger. Calls may be accepted and delivered meanwhile.
	Verify(ctx context.Context) ([]Verification, error)
}

// Holds reports whether the sum is right, and no number is negative: one that is
// hides a call that another counts twice.
func (l Ledger) Holds() bool {
	return l.Accepted == l.Delivered+l.Failed+l.Filtered+l.Pending+l.Lost &&
		min(l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost) >= 0
}

// Move takes n calls from one state to another.
func (l *Ledger) Move(n int, from, to State) {
	*l.count(from) -= int64(n)
	*l.count(to) += int64(n)
}

func (l *Ledger) count(s State) *int64 {
	switch s {
	case StateDelivered:
		return &l.Delivered
	case StateFailed:
		return &l.Failed
	case StateFiltered:
		return &l.Filtered
	default:
		return &l.Pending
	}
}
