package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ScrubBlock reads a block from the disk, and returns what is damaged of it. read is told
// how much was read, and ends it with an error.
func ScrubBlock(stream string, block int, read func(bytes int) error) (damage []string) {
	data, err := readPastCache(blockFile(stream, block))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // its messages were removed
	case err != nil:
		return []string{err.Error()}
	}
	if read(len(data)) != nil {
		return nil
	}
	found, _ := findDamage(data, newBlockHash(filepath.Base(stream), block), false)
	for _, d := range found {
		// Where it ends may change with what is written behind it.
		damage = append(damage, fmt.Sprintf("%s (%s) from byte %d on", blockFile(stream, block), filepath.Base(stream), d.from))
	}
	return damage
}

// readPastCache reads a file from the disk, as far as the system lets it.
func readPastCache(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	dropCache(f)
	data, err := io.ReadAll(f)
	dropCache(f) // it is not read soon
	return data, err
}
