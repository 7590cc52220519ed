package analytics

// Stats is what became of the calls made so far. The sum
//
//	Accepted == Delivered + Dropped.Total() + Pending
//
// holds in every Stats, taken at any time.
type Stats struct {
	Accepted  int64 // calls that returned nil, and Recovered ones
	Delivered int64 // calls in batches answered with a 2xx status
	Dropped   Drops // accepted calls that were given up
	Pending   int64 // accepted calls still queued, being sent or to be sent again

	Recovered int64 // calls that were in Config.Spool as it was opened, left by an earlier process

	Rejected Rejects // calls that returned an error, and were not accepted

	Batches  int64 // batches made, halves of refused ones included
	Attempts int64 // requests made
	Bytes    int64 // memory charged to Config.MaxBytes now

	SpoolBytes int64 // disk space charged to Config.SpoolMaxBytes now
}

// Drops counts accepted calls that were given up, by reason.
type Drops struct {
	Refused  int64 // DropRefused
	Attempts int64 // DropAttempts
	Expired  int64 // DropExpired
	Overflow int64 // DropOverflow
	Shutdown int64 // DropShutdown
	Damaged  int64 // DropDamaged
}

// Total is the number of calls dropped for any reason.
func (d Drops) Total() int64 {
	return d.Refused + d.Attempts + d.Expired + d.Overflow + d.Shutdown + d.Damaged
}

// Rejects counts calls that returned an error, by its kind.
type Rejects struct {
	Invalid   int64 // a *FieldError, or a configuration that cannot be used
	TooLarge  int64 // a *TooLargeError
	QueueFull int64 // ErrQueueFull, or a context that ended while the call waited for room
	Spool     int64 // ErrSpool
	Closed    int64 // ErrClosed
}

// Total is the number of calls rejected for any reason.
func (r Rejects) Total() int64 { return r.Invalid + r.TooLarge + r.QueueFull + r.Spool + r.Closed }

// Result is the end of one accepted call.
type Result struct {
	MessageId string // the call's id, given or made
	Type      string // the kind of the call, such as "track"
	Err       error  // nil if the call was delivered, else a *DropError

	Value interface{} // what Config.Value returned for the call, else nil
}

// DropReason says why an accepted call was given up.
type DropReason string

// The reasons for which accepted calls are dropped.
const (
	// DropRefused: the collector answered that it will not take the call.
	DropRefused DropReason = "refused"
	// DropAttempts: Config.MaxAttempts attempts failed.
	DropAttempts DropReason = "attempts"
	// DropExpired: attempts failed for Config.MaxTotalBackoffDuration, or the
	// collector asked to wait for Config.MaxRateLimitDuration.
	DropExpired DropReason = "expired"
	// DropOverflow: under DropOldest, newer calls needed the memory, or the
	// room in Config.Spool.
	DropOverflow DropReason = "overflow"
	// DropShutdown: Close or Shutdown ran out of time.
	DropShutdown DropReason = "shutdown"
	// DropDamaged: the call could not be read back from the spool.
	DropDamaged DropReason = "damaged"
)
