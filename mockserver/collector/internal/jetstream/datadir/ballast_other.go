//go:build !linux

package datadir

import (
	"io/fs"
	"math"
	"os"
)

// DiskSpace returns a large number and 0, because the space is unknown on this platform.
func DiskSpace(string) (free, size int64, err error) { return math.MaxInt64 / 4, 0, nil }

// allocated returns 0, because files may be sparse on this platform.
func allocated(fs.FileInfo) int64 { return 0 }

func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
