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

// Files of the journal that identify the process that uses the directory.
const (
	lockFile   = "journal.lock"
	holderFile = "journal.holder"
)

// ErrInUse means that another process uses the data directory.
var ErrInUse = errors.New("the data directory is in use")

// A holder describes the process that has the lock.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

func (h holder) String() string {
	return fmt.Sprintf("process %d on %s (%s), since %s", h.PID, h.Host, h.Command, h.Since.Format(time.RFC3339))
}

// A Lock gives this process exclusive access to a data directory.
type Lock struct {
	dir    string
	lock   *flock.Flock
	holder []byte // contents of the holder file; nil if the disk was too full to create it
}

// Take locks the data directory, because two servers must not write to the same directory. The system
// releases the lock when the process ends.
func Take(dir string) (*Lock, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	switch ok, err := l.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("journal: locking %s: %w", dir, err)
	case !ok:
		return nil, fmt.Errorf("journal: %w: %s is locked by %s; stop that process, or use a different directory",
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

// Release unlocks the directory.
func (l *Lock) Release() error { return l.lock.Unlock() }

// Check returns an error if the directory or its streams were deleted or replaced: the server
// would keep writing to unreachable files. It returns nil again if the directory is moved back or
// mounted again. It does not compare files, because a file that is mounted again may be on
// another device. So it does not notice a copy of the directory.
func (l *Lock) Check() error {
	_, err := os.Stat(filepath.Join(l.dir, storeDir))
	written := l.holder
	if err == nil && l.holder != nil {
		written, err = os.ReadFile(filepath.Join(l.dir, holderFile))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !bytes.Equal(written, l.holder) {
		return &fs.PathError{Op: "using", Path: l.dir, Err: errReplaced}
	}
	return nil // other disk errors are found by writers
}

var errReplaced = errors.New("it was deleted or replaced while the collector ran; stop the collector, restore the directory from a backup or use an empty one, and start the collector again")

func readHolder(dir string) string {
	var h holder
	text, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return "another process"
	}
	return h.String()
}
