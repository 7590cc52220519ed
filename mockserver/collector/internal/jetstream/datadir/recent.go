package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// What was accepted since the newest snapshot is known from CALLS, and a second time
// from a file beside it: so that all of it is counted, whatever becomes of CALLS. The
// file is not synced: a kill leaves it whole, and a power cut leaves what the snapshot
// before did. So it is with the settings and the state, of which it has how far they
// have come.
type Recent struct {
	mu   sync.Mutex // guards what follows
	file *os.File   // nil where there is none
	list []record.Accepted
}

const recentFile = "journal.recent"

// LoadRecent returns what an earlier process left.
func LoadRecent(dir string) ([]record.Accepted, error) {
	data, err := os.ReadFile(filepath.Join(dir, recentFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []record.Accepted
	for line := range bytes.Lines(data) {
		if a, ok := record.ParseAccepted(line); ok {
			all = append(all, a)
		}
	}
	return all, nil
}

// Open begins an empty file.
func (r *Recent) Open(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := os.OpenFile(filepath.Join(dir, recentFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	r.file = file
	return nil
}

// Add says that calls are stored.
func (r *Recent) Add(a record.Accepted) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	r.list = append(r.list, a)
	_, err := r.file.Write(a.Line())
	return err
}

// Forget drops what a snapshot that was stored knows.
func (r *Recent) Forget(known func(record.Accepted) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	r.list = slices.DeleteFunc(r.list, known)
	var left []byte
	for _, a := range r.list {
		left = append(left, a.Line()...)
	}
	err := r.file.Truncate(0)
	if err == nil {
		_, err = r.file.Write(left)
	}
	return err
}

// Close closes the file, which stays. It may be called again.
func (r *Recent) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}
