package jetstream

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

var errUnsealed = errors.New("it is damaged")

// seal puts a checksum behind what a file is to hold.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// unseal returns what was sealed.
func unseal(data []byte) ([]byte, error) {
	n := len(data) - sha256.Size
	if n < 0 {
		return nil, errUnsealed
	}
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, errUnsealed
	}
	return data[:n], nil
}

// overwrite writes a file in its place, and brings it to the disk.
func overwrite(path string, data []byte) error {
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

// writable reports whether files in the directory can be written now, by writing
// as much as a message may have.
func writable(dir string) error {
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
