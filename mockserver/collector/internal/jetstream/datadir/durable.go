package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// temporary begins the names of files that are being written. The server takes a
// name that begins with a number for that of a block.
const temporary = ".new."

// writeDurably replaces a file so that after a power cut it is the old or the
// new one.
func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporary+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already, if all went well
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// SyncTree brings a directory and all that is in it to the disk: the server does
// not do so for streams that it creates.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return syncDir(path)
		}
		return SyncFile(path)
	})
}

// SyncFile brings a file to the disk, whoever wrote it.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // some systems sync only what can be written
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir makes a rename durable. Windows has no such thing, and needs none.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
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

// rewriteFile writes a file anew, if it is there.
func rewriteFile(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeDurably(file, data)
}

// RemoveTemporary removes what writeDurably has left in directories where a process
// was killed meanwhile.
func RemoveTemporary(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		left, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
		errs = append(errs, err)
		for _, file := range left {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}

// writeZeros allocates by writing.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
