// Package users manages lists of users: audiences, computed traits and deletion requests. It
// creates the calls that notify destinations and stores them in the journal, which delivers
// them like all other calls.
//
// # Lists
//
// A list may be larger than memory. It is sorted in a temporary file, stored in segments in the
// [state.Store], and queued by one update of its computation's record. From then on it is
// durable, and the request returns. When it is first in the queue, it is compared with the
// previous list, calls are created for the differences, and one more update makes it the current
// list. The differences and the messageIds are deterministic, so another process can continue
// after a crash, and repeated calls are duplicates.
//
// Before each attempt at a call, its user is looked up in the current list, the last list with calls in the
// journal. A call that contradicts this list is not sent: calls of newer lists may have
// been delivered before, and a receiver may use the last call it gets.
//
// # Deletion requests
//
// The users are stored in chunks, then the record. A notification for each user and source is
// stored in the journal, the users are removed from the stored lists, and the outcomes of the
// notifications are stored in the chunks. Notifications that are neither pending nor have a
// known outcome are sent again.
//
// # Background work
//
// A process acquires the lease of a record, stores a batch of calls in the journal, and stores
// its progress in the record. Failed work continues from there.
//
// # Blocking
//
// Requests wait for the store. At most four lists are read at the same time. Background work
// waits for the store, the journal, and while a destination has more than 20,000 pending calls.
// Superseded waits for the store. Observe does not block.
//
// # Concurrency
//
// The store has one record per computation and request, changed only by conditional updates, so
// several processes can share it. The lease in the record selects the process, and workers.mu
// the goroutine in this process. No mutex is held during I/O.
package users
