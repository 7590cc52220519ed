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
package queue
