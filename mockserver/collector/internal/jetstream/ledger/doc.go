// Package ledger is the arithmetic of a journal: from the records of CALLS and OUTCOMES,
// read in their order, it knows how every destination stands, so that
//
//	accepted = delivered + failed + filtered + pending + lost
//
// A [Ledger] is kept while records come, and can be encoded and decoded. A [Recount]
// counts the same records in another way and is held against it. Nothing here reads a
// stream or a file.
//
// # Files
//
//  1. recount.go: the count in another way
//  2. undelivered.go: what a count has seen and not seen end
//  3. encode.go: a ledger as bytes
//  4. gone.go: what is pending and no longer stored
//  5. pending.go: up to where all has ended
//  6. account.go: the ledger, and the account of a destination
package ledger
