package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// lockName is the name of the lock file. The owner of the directory locks it. The system releases
// the lock when the process exits. The file is never removed. Otherwise two processes could each
// lock a different file with this name.
const lockName = "lock"

// lockDir creates dir if it does not exist, and locks it.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = lockFile(f)
	switch {
	case errors.Is(err, errLocked):
		err = fmt.Errorf("%s is in use by %s; each client needs its own directory", dir, holder(f))
	case err == nil && !sameFile(f, f.Name()):
		err = fmt.Errorf("%s is being removed", dir)
	case err == nil:
		_, err = f.WriteAt([]byte(lockText()), 0) // before Truncate: a full disk might not return a block that Truncate has freed
	}
	if err == nil {
		err = f.Truncate(int64(len(lockText())))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// maxLockText limits the length of lockText, because errors contain it.
const maxLockText = 200

// lockText is the content of the lock file.
func lockText() string { return thisProcess() + "\n" }

var thisProcess = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s (%s)", os.Getpid(), host, filepath.Base(os.Args[0]))
	return text[:min(len(text), maxLockText-len("\n"))]
})

// holder returns a description of the lock's owner for errors.
func holder(f *os.File) string {
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, maxLockText))
	line, _, whole := strings.Cut(string(text), "\n")
	switch {
	case line == thisProcess():
		return "another client of this process"
	case !whole || line == "" || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return "another process"
	}
	return line
}

// sameFile reports whether path still names the open file f.
func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}
