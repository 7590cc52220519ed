package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the system forget what it has cached of a file. What is not yet on the
// disk stays.
func dropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
