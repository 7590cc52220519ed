//go:build !linux

package spool

import (
	"errors"
	"os"
)

// errMapping means that files cannot be mapped.
var errMapping = errors.ErrUnsupported

// mapFile fails: records are written with system calls.
func mapFile(*os.File, int) ([]byte, error) { return nil, errMapping }

func unmapFile([]byte) error { return nil }
