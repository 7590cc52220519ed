//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// usage returns the CPU time (user and system) and the peak memory in bytes of this process.
func usage() (cpu time.Duration, peak int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, err
	}
	if own, err := harness.UsageOf(os.Getpid()); err == nil { // on Linux, Maxrss can include the peak memory of the parent process
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), own.PeakRSS, nil
	}
	unit := int64(1 << 10)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	peak = int64(u.Maxrss) * unit //nolint:unconvert // it has 32 bits on some platforms
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), peak, nil
}
