package config

import (
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"slices"
)

// Files maps the paths of the configuration file, and of the files that it names, to digests of
// their contents.
type Files map[string]digest

// A digest identifies the contents of a file. An unreadable file has the same digest as an empty file.
type digest [sha256.Size]byte

func digestOf(path string) (d digest) {
	h := sha256.New()
	if f, err := os.Open(path); err == nil {
		_, _ = io.Copy(h, io.LimitReader(f, maxFile))
		_ = f.Close()
	}
	return digest(h.Sum(d[:0]))
}

// maxFile is the maximum size of a file in bytes. It also ends the reading of devices such as /dev/zero.
const maxFile = 16 << 20

// Paths returns the sorted paths.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// Now returns the same files with their current contents.
func (f Files) Now() Files {
	now := Files{}
	for path := range f {
		now.add(path)
	}
	return now
}

// Changed reports whether a file has changed.
func (f Files) Changed() bool { return !maps.Equal(f, f.Now()) }

// add records the contents of a file. Call it before reading the file, so that a change between the
// two calls is detected.
func (f Files) add(path string) {
	if path == "" || f == nil {
		return
	}
	if _, ok := f[path]; !ok {
		f[path] = digestOf(path)
	}
}
