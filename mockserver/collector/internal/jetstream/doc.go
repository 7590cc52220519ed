// Package jetstream implements journal.Journal on NATS JetStream: on an embedded server, or on
// a cluster that several collectors share.
//
// # The path of a call
//
//	append   Batches of a source that arrive at the same time become one message of CALLS.
//	         Append returns when the message is stored (append.go).
//	count    The ledger reads CALLS and OUTCOMES and updates the account of each
//	         destination (journal.go, package ledger).
//	lease    The destination's queue fetches messages and leases their parts (package
//	         queue).
//	finish   The result of a lease is an outcome. It is stored in OUTCOMES before it is
//	         applied: the next attempt is scheduled in RETRY, and failed calls are stored
//	         in FAILED (settle.go, retries.go, failed.go). Applying an outcome is
//	         idempotent, so the next start can repeat it after a crash.
//	trim     Old finished calls are added to the base and removed (trim.go).
//
// CALLS, OUTCOMES and the base are the source of truth. The ledger can be rebuilt from
// them; a snapshot in the directory, or a checkpoint on a cluster, shortens the start. Verify
// recounts the calls with a different algorithm and compares the results.
//
// # Goroutines
//
// Store.Work.Go starts all goroutines, and Close waits for them. These goroutines run until
// Close: the readers of the ledger's streams, the writer of outcomes, maintain,
// trimPeriodically and the scrubber. On a cluster, renewPresence, renewLeases, watchCluster and
// watchServers also run. An open queue has two pullers. Temporary goroutines publish a message of
// calls, retry applying an outcome, look for waiting sources, or watch a key or the claim on a
// destination.
//
// The ledger, each queue and each source's writer have their own lock. No lock is held
// during a request or file I/O, except locks of type pause.Lock.
package jetstream
