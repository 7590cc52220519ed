package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// DiskSpace returns the free space and the size of the file system that contains dir, in bytes.
func DiskSpace(dir string) (free, size int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// allocated returns the disk space that a file occupies.
func allocated(info fs.FileInfo) int64 {
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return writeZeros(f, size)
	}
	return err
}
