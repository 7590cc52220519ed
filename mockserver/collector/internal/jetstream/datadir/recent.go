package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Recent is a file next to CALLS that lists the calls accepted since the last snapshot, and the
// revisions of settings and state. With this list, calls are counted even if CALLS loses them. The
// file is not synced. It survives a kill, but not a power cut. The methods of Recent are safe for
// concurrent use.
type Recent struct {
	mu   pause.Lock // guards the fields below
	file *os.File   // nil before Open and after Close
	list []record.Accepted
}

const recentFile = "journal.recent"

// LoadRecent returns the list that the previous process has written.
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

// Open creates an empty file.
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

// Add appends stored calls to the list.
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

// Forget removes the entries that a stored snapshot contains.
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

// Close closes the file without removing it. It can be called more than once.
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
