// Package disk makes disks that fail as real ones do, for programs that promise to
// keep what they were given.
//
// A Disk is a file system, ext4 or xfs, on a loop device. Behind the loop device
// is a file that this process serves by FUSE, so that every write and every flush
// of the block layer passes through a [Device], which
//
//   - fails writes, reads or flushes with EIO, a number of them or all,
//   - tears a write: some of its sectors arrive, and it fails,
//   - forgets, when the power is cut, writes that no flush came after: all of
//     them, or some, or some sectors of some, as its seed has it.
//
// What the kernel's page cache holds is lost with the power as well. Loop device
// and FUSE use direct I/O: no other cache lies between the file system and the
// Device. A flush of the file system (fsync, a commit of its journal) becomes a
// flush of the loop device and so an fsync of the file behind it.
//
// It needs root, Linux, /dev/fuse and /dev/loop-control. A disk is gone with the
// process that made it, whatever ends that.
package disk
