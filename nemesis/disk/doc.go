// Package disk creates disks that fail like real disks. Tests use them to check programs that
// store data durably.
//
// A Disk is an ext4 or xfs file system on a loop device. This process serves the backing file with
// FUSE, so every write and flush of the block layer passes through a [Device]. The Device
//
//   - makes some or all writes, reads or flushes fail with EIO,
//   - tears writes: some sectors are stored, and the write fails,
//   - drops unflushed writes in a power cut: all of them, some, or some of their sectors. A
//     seed chooses them.
//
// A power cut also drops the kernel's page cache. The loop device and FUSE use direct I/O, so
// they do not cache data between the file system and the Device. A flush of the file system
// (fsync, or a commit of its journal) becomes a flush of the loop device, and then an fsync of
// its backing file.
//
// The package needs root, Linux, /dev/fuse and /dev/loop-control. A disk is removed when its
// process ends, even while one of its threads waits for the disk.
package disk
