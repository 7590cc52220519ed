// Package ingest serves the tracking API: it accepts calls, and responds once they are
// stored.
//
// # Data flow
//
// The path of a request selects an endpoint. The body is read, decompressed, limited in
// size, and split into calls in one pass without building values. Each call is validated,
// completed with its ID, corrected times and the context of the batch, and added to the
// batch of its source. Invalid calls are rejected with a [tracking.Code]. Calls that violate a
// tracking plan are rejected too, if the source is configured to reject them. A source above its
// rate receives 429. Duplicates are removed, and the other calls are appended to the journal
// before the response.
//
// # Blocking
//
// A request waits for its sender, up to the server's timeout, and for the journal. In
// Dedup.reserve it also waits for another request that is storing the same call, because a
// call must not be confirmed before it is stored. It never waits for a destination.
//
// # Concurrency
//
// Each request has its own body and post, from a pool, and its own sorter. [Dedup] and rates each
// have a mutex, which is held while a batch is looked up. A [SourceTable] is immutable. A goroutine
// is started only after an append was abandoned: it waits for the number of stored calls.
//
// # Files
//
//  1. handler.go, endpoint.go: routing
//  2. calls.go: the steps of a request with calls
//  3. parse.go: splitting a body into calls
//  4. draft.go: validation
//  5. complete.go: the stored form of a call
//  6. dedup.go, keyset.go, store.go: deduplication and storage
//  7. refusal.go: error responses, and removal of write keys from logged data
package ingest
