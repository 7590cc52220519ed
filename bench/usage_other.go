//go:build !unix

package main

import (
	"errors"
	"time"
)

// usage is what the measurements are about, and only unix tells it in one call.
func usage() (cpu time.Duration, peak int64, err error) {
	return 0, 0, errors.New("the CPU time and memory of a process are read by getrusage: run the benchmark on a unix system")
}
