package datadir

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// storeDir is the directory of the server.
const storeDir = "jetstream"

// Files checks and repairs the files of a data directory. No server may be running on the directory.
type Files struct {
	Path       string
	Interval   time.Duration // interval between syncs of the server; 0 if it syncs before every response
	Log        *slog.Logger
	Configs    []jetstream.StreamConfig // configurations of all streams
	Volatile   []string                 // names of the streams that are not synced with each message
	Rebuilt    string                   // the volatile stream that is rebuilt from other streams
	Advice     string                   // hint that is added to errors about damage
	AcceptLoss bool
}

// refuse returns the error for damage that prevents a start.
func (f *Files) refuse(found []Damage) error {
	texts := make([]string, len(found))
	for i, d := range found {
		texts[i] = d.String()
	}
	return record.Damaged("%s. %s", strings.Join(texts, "; "), f.Advice)
}

// StreamsDir returns the directory that contains the streams.
func (f *Files) StreamsDir() string {
	return filepath.Join(f.Path, storeDir, "$G", "streams")
}

// IsVolatile reports whether a stream may lose messages, because the stream is not synced with each
// message.
func (f *Files) IsVolatile(stream string) bool {
	return slices.Contains(f.Volatile, stream)
}

// cut removes damage from a stream and logs it.
func (f *Files) cut(stream string, found []Damage) error {
	if lost := acknowledged(found); len(lost) > 0 {
		f.Log.Error("the store is damaged; continuing without the unreadable data", "damage", lost)
	} else if len(found) > 0 {
		f.Log.Warn("incomplete writes were removed; they were never acknowledged", "damage", found)
	}
	if err := cutDamage(f.Path, stream, found); err != nil {
		return fmt.Errorf("journal: removing damage: %w", err)
	}
	return nil
}

// StreamDirs returns the directories of all streams.
func (f *Files) StreamDirs() []string { return f.Glob("*") }

// Glob returns the files that match a pattern relative to the directory of the streams.
func (f *Files) Glob(pattern string) []string { return glob(f.StreamsDir(), pattern) }

// glob returns the files that match a valid pattern relative to a directory. Unlike filepath.Glob, it
// accepts a directory whose name contains brackets.
func glob(dir, pattern string) []string {
	files, _ := fs.Glob(os.DirFS(dir), pattern) // fails only if the pattern is invalid
	for i, file := range files {
		files[i] = filepath.Join(dir, filepath.FromSlash(file))
	}
	return files
}
