// Package jetstream keeps accepted calls on NATS JetStream: on a server within the process,
// or on a cluster that several collectors share.
//
// # The path of a call
//
//	append   A batch is put into the message that the writer of its source gathers, which
//	         is published to CALLS. Append returns once it is stored (append.go).
//	stored   The ledger reads CALLS and OUTCOMES, in their order, and knows how every
//	         destination stands (follow in journal.go, package ledger).
//	leased   The queue of a destination asks for messages, and hands them out in parts
//	         (package queue).
//	ended    How a lease ended is an outcome. It is stored in OUTCOMES before anything
//	         is done about it; then the next attempt is scheduled in RETRY, or the calls
//	         that were given up are listed in FAILED (settle.go, retries.go,
//	         failed.go). What is done about an outcome can be done twice, so that a
//	         crash between any two steps does no harm: the next start does what is
//	         undone.
//	trimmed  What all destinations are done with and is old is counted into the base,
//	         which is stored, and removed (trim.go).
//
// What is stored decides. The ledger can be made again from the base and what CALLS and
// OUTCOMES have behind it; a snapshot in the directory, or a checkpoint on a cluster, lets
// a start read less. Verify counts anew in another way, and compares.
//
// # Goroutines
//
// All are started by Store.Work.Go, end with the journal's context, and are waited for by
// Close. These last as long as the journal: one for each stream that the ledger follows,
// the writer of outcomes, maintain, keepTrimmed and the scrubber; on a cluster also
// keepClaims, keepAlive, keepLinked and keepServers. A queue has two pullers as long as it
// is open. Others end by themselves: a message of calls that is published, what follows
// from an outcome and could not be done at once, and a look for sources that wait.
//
// The ledger, each queue and each writer of a source have a lock of their own, and none is
// held while a server is asked.
//
// # Packages
//
// record says what messages look like, ledger counts them, datadir checks and mends files,
// store publishes and reads by one interface, store.Streams, servers runs or asks NATS
// servers, queue leases; kv and attempts are kept beside, and audit counts anew. None of
// them knows this package.
//
// # Files
//
//  1. journal.go: a journal is opened, follows what is stored, and is closed
//  2. maintenance.go: what is done now and then, and after the store could not be written to
//  3. append.go: calls are stored
//  4. attach.go: destinations come and go
//  5. status.go: what is asked of a journal: ledgers, failed calls, proofs, health
//  6. trim.go: what is no longer needed is removed
//  7. settle.go: what follows from outcomes
//  8. replay.go: calls are made due again
//  9. failed.go: the list of failed calls is kept
//  10. retries.go: what is to be tried again is scheduled, and made again where it is missing
//  11. restore.go: a start compares what is there with what must be, and catches up
//  12. loss.go: what is lacking, and how it is gone on without
//  13. checkpoint.go: accounts that are kept in STATE
//  14. local.go: the directory, and the server on it
//  15. snapshot.go: accounts that are kept in the directory
//  16. connect.go: connections to the server, or to a cluster
//  17. streams.go: the streams that there must be
//  18. state.go: what a journal has
//  19. options.go: where a journal is, and how much it keeps
package jetstream
