package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// A Canary finds out whether what the server has synced is on the disk. Where ext4 finds
// an error while a file is synced it may take back what it began for that, and have the
// sync succeed nevertheless: from then on it is read-only. So a message counts as stored
// when the file system has changed something after the message was synced. It does that
// no longer once it has given up: an error that comes later concerns none that was synced
// before.
//
// What is changed is the size of a file that has no contents. That takes part in the log
// of the file system, as the end of a sync does, but is not waited for; a look at whether
// the file system is read-only would come too early, since its log ends before.
type Canary struct {
	path string

	mu   sync.Mutex // guards size
	size int64
}

// canarySizes is how large the file becomes, in bytes, before it begins again.
const canarySizes = 4096

// NewCanary returns the canary of a directory, which Place has yet to make.
func NewCanary(dir string) *Canary {
	return &Canary{path: filepath.Join(dir, temporary+"canary")}
}

// Place makes the file.
func (c *Canary) Place() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size = 0
	return os.WriteFile(c.path, nil, 0o600)
}

// Look returns nil if all that was synced before is on the disk.
func (c *Canary) Look() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := (c.size + 1) % canarySizes
	if err := os.Truncate(c.path, size); err != nil {
		return fmt.Errorf("what was stored last may not be on the disk: %w", err)
	}
	c.size = size
	return nil
}
