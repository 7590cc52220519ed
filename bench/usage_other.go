//go:build !unix

package main

import (
	"errors"
	"time"
)

// usage is not supported on this system.
func usage() (cpu time.Duration, peak int64, err error) {
	return 0, 0, errors.New("measuring CPU time and memory requires getrusage: run bench on a Unix system")
}
