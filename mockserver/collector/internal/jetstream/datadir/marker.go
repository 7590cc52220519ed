package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A Marker lists the streams that the data directory must contain. It is necessary because the server
// ignores a stream with an unreadable description. Creating the stream again would silently replace
// it with an empty stream.
type Marker struct {
	Format  int      `json:"format"`
	Ready   bool     `json:"ready"` // false until all streams have been created
	Streams []string `json:"streams,omitempty"`
	Sum     string   `json:"sum,omitempty"` // checksum of the other fields; never empty in the marker file
}

// sum returns the checksum of the other fields.
func (m Marker) sum() string {
	m.Sum = ""
	text, _ := json.Marshal(m) // strings can always be marshaled
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const (
	markerFile = "journal.json"
	// MarkerFormat is the version of the directory's format. It changes with the format of
	// checkpoints, outcomes or retries.
	MarkerFormat = 2
)

// ReadMarker returns the directory's marker. If the marker is missing or corrupt although there is
// data, ReadMarker returns an error. If loss is accepted, it writes a new marker instead.
func (f *Files) ReadMarker() (Marker, error) {
	m, err := readMarker(f.Path)
	if !errors.Is(err, record.ErrDamaged) || !f.AcceptLoss {
		return m, err
	}
	f.Log.Error("the marker cannot be read; writing a new one", "error", err)
	m = Marker{Format: MarkerFormat, Ready: true}
	for _, config := range f.Configs {
		m.Streams = append(m.Streams, config.Name)
	}
	return m, m.Write(f.Path)
}

func readMarker(dir string) (Marker, error) {
	path := filepath.Join(dir, markerFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, storeDir)); err == nil {
			return Marker{}, record.Damaged("%s contains data, but its %s is missing; restore that file from a backup, start once with --accept-loss to recreate it, or move the directory away to start empty", dir, markerFile)
		}
		return Marker{Format: MarkerFormat}, nil
	}
	if err != nil {
		return Marker{}, fmt.Errorf("journal: %w", err)
	}
	var m Marker
	err = json.Unmarshal(text, &m)
	isOther := m.Format != MarkerFormat && (m.Sum == "" || m.Sum == m.sum()) // the first version had no checksum
	switch {
	case err == nil && isOther:
		return Marker{}, fmt.Errorf("journal: %s has format %d, but this version reads format %d; %s", dir, m.Format, MarkerFormat, adviceOnFormat(m.Format))
	case err == nil && m.Sum != m.sum():
		err = ErrUnsealed
	}
	if err != nil {
		return Marker{}, record.Damaged("%s cannot be read (%v); restore it from a backup, start once with --accept-loss to recreate it, or move %s away to start empty", path, err, dir)
	}
	return m, nil
}

// adviceOnFormat explains how to use a directory that another version has written.
func adviceOnFormat(format int) string {
	if format > MarkerFormat {
		return "use the version that wrote it, or a newer one"
	}
	return "use the version that wrote it until nothing is pending, then move the directory away and start with an empty one"
}

// Write stores the marker durably.
func (m Marker) Write(dir string) error {
	slices.Sort(m.Streams)
	m.Sum = m.sum()
	text, _ := json.MarshalIndent(m, "", "  ")
	if err := writeDurably(filepath.Join(dir, markerFile), append(text, '\n')); err != nil {
		return fmt.Errorf("journal: writing the marker: %w", err)
	}
	return nil
}
