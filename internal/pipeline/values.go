package pipeline

import "fmt"

// Stats contains the counts of a pipeline.
type Stats struct {
	Accepted  int64 // accepted calls, plus Recovered
	Delivered int64
	Dropped   Drops
	Pending   int64

	Recovered int64 // calls that were in the spool when it was opened

	Batches    int64 // batches, including parts of refused batches
	Attempts   int64 // number of attempts to send a batch
	Bytes      int64 // bytes of memory in use
	SpoolBytes int64 // bytes of disk space in use
}

// CallID identifies a call in its result. ID is empty if there is no callback. Value is nil if
// calls have no values.
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

// minus returns the difference between d and an earlier count.
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

// Reason is the reason for dropping a call. The values are the same as in the client's
// DropReason.
type Reason string

const (
	Refused  Reason = "refused"  // the collector refused the call permanently
	Attempts Reason = "attempts" // all attempts failed
	Expired  Reason = "expired"  // attempts failed for too long
	Overflow Reason = "overflow" // newer calls needed the memory or disk space
	Shutdown Reason = "shutdown" // the pipeline was closed
	Damaged  Reason = "damaged"  // the call could not be read back from the spool
)

// Drop describes why calls were dropped.
type Drop struct {
	Reason   Reason
	Attempts int   // number of requests with the last batch of the calls
	Status   int   // the status of the last response, or 0
	Err      error // the error of the last attempt or of the spool, or nil
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

// dropBytes is the memory that the budget counts for a Drop, without the text of Err.
const dropBytes = 128

// bytes returns the memory that the budget counts for d until the result is delivered.
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
	Dropped Drops // dropped calls that no previous flush has reported
	Pending int64 // calls that have not finished
	Err     error // the error of the context, if the context stopped the wait
	Cause   error // the error of the latest failed attempt, or nil
	Spooled bool  // the Pending calls are in the spool
}

// CountCalls formats n with a noun, such as "1 call" or "2 calls".
func CountCalls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
