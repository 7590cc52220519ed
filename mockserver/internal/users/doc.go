// Package users takes lists of users: audiences, computed traits, and requests that
// users be deleted. It makes the calls that tell destinations of them, and puts them
// into the journal, from where they take the path of all calls.
//
// # The path of a list
//
// A list can be far larger than memory. It is sorted, in a temporary file if it is long,
// written to the [state.Store] in segments that no record names yet, and queued by one
// update of the record of its computation: from there on it is never lost, and the
// request is answered. When its turn comes it is compared with the list before it,
// calls are made of the differences, and one more update makes it the current list. The
// differences and the messageIds of their calls are the same each time, so whoever
// takes over after a crash goes on, and a call that comes twice is the same call.
//
// Before each attempt at a call the current list, which is the last whose calls have begun
// to be made, is searched for its user. A call that this list contradicts is not sent: the
// calls of newer lists may have come before it, and a receiver may believe the last one.
//
// # The path of a deletion request
//
// Its users are stored in chunks, then its record. A notification for each user and
// source goes to the journal; the users are taken out of the stored lists; outcomes are
// observed, gathered and stored with the chunks. Notifications that are pending nowhere
// and whose outcome nobody knows are sent again.
//
// # The work in the background
//
// Both are worked on in one way: a process takes the lease in the record, makes a batch of
// calls, stores them in the journal, and notes in the record how far it is. Work that
// fails is begun again from there.
//
// # What may block
//
// Requests wait for the store; at most four lists are read at a time. Work in the
// background waits for the store, for the journal, and while a destination has more
// than 20,000 calls before it. Observe only notes an outcome. Superseded waits for the store.
//
// # What guards what
//
// The truth is in the store, in one record for each computation and each request, which
// only conditional updates change: any number of processes may share it. A lease in
// the record says which process works on it; workers.mu guards which goroutine of this
// process does. outcomes.mu guards the outcomes that are not stored yet. No mutex is held
// during I/O.
//
// # Files
//
//  1. start.go: the service begins and ends, and deletes what was given up
//  2. deletion.go: a deletion request is taken, and asked about
//  3. deletionsend.go: the work on one request: notifications are made
//  4. deletionlost.go: those that were lost are made again
//  5. deletionoutcome.go: outcomes of notifications are taken, and stored
//  6. deletionrecord.go: one request, as it is stored
//  7. sync.go: an audience or a computed trait is given a list, and asked about
//  8. syncwork.go: the calls of a list are made; users are taken out of all lists
//  9. lost.go: lists of which segments or the record are lost
//  10. computationrecord.go: one audience or computed trait, as it is stored, and its lists
//  11. list.go: the lines of a list
//  12. uploads.go: how what is stored beside a record is named
//  13. emit.go: calls that the collector makes itself, and those that newer ones supersede
//  14. scope.go: the sources and destinations that are meant
//  15. users.go: what all of these work with, and the turn of a process to work on a record
//  16. outcomes.go: outcomes of notifications are gathered
//  17. work.go: work in the background, and its leases
//  18. snakecase.go: the keys of traits
//  19. values.go: what is asked, and what is answered
package users
