// Package users takes lists of users: audiences, computed traits, and requests that
// users be deleted. It makes the calls that tell destinations of them, and puts them
// into the journal, from where they take the path of all calls.
//
// # The path of a list
//
// A list can be far larger than memory. It is sorted, in a temporary file if it is long,
// written to the [state.Store] in segments that belong to nothing yet, and queued by one
// update of the record of its computation: from there on it is never lost, and the
// request is answered. When its turn comes it is compared with the list before it,
// calls are made of the differences, and one more update makes it the current list. The
// differences and the messageIds of their calls are the same each time, so whoever
// takes over after a crash goes on, and a call that comes twice is the same call.
//
// # The path of a deletion request
//
// Its users are stored in chunks, then its record. A notification for each user and
// source goes to the journal; the users are taken out of the stored lists; outcomes are
// observed, gathered and stored with the chunks. Notifications that are pending nowhere
// and whose outcome nobody knows are sent again.
//
// # What may block
//
// Requests wait for the store; at most four lists are read at a time. Work in the
// background waits for the store, for the journal, and while a destination has more
// than 20,000 calls before it. Observe only notes an outcome.
//
// # What guards what
//
// The truth is in the store, in one record for each computation and each request, which
// only conditional updates change: any number of processes may share it. A lease in
// the record says which process works on it; workers.mu guards which goroutine of this
// process does. deletions.mu and syncs.mu guard what is only remembered to save reading.
// No mutex is held during I/O.
//
// # Files
//
//  1. start.go: the service begins and ends
//  2. deletion.go: a deletion request is asked for, and asked about
//  3. deletiontake.go: it is stored
//  4. deletionsend.go: notifications are made
//  5. deletionlost.go: those that were lost are made again
//  6. deletionoutcome.go: outcomes of notifications are stored
//  7. deletionwork.go: the work on one request, by the process that has its lease
//  8. deletions.go: all requests, as they are stored
//  9. deletionrecord.go: one request
//  10. audience.go: an audience or a computed trait is given a list
//  11. syncwork.go: the calls of a list are made
//  12. syncerase.go: users are taken out of all lists
//  13. syncsweep.go: what belongs to nothing is deleted
//  14. sync.go: a list is read, sorted, stored and queued
//  15. computation.go: audiences and computed traits, as they are named and stored
//  16. emit.go: calls that the collector makes itself
//  17. scope.go: the sources and destinations that are meant
//  18. users.go: what all of these work with
//  19. work.go: work in the background
package users
