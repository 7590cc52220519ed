package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// temporary is the prefix of unfinished files. It must not be a number, because the server would
// treat such files as blocks.
const temporary = ".new."

// writeDurably replaces a file. After a power cut, the file has either its old or its new contents.
func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporary+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails if the file was renamed
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

// SyncTree syncs a directory and everything in it, because the server does not sync the directories
// that it creates.
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

// SyncFile syncs a file that another process may have written.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // some systems can only sync writable files
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir makes renames in a directory durable. On Windows it does nothing.
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

// Overwrite replaces the contents of a file in place and syncs it.
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

// Writable returns nil if a file of the size of a message can be written in the directory.
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

// rewriteFile replaces a file with a copy. It does nothing if the file does not exist.
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

// RemoveTemporary removes unfinished files of a killed process.
func RemoveTemporary(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		for _, file := range glob(dir, temporary+"*") {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}

// writeZeros allocates space by writing zeros.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
