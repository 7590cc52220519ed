//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"os"
)

var errLocked = errors.New("the file is locked")

// lockFile fails. On this system the standard library has no locks, or closing another
// descriptor of the file releases them.
func lockFile(*os.File) error { return errors.ErrUnsupported }
