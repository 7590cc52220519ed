// Package spool implements a crash-safe log of byte records in a directory. Records are
// appended, read back and acknowledged.
//
// # The path of a record
//
// [Log.Append] adds a [Record] to a queue. One of the waiting goroutines writes all queued
// records to the active segment in one write, and passes them to Options.Appended. Then all
// waiting calls of Append return. If the segment is mapped into memory, Append stores the
// record without the queue. A segment is a file. A full segment is sealed, and a new one is
// started.
//
// [Log.Done] acknowledges records. The log writes the acknowledgement to the segment within
// 100 ms. If records are being written at that time, it writes the acknowledgement with the
// next records, or after another 100 ms. It retries a failed write each second. When all
// records of a segment are acknowledged, its file is removed or reused.
//
// [Log.Read] reads records back in order, starting with the oldest record of a previous
// process, or with the record set by [Log.ReadFrom].
//
// A record has a [Position]. Positions increase in the order of writing. Consecutive records
// of a segment have consecutive positions; there are gaps between segments.
//
// # Durability
//
// A record whose Append returned nil survives kill -9, because it is in the page cache of the
// system. With Options.Sync it also survives a loss of power. The next process may read a
// record again if it was acknowledged less than 200 ms before a crash, or if the log or the
// disk had no room for the acknowledgement. Read skips a torn or corrupted record and reports it in
// the page. No other record is lost.
//
// The log holds a lock on its directory, which the system releases when the process exits.
//
// # Writes
//
// Usually, a write is a system call. On Linux, a log that fills a segment within a second maps
// the files of the next segments into memory. Data that is stored in a shared mapping also
// survives kill -9, and storing it takes a tenth of the time of a system call. A new mapped file
// is filled with zeros, so that the disk reserves space for it. The log reuses mapped files. Each
// use has a new generation number, which distinguishes its records from older records in the
// file. If another program truncates a mapped file, a store causes a memory fault. The log
// handles the fault as an error and writes the records to another segment.
//
// # Goroutines and the mutex
//
// One goroutine writes acknowledgements and removes files, from Open to Close.
//
// A log shares the mutex of its owner, Options.Mutex. So the owner needs only one lock to write a
// record and to account for it. During I/O, the log unlocks the mutex and sets Log.writing. Until
// writing is false again, other goroutines do not use the file of the active segment. There is
// one exception: while Append copies a record into a mapped file without the queue, the mutex
// stays locked, although the copy can wait for the disk if the system is writing the page.
//
//	mutex     methods                                                   callbacks
//	locked    Append, Done, Room, ReadFrom, Discard, Stop, Busy, Usage  Appended, Drained
//	unlocked  Read, Close                                               Freed, Discarded, Warn
//
// # Important files
//
//   - append.go: writing records
//   - read.go: reading records, a page at a time
//   - maintain.go: writing acknowledgements, and removing files
//   - log.go: room, segments and acknowledgements
//   - record.go: the format of a segment
package spool
