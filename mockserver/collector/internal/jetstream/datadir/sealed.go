package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

var ErrUnsealed = errors.New("it is damaged")

// Seal puts a checksum behind what a file is to hold.
func Seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// Unseal returns what was sealed.
func Unseal(data []byte) ([]byte, error) {
	n := len(data) - sha256.Size
	if n < 0 {
		return nil, ErrUnsealed
	}
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, ErrUnsealed
	}
	return data[:n], nil
}

// Overwrite writes a file in its place, and brings it to the disk.
func Overwrite(path string, data []byte) error {
	_, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil || !isNew {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Writable reports whether files in the directory can be written now, by writing
// as much as a message may have.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, temporary+"probe.*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
