// Package ledger is the arithmetic of a journal: from the records of CALLS and OUTCOMES,
// read in their order, it knows how every destination stands, so that
//
//	accepted = delivered + failed + filtered + pending + lost
//
// A [Ledger] is kept while records come, and can be encoded and decoded. A [Recount]
// counts the same records in another way and is held against it. Nothing here reads a
// stream or a file.
package ledger
