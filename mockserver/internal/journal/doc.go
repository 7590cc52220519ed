// Package journal is the seam between the two sizes of the collector: what must be
// stored before a sender is answered, and handed out until every destination is done
// with it.
//
// # The path of a batch
//
// [Journal.Append] stores a batch for every destination attached to its source. The
// worker of a destination waits in [Reader.Next] and gets a [Lease] of an [Entry],
// sources in turns. [Lease.Finish] records how each call ended: delivered, failed,
// filtered, or pending until a time, when the entry comes back with what is left.
// Failed calls are kept to be listed and replayed. At any time the [tracking.Ledger] of
// each destination accounts for every call that was accepted.
//
// # What may block
//
// Append, Attach, Finish and Replay may wait for a disk or a cluster. Next waits for
// an entry. Nothing waits for a destination. All methods may be called by many
// goroutines at once.
//
// The journal in memory, [NewMemory], has one mutex, which guards all its queues and
// is never held while it waits; it starts no goroutine. The one on JetStream is in the
// module mockserver/collector. The suite in package journaltest holds both to what the
// comments here promise.
//
// # Files
//
//  1. memory.go: the journal in memory
//  2. journal.go: what a journal promises
//  3. account.go: ledgers, and whether they are proved; health; failed calls
package journal
