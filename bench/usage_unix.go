//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// usage is the CPU time that this process has used, user and system, and the most
// memory that it has taken, in bytes.
func usage() (cpu time.Duration, peak int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, err
	}
	unit := int64(1 << 10)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	peak = int64(u.Maxrss) * unit //nolint:unconvert // it has 32 bits on some platforms
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), peak, nil
}
