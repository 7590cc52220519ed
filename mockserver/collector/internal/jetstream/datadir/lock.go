package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Files in the data directory beside those of the server.
const (
	lockFile   = "journal.lock"
	holderFile = "journal.holder"
)

// ErrInUse says that another process works on the data directory.
var ErrInUse = errors.New("the data directory is in use")

// A holder says who has the lock.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

func (h holder) String() string {
	return fmt.Sprintf("process %d on %s (%s), since %s", h.PID, h.Host, h.Command, h.Since.Format(time.RFC3339))
}

// A Lock is the data directory as this process has it.
type Lock struct {
	dir    string
	lock   *flock.Flock
	holder []byte // the contents of the holder file; nil if the disk was too full for a file
}

// Take takes the data directory for this process. Two servers on one directory
// would both start and both write. The system releases the lock when the
// process ends, however it ends.
func Take(dir string) (*Lock, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	switch ok, err := l.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("journal: locking %s: %w", dir, err)
	case !ok:
		return nil, fmt.Errorf("journal: %w: %s is held by %s; stop it, or give this one a directory of its own",
			ErrInUse, dir, readHolder(dir))
	}
	host, _ := os.Hostname()
	text, _ := json.Marshal(holder{os.Getpid(), host, filepath.Base(os.Args[0]), time.Now()})
	if err := os.WriteFile(filepath.Join(dir, holderFile), text, 0o600); err != nil && !IsDiskFull(err) {
		_ = l.Unlock()
		return nil, fmt.Errorf("journal: the data directory cannot be written to: %w", err)
	}
	written, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = l.Unlock()
		return nil, fmt.Errorf("journal: the data directory cannot be read: %w", err)
	}
	return &Lock{dir, l, written}, nil
}

// Release lets other processes take the directory.
func (l *Lock) Release() error { return l.lock.Unlock() }

// Held returns an error if the directory or its streams were deleted, or if the directory
// is another one: the server goes on writing to files that nobody can open any more.
// A directory that was moved back, or mounted again, is held.
func (l *Lock) Held() error {
	_, err := os.Stat(filepath.Join(l.dir, storeDir))
	written := l.holder
	if err == nil && l.holder != nil {
		written, err = os.ReadFile(filepath.Join(l.dir, holderFile))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !bytes.Equal(written, l.holder) {
		return &fs.PathError{Op: "using", Path: l.dir, Err: errReplaced}
	}
	return nil // other errors of the disk are found by those who write
}

var errReplaced = errors.New("it was deleted or replaced while the collector ran; stop the collector, restore the directory from a backup or begin with an empty one, and start the collector again")

func readHolder(dir string) string {
	var h holder
	text, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return "another process"
	}
	return h.String()
}
