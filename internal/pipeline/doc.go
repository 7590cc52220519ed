// Package pipeline batches encoded calls and sends them. It is responsible for a call from
// [Pipeline.Accept] until the call is delivered or dropped.
//
// # The path of a call
//
// Accept appends the call to the open batch, on the caller's goroutine. With a spool, it
// first writes the call to the disk. A batch that is full or late is sealed and queued.
//
// The loop goroutine passes queued batches to at most Config.MaxInFlight senders. A sender
// makes an attempt and returns its outcome to the loop. Package retry decides the next step:
// the batch is finished, waits for another attempt, or is split.
//
// The dispatcher goroutine passes the results of batches to the callback and the log.
//
// # Mutexes
//
// Pipeline.mu guards the open batch, the queues, the memory budget and the counts. It is not
// held while the caller's code runs. It is not held during I/O either, except while the spool
// copies a call into a mapped file, which can wait for the disk. The mutex of the dispatcher may
// be locked while mu is held. The spool also uses mu. The documentation of package spool lists
// the methods and callbacks for which mu is locked.
//
// # Important files
//
//   - accept.go and queue.go: accepting calls, and sealing batches
//   - loop.go and bisect.go: scheduling of attempts, and splitting of refused batches
//   - upload.go: one attempt
//   - spool.go: the spool worker
//   - pipeline.go: state
package pipeline
