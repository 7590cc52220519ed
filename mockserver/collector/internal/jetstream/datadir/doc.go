// Package datadir is the files of a data directory, as the embedded server writes them:
// their blocks, what of them is damaged or torn, and what may be cut off or written anew;
// and the files of the journal beside them: lock, marker, ballast, canary, sealed files and
// what was accepted last. No server runs while streams are checked, and none is asked. The
// format of the blocks is pinned to the server's version by a test.
//
// # Files
//
//  1. check.go: what is damaged, and what may be cut off
//  2. rewrite.go: what may not be on the disk is written anew
//  3. scrub.go, scrub_linux.go, scrub_other.go: a block is read past the cache
//  4. marker.go: what must be there
//  5. files.go: the files of streams
//  6. block.go: records, and what is none
//  7. recent.go, canary.go: what was accepted last, and whether it is on the disk
//  8. lock.go, ballast.go, ballast_linux.go, ballast_other.go: one process at a time, and room for when the disk is full
//  9. sealed.go, durable.go: files with a checksum, and files that are brought to the disk
package datadir
