package harness

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Copy copies the files of a directory that a program is writing to, in the state a kill
// would leave. If a file is renamed or removed during the copy, Copy starts again in a new
// directory from next. It returns the last directory. Files named in except are skipped.
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
