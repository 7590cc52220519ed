// Package users manages lists of users: audiences, computed traits and deletion requests. It
// creates the calls that notify destinations and stores them in the journal, which delivers
// them like all other calls.
//
// # Lists
//
// A list may be larger than memory. It is sorted in a temporary file, stored in segments in the
// [state.Store], and queued by one update of its computation's record. From then on the list is
// durable, and the request returns. When the list is first in the queue, the Service compares it
// with the previous list, creates calls for the differences, and makes it the current list with
// one more update. The differences and the messageIds are deterministic, so another process can
// continue after a crash, and repeated calls are duplicates.
//
// Before each attempt at a call, Superseded looks up the call's user in the latest list: the last
// list for which calls were created. A call that contradicts this list is not sent. Otherwise it
// might arrive after a call of the newer list, and a receiver may use the last call it gets.
//
// # Deletion requests
//
// The Service stores the users in chunks, and then the record. It stores a notification for each
// user and source in the journal, removes the users from the stored lists, and stores the
// outcomes of the notifications in the chunks. Notifications that are neither pending nor have a
// known outcome are sent again.
//
// # Background work
//
// A process acquires the lease of a record, stores a batch of calls in the journal, and stores
// its progress in the record. After a failure, work continues from the stored progress.
//
// # Blocking
//
// Requests wait for the store. At most four lists are read at the same time. Background work
// waits for the store and the journal. A sync also waits if its destination has no room for another
// batch: at most 40 batches (20,000 calls) may be pending. Superseded waits for the store. Observe
// does not block.
//
// # Concurrency
//
// The store has one record per computation and request. Records are changed only by conditional
// updates, so several processes can share them. The lease in the record selects the process, and
// workers.mu the goroutine in this process. No mutex is held during I/O.
package users
