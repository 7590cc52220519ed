package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache removes a file's clean pages from the page cache.
func dropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
