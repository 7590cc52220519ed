//go:build !linux

package spool

import (
	"errors"
	"os"
)

// errMapping is the error on systems where files are not mapped.
var errMapping = errors.ErrUnsupported

// mapFile returns an error, so that records are written with system calls.
func mapFile(*os.File, int) ([]byte, error) { return nil, errMapping }

func unmapFile([]byte) error { return nil }
