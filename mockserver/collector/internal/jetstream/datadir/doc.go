// Package datadir checks and repairs the files of a data directory: the embedded server's
// files, and the journal's files next to them.
//
// A start takes the lock, reads the marker, and checks the server's blocks before the server
// starts (check.go, block.go). After an unclean stop or a failed write it rewrites data that
// may not be on the disk (rewrite.go). While the collector runs, a scrub reads the blocks
// again past the page cache (scrub.go).
//
// The block format belongs to the pinned version of the server; a test compares the two.
package datadir
