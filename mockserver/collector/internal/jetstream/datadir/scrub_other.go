//go:build !linux

package datadir

import (
	"os"
)

// dropCache does nothing on this platform.
func dropCache(*os.File) {}
