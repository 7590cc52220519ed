package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ScrubBlock reads a block from the disk and returns descriptions of its damage. It calls read with
// the number of bytes that were read. If read returns an error, ScrubBlock stops.
func ScrubBlock(stream string, block int, read func(bytes int) error) (damage []string) {
	data, err := readPastCache(blockFile(stream, block))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the block's messages were removed
	case err != nil:
		return []string{err.Error()}
	}
	if read(len(data)) != nil {
		return nil
	}
	found, _ := findDamage(data, newBlockHash(filepath.Base(stream), block), false)
	for _, d := range found {
		// Omit the end of the damage, because it may change when the server writes more.
		damage = append(damage, fmt.Sprintf("%s (%s) from byte %d on", blockFile(stream, block), filepath.Base(stream), d.from))
	}
	return damage
}

// readPastCache reads a file from the disk instead of the page cache, if possible.
func readPastCache(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	dropCache(f)
	data, err := io.ReadAll(f)
	dropCache(f) // the pages are not needed soon
	return data, err
}
