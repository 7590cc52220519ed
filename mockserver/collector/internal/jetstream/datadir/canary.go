package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Canary detects whether messages that the server has synced are on the disk. If ext4 finds an
// error during a sync, it may discard the transaction, report success and become read-only. A message
// therefore counts as stored only if the file system could be changed after the sync.
//
// The canary changes the size of an empty file. This change is part of a transaction of the file
// system, but is not written synchronously. It is not enough to check whether the file system is
// read-only, because it becomes read-only later.
type Canary struct {
	path string

	mu   pause.Lock // guards size
	size int64
}

// canarySizes limits the size of the file in bytes.
const canarySizes = 4096

// NewCanary returns the canary of a directory. Call Place before Check.
func NewCanary(dir string) *Canary {
	return &Canary{path: filepath.Join(dir, temporary+"canary")}
}

// Place creates the canary file.
func (c *Canary) Place() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size = 0
	return os.WriteFile(c.path, nil, 0o600)
}

// Check returns nil if all data that was synced before the call is on the disk.
func (c *Canary) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := (c.size + 1) % canarySizes
	if err := os.Truncate(c.path, size); err != nil {
		return fmt.Errorf("the last writes may not be on the disk: %w", err)
	}
	c.size = size
	return nil
}
