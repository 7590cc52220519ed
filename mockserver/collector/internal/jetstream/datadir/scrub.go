package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ScrubBlock reads a block from the disk instead of the page cache, if possible, and returns
// descriptions of its damage. It then calls read with the number of bytes that were read. If read
// returns an error, ScrubBlock returns nil.
func ScrubBlock(stream string, block int, read func(bytes int) error) (damage []string) {
	f, err := os.Open(blockFile(stream, block))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the block's messages were removed
	}
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = f.Close() }()
	dropCache(f)
	found, size, _, err := checkOpen(f, stream, block, false, newBlockReader())
	dropCache(f) // the pages are not needed soon
	switch {
	case err != nil:
		return []string{err.Error()}
	case read(size) != nil:
		return nil
	}
	for _, d := range found {
		// Omit the end of the damage, because it may change when the server writes more.
		damage = append(damage, fmt.Sprintf("%s (%s) from byte %d on", d.file, d.Stream, d.from))
	}
	return damage
}
