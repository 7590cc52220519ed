package config

import (
	"crypto/sha256"
	"maps"
	"os"
	"slices"
)

// Files are those that a configuration was read from, with what they held: its own,
// and those with secrets and certificates that it names.
type Files map[string]digest

// A digest tells one content from another; a file that cannot be read has one too.
type digest [sha256.Size]byte

func digestOf(path string) digest {
	data, _ := os.ReadFile(path)
	return sha256.Sum256(data)
}

// Paths returns where they are.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// Now returns the same files with what they hold now.
func (f Files) Now() Files {
	now := Files{}
	for path := range f {
		now.add(path)
	}
	return now
}

// Changed reports whether one holds something else by now.
func (f Files) Changed() bool { return !maps.Equal(f, f.Now()) }

// add remembers what a file holds, which must be before it is read: what changes
// meanwhile is noticed then.
func (f Files) add(path string) {
	if path == "" || f == nil {
		return
	}
	if _, ok := f[path]; !ok {
		f[path] = digestOf(path)
	}
}
