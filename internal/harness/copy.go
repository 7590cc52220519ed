package harness

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Copy copies the files of a directory that a program writes to, as a kill leaves them. It
// begins again, in the next directory that next makes, where a file was renamed or removed
// meanwhile, and returns the last one. Files of the names except are left out.
func Copy(dir string, next func() string, except ...string) (copied string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	for {
		copied = next()
		if err = os.CopyFS(copied, without{os.DirFS(dir), except}); !errors.Is(err, fs.ErrNotExist) {
			return copied, err
		}
	}
}

// without is a file system without files of some names.
type without struct {
	fs.FS
	names []string
}

func (f without) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(f.names, e.Name()) }), err
}
