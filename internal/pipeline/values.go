package pipeline

import "fmt"

// Stats counts the accepted calls.
type Stats struct {
	Accepted  int64 // including Recovered
	Delivered int64
	Dropped   Drops
	Pending   int64

	Recovered int64 // calls that were in the spool when it was opened

	Batches    int64 // batches, including halves of refused ones
	Attempts   int64 // requests
	Bytes      int64 // memory in use
	SpoolBytes int64 // disk space in use
}

// CallID identifies a call in its result. ID is empty without a callback. Value is nil unless
// calls have values.
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

// total returns the number of dropped calls.
func (d Drops) total() int64 {
	return d.Refused + d.Attempts + d.Expired + d.Overflow + d.Shutdown + d.Damaged
}

// minus returns the drops since other.
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

// Reason is the reason for dropping a call. The values equal those of the client's
// DropReason.
type Reason string

const (
	Refused  Reason = "refused"  // the collector refused the call permanently
	Attempts Reason = "attempts" // all attempts failed
	Expired  Reason = "expired"  // attempts failed for too long
	Overflow Reason = "overflow" // newer calls needed the room
	Shutdown Reason = "shutdown" // the pipeline was closed
	Damaged  Reason = "damaged"  // the call could not be read back from the spool
)

// Drop describes why calls were dropped.
type Drop struct {
	Reason   Reason
	Attempts int   // requests with the last batch of the calls
	Status   int   // the last HTTP status, or 0
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

// dropBytes is charged for a Drop in addition to the text of Err.
const dropBytes = 128

// bytes returns the charge for d until its result is delivered.
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
	Dropped Drops // dropped calls that no previous flush reported
	Pending int64 // calls that have not finished
	Err     error // the error of the context, if it ended the wait
	Cause   error // the error of the latest failed attempt, or nil
	Spooled bool  // Pending are in the spool
}

// CountCalls returns n and the noun, such as "2 calls".
func CountCalls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
