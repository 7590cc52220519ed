package harness

import (
	"errors"
	"io/fs"
	"os"
)

// Copy copies the files of a directory that a program writes to, as a kill leaves them. It
// begins again, in the next directory that next makes, where a file was renamed or removed
// meanwhile, and returns the last one.
func Copy(dir string, next func() string) (copied string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	for {
		copied = next()
		if err = os.CopyFS(copied, os.DirFS(dir)); !errors.Is(err, fs.ErrNotExist) {
			return copied, err
		}
	}
}
