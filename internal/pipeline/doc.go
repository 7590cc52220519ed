// Package pipeline batches encoded calls and sends them. The client validates and encodes a
// call; the pipeline owns it from [Pipeline.Accept] until it is delivered or dropped.
//
// # The path of a call
//
// Accept appends the call to the open batch, on the caller's goroutine. With a spool, the
// call is first written to the disk. A full or late batch is sealed and queued.
//
// The loop goroutine hands queued batches to at most Config.MaxInFlight senders. A sender
// makes an attempt and sends its outcome back to the loop. The loop asks package retry for
// the next step: the batch ends, waits for another attempt, or is split.
//
// The dispatcher goroutine notifies the callback and the log of ended batches.
//
// # Mutexes
//
// Pipeline.mu guards the open batch, the queues, the memory budget and the counts. It is not
// held during I/O or while the caller's code runs. The dispatcher has a mutex that may be
// locked while mu is held. Package spool documents when mu may be locked in its callbacks.
//
// # Files
//
// Each file uses only the files after it. A call moves down this list, except when a caller
// hands a batch to the loop, and when a sender hands an outcome to the loop.
//
//  1. accept.go: start, and accepting calls
//  2. loop.go, bisect.go: scheduling of attempts, and splitting of refused batches
//  3. sourcesettings.go: retry settings of the source
//  4. upload.go: one attempt
//  5. spool.go: the spool worker
//  6. flush.go: Flush, Close and Shutdown
//  7. queue.go: filling, sealing, queuing and ending of batches
//  8. pipeline.go: state
//  9. result.go, batch.go, budget.go, call.go: the dispatcher, bodies, memory, buffers of calls
//  10. config.go, transport.go, debug.go, values.go: configuration, connections, the log, values
package pipeline
