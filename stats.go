package analytics

// Stats counts the calls of a client. The following equation always holds:
//
//	Accepted == Delivered + Dropped.Total() + Pending
type Stats struct {
	Accepted  int64 // calls that returned nil, plus Recovered
	Delivered int64 // calls in batches with a 2xx response
	Dropped   Drops // accepted calls that were dropped
	Pending   int64 // accepted calls that are queued, being sent, or waiting for a retry

	Recovered int64 // calls of previous processes that were found in Config.Spool

	Rejected Rejects // calls that returned an error

	Batches  int64 // batches, including parts of refused batches
	Attempts int64 // attempts to send a batch
	Bytes    int64 // memory in use, limited by Config.MaxBytes

	SpoolBytes int64 // disk space in use, limited by Config.SpoolMaxBytes
}

// Drops counts dropped calls by reason.
type Drops struct {
	Refused  int64 // calls dropped with DropRefused
	Attempts int64 // calls dropped with DropAttempts
	Expired  int64 // calls dropped with DropExpired
	Overflow int64 // calls dropped with DropOverflow
	Shutdown int64 // calls dropped with DropShutdown
	Damaged  int64 // calls dropped with DropDamaged
}

// Total returns the number of dropped calls.
func (d Drops) Total() int64 {
	return d.Refused + d.Attempts + d.Expired + d.Overflow + d.Shutdown + d.Damaged
}

// Rejects counts calls that returned an error, by type of error.
type Rejects struct {
	Invalid   int64 // a *FieldError, or an invalid configuration
	TooLarge  int64 // a *TooLargeError
	QueueFull int64 // ErrQueueFull, or the error of a context that was done while the call waited for room
	Spool     int64 // ErrSpool
	Closed    int64 // ErrClosed
}

// Total returns the number of rejected calls.
func (r Rejects) Total() int64 { return r.Invalid + r.TooLarge + r.QueueFull + r.Spool + r.Closed }

// Result reports whether an accepted call was delivered or dropped.
type Result struct {
	MessageId string // the message ID, set by the caller or generated
	Type      string // the kind of the call, such as "track"
	Err       error  // nil if the call was delivered, otherwise a *DropError

	Value interface{} // the value that Config.Value returned, or nil
}

// DropReason is the reason for dropping an accepted call.
type DropReason string

// Reasons for dropping accepted calls.
const (
	// DropRefused means that the collector refused the call permanently.
	DropRefused DropReason = "refused"
	// DropAttempts means that Config.MaxAttempts attempts failed.
	DropAttempts DropReason = "attempts"
	// DropExpired means that attempts failed for Config.MaxTotalBackoffDuration, or the
	// collector delayed the call for Config.MaxRateLimitDuration.
	DropExpired DropReason = "expired"
	// DropOverflow means that, under DropOldest, newer calls needed the memory or the space in
	// Config.Spool.
	DropOverflow DropReason = "overflow"
	// DropShutdown means that Close or Shutdown timed out.
	DropShutdown DropReason = "shutdown"
	// DropDamaged means that the call could not be read from the spool.
	DropDamaged DropReason = "damaged"
)
