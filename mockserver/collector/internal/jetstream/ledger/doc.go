// Package ledger computes the account of each destination from the records of CALLS and
// OUTCOMES:
//
//	accepted = delivered + failed + filtered + pending + lost
//
// A [Ledger] is updated with each record. A [Recount] counts the same records with a
// different algorithm, to verify it. The package does no I/O.
//
// # Files
//
//  1. account.go: the ledger, and the account of a destination
//  2. encode.go: the storage format
//  3. salvage.go: accounting for lost messages
//  4. recount.go: the recount
package ledger
