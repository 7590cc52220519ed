// Package datadir checks and repairs the files of a data directory. These are the files of the
// embedded server, and the files of the journal next to them.
//
// A start takes the lock, reads the marker, and checks the server's blocks before the server starts
// (check.go, block.go). After an unclean stop or a failed write, it rewrites data that may not be on
// the disk (rewrite.go). While the collector runs, a scrubber reads the blocks again and bypasses the
// page cache (scrub.go). The journal can read the headers of messages from the blocks, which takes much
// less time than reading them from the server (read.go).
//
// The block format belongs to the pinned version of the server. A test compares this package with the
// server.
package datadir
