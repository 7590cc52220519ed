// Package spool is a crash-safe log of byte records in a directory: records are
// appended, read back and acknowledged. It knows nothing of what they mean.
//
// # The path of a record
//
// [Log.Append] puts a [Record] into a queue. One of the goroutines that wait there
// writes all of the queue, in one piece, to the active segment, and calls
// Options.Appended with what it wrote; then their calls of Append return. Where a write is
// a store, each call makes its own, without the queue. A
// segment is a file; a full one is sealed, and another is begun.
//
// [Log.Done] acknowledges records. Within 100 ms the log writes that down, in the
// segment itself. A segment whose records are all acknowledged is removed, or its
// file is used for another segment.
//
// [Log.Read] reads records back, in order, from the oldest record that an earlier
// process left, or from the record that [Log.ReadFrom] names.
//
// A record has a [Position]. Positions grow in the order in which the records
// were written. Consecutive records of one segment have consecutive positions;
// between segments there are gaps.
//
// # What survives
//
// A record whose Append returned nil survives kill -9 of the process: its bytes
// are in the page cache of the system. With Options.Sync it survives a loss of
// power as well. A record that was acknowledged less than 100 ms before a crash may
// be read again by the next process; so may others if a full log has no room to write
// their acknowledgements down. A torn or damaged record is skipped; the
// page that Read returns says so, and no other record is lost by it.
//
// The log holds a lock on its directory, which the system releases when the
// process ends. So one process has a directory at a time.
//
// # Writes
//
// A write is a system call. A log that fills a segment within a second maps the
// files of the next ones into memory, on Linux: a store into a shared mapping
// survives the process as well and costs a tenth. Mapped files are filled with
// zeros first, so that the disk has room for them, and are used again and again.
// Each use has another generation, which tells its records from older ones behind
// them. When another program truncates a mapped file, a store faults; the fault
// becomes an error, and the records go to another segment.
//
// # Goroutines and mutexes
//
// One goroutine, which Open starts and Close ends, writes acknowledgements down and
// removes files. It calls Options.Freed, Options.Discarded and Options.Warn without
// a mutex.
//
//	mutex     guards                       held during I/O
//	writeMu   writes to the active segment yes
//	mu        all other state              no
//
// writeMu is acquired before mu. Options.Appended, and Options.Warn when called by
// Append, run with writeMu held. So the owner of a log may hold a mutex of its own
// while it calls a method that acquires only mu (Done, Room, ReadFrom, Discard,
// Stop, Busy, Usage), and may acquire that mutex in any callback. It must not hold
// it while it calls Append, Read or Close, which block on the disk.
//
// # Files
//
//  1. open.go: a directory is opened, and closed
//  2. read.go: records are read back, a page at a time
//  3. maintain.go: acknowledgements are written down, files removed or kept
//  4. append.go: records are written
//  5. roll.go: segments begin and end
//  6. log.go: what a log consists of: room, segments, acknowledgements
//  7. file.go: the file of a segment, which may be mapped
//  8. map_linux.go, map_other.go: files in memory
//  9. record.go: the bytes of a segment
//  10. lock.go, lock_unix.go, lock_windows.go, lock_other.go: one process has a directory
package spool
