package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Lock takes the data directory for this process. Two servers on one directory
// would both start and both write. The system releases the lock when the
// process ends, however it ends.
func Lock(dir string) (*flock.Flock, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	switch ok, err := l.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("journal: locking %s: %w", dir, err)
	case !ok:
		return nil, fmt.Errorf("journal: %w: %s is held by %s; stop it, or give this one a directory of its own",
			ErrInUse, dir, readHolder(dir))
	}
	host, _ := os.Hostname()
	text, _ := json.Marshal(holder{os.Getpid(), host, filepath.Base(os.Args[0]), time.Now().Truncate(time.Second)})
	if err := os.WriteFile(filepath.Join(dir, holderFile), text, 0o600); err != nil && !IsDiskFull(err) {
		_ = l.Unlock()
		return nil, fmt.Errorf("journal: the data directory cannot be written to: %w", err)
	}
	return l, nil
}

func readHolder(dir string) string {
	var h holder
	text, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return "another process"
	}
	return h.String()
}
