package harness

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Copy copies the files of a directory while a program writes to them. The copy is in the same
// state as after a kill of the program. If a file is renamed or removed during the copy, Copy
// starts again in another directory, which it gets from next. It returns the directory of the
// complete copy. It skips files whose names are in except.
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

// without is a file system that hides files with certain names.
type without struct {
	fs.FS
	names []string
}

func (f without) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(f.names, e.Name()) }), err
}
