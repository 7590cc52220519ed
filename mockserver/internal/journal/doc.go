// Package journal defines the storage of accepted calls: they are stored before the sender gets a
// response, and leased until every destination has finished them. It also implements the journal
// in memory.
//
// [Journal.Append] stores a batch for every destination of its source. A destination's worker waits
// in [Reader.Next] and gets a [Lease] of an [Entry]; sources take turns. [Lease.Finish] stores the
// result of each call: delivered, failed, filtered, or pending until a time, when the remaining
// calls are leased again. Failed calls are kept for listing and replay. The [tracking.Ledger] of
// each destination accounts for every accepted call at any time.
//
// Append, Attach, Finish and Replay may wait for a disk or a cluster, and Next for an entry. No
// method waits for a destination. All methods are safe for concurrent use.
//
// [NewMemory] returns the journal in memory; one mutex guards all its queues. The module
// mockserver/collector has a durable one on JetStream. The suite in package journaltest tests both.
package journal
