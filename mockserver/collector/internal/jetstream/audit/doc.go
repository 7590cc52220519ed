// Package audit proves or refutes what a journal says. A Verifier counts all that is
// stored anew and holds the ledger against it. A Scrubber reads what is stored again and
// again, slowly, so that a disk that changes bytes is noticed while it can be replaced.
package audit
