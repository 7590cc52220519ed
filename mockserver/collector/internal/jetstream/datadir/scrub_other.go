//go:build !linux

package datadir

import (
	"os"
)

// dropCache does nothing: only Linux is told here what not to cache.
func dropCache(*os.File) {}
