//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"os"
)

var errLocked = errors.New("the file is locked")

// lockFile returns an error. On this system, the standard library has no file locks, or closing
// any descriptor of the file releases the lock.
func lockFile(*os.File) error { return errors.ErrUnsupported }
