//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"os"
)

var errLocked = errors.New("the file is locked")

// lockFile fails: the standard library has no locks here, or they are released
// when another descriptor of the file is closed.
func lockFile(*os.File) error { return errors.ErrUnsupported }
