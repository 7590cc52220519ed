// Package queue is what a process has before it for each destination. A puller asks the
// server for as many messages as there are goroutines that wait for one; a message of
// CALLS becomes items, one for each part of it whose first attempt has not ended, and a
// message of RETRY one item; a reader leases items; the end of a lease is an outcome,
// which is stored before anything follows from it, together with others that end then.
//
// What a queue needs of the journal is a [Settler]: what follows from outcomes.
//
// The lock of a queue is held while the ledger is asked which parts have ended, until
// these are among the items: what ends meanwhile would be handed out again.
//
// # Files
//
//  1. set.go: the queues of a journal
//  2. reader.go: items are leased
//  3. hold.go: one process of several hands out in order
//  4. claims.go: those that wait for that are told of claims
//  5. lease.go: a lease ends
//  6. queue.go: messages come, and become items
//  7. puller.go: messages are asked for
//  8. overtake.go: how many are asked for, and sources that stand behind another's backlog
//  9. inorder.go: entries in the order in which they were accepted
//  10. consumer.go: what the server hands out to a destination
//  11. items.go: what is to be done
//  12. state.go: what a queue has, and the states of an item
//  13. results.go: outcomes are written together
package queue
