// Package ledger computes the account of each destination from the records of CALLS and
// OUTCOMES:
//
//	accepted = delivered + failed + filtered + pending + lost
//
// A [Ledger] is updated with each record; [Live] adds a lock. A [Recount] counts the same records with a
// different algorithm, to verify it. The package does no I/O.
//
// # Files
//
//  1. account.go: the ledger, and the account of a destination
//  2. live.go: the ledger of a running journal
//  3. encode.go: the storage format
//  4. salvage.go: accounting for lost messages
//  5. recount.go: the recount
package ledger
