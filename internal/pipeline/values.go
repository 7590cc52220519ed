package pipeline

import "fmt"

// Stats counts the accepted calls.
type Stats struct {
	Accepted  int64 // including Recovered
	Delivered int64
	Dropped   Drops
	Pending   int64

	Recovered int64 // calls that were in the spool as it was opened

	Batches    int64 // batches made, halves of refused ones included
	Attempts   int64 // requests made
	Bytes      int64 // memory charged
	SpoolBytes int64 // disk space charged
}

// CallID identifies a call when it ends. The id is empty without a callback, and the value
// is nil unless calls have values.
type CallID struct {
	ID, Kind string
	Value    interface{}
}

// Drops counts dropped calls by reason.
type Drops struct {
	Refused  int64
	Attempts int64
	Expired  int64
	Overflow int64
	Shutdown int64
	Damaged  int64
}

// total is the number of calls dropped for any reason.
func (d Drops) total() int64 {
	return d.Refused + d.Attempts + d.Expired + d.Overflow + d.Shutdown + d.Damaged
}

// minus is what came since other.
func (d Drops) minus(other Drops) Drops {
	return Drops{
		Refused:  d.Refused - other.Refused,
		Attempts: d.Attempts - other.Attempts,
		Expired:  d.Expired - other.Expired,
		Overflow: d.Overflow - other.Overflow,
		Shutdown: d.Shutdown - other.Shutdown,
		Damaged:  d.Damaged - other.Damaged,
	}
}

func (d *Drops) add(reason Reason, calls int64) {
	switch reason {
	case Refused:
		d.Refused += calls
	case Attempts:
		d.Attempts += calls
	case Expired:
		d.Expired += calls
	case Overflow:
		d.Overflow += calls
	case Shutdown:
		d.Shutdown += calls
	case Damaged:
		d.Damaged += calls
	}
}

// Reason is why a call was dropped. The values are those of the client's DropReason.
type Reason string

const (
	Refused  Reason = "refused"  // the collector will not take the call
	Attempts Reason = "attempts" // the attempts are used up
	Expired  Reason = "expired"  // the time is over
	Overflow Reason = "overflow" // newer calls needed the room
	Shutdown Reason = "shutdown" // the pipeline was closed
	Damaged  Reason = "damaged"  // the call could not be read back from the spool
)

// Drop describes why calls were dropped.
type Drop struct {
	Reason   Reason
	Attempts int   // requests made with the calls in their last batch
	Status   int   // the last answer's HTTP status, 0 if there was none
	Err      error // of the last attempt, or of the spool, or nil
}

// String returns the reason, the number of attempts and the error.
func (d *Drop) String() string {
	s := string(d.Reason)
	if d.Attempts > 0 {
		s += fmt.Sprintf(", attempt %d", d.Attempts)
	}
	if d.Err != nil {
		s += ": " + d.Err.Error()
	}
	return s
}

// dropBytes is charged for the error of a Drop, besides the text of its Err.
const dropBytes = 128

// bytes is charged for d until its result is passed on.
func (d *Drop) bytes() int64 {
	switch {
	case d == nil:
		return 0
	case d.Err == nil:
		return dropBytes
	}
	return dropBytes + int64(len(d.Err.Error()))
}

// Undelivered counts the calls that a flush did not deliver.
type Undelivered struct {
	Dropped Drops // dropped calls that no earlier flush reported
	Pending int64 // calls that have not ended
	Err     error // of the context, if it ended the wait
	Cause   error // of the latest attempt that failed; nil if none did
	Spooled bool  // Pending are in the spool
}

// CountCalls returns n with the noun, such as "2 calls".
func CountCalls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
