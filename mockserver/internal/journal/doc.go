// Package journal defines the storage of accepted calls. Calls are stored before the sender gets a
// response, and stay stored until every destination has finished them. The package also implements
// a journal in memory.
//
// [Journal.Append] stores a batch for every destination of its source. A destination's worker waits
// in [Reader.Next] and gets a [Lease] of an [Entry]; sources take turns. [Lease.Finish] stores the
// result of each call: delivered, failed, filtered or pending. Pending calls are leased again at a
// scheduled time. Failed calls are kept for listing and replay. The [tracking.Ledger] of each
// destination accounts for every accepted call at any time.
//
// Append, Attach, Finish and Replay may wait for a disk or a cluster, and Next for an entry. No
// method waits for a destination. All methods are safe for concurrent use.
//
// [NewMemory] returns the journal in memory; one mutex guards all its queues. The module
// mockserver/collector contains a durable journal on JetStream. The tests in package journaltest
// apply to both.
package journal
