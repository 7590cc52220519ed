//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package analytics

import (
	"errors"
	"os"
)

// lockFile fails: what the standard library has of locks here is given up as
// any other file is closed, or not there at all.
func lockFile(*os.File) error { return errors.ErrUnsupported }
