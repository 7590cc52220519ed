package datadir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

func TestMarkerErrors(t *testing.T) {
	old := Marker{Format: 1, Ready: true, Streams: []string{"s-CALLS"}}
	for name, c := range map[string]struct {
		write   func(t *testing.T, dir string)
		damaged bool
		want    string
	}{
		"an older one": {
			write: func(t *testing.T, dir string) { require.NoError(t, old.Write(dir)) },
			want:  "has format 1, but this version reads format 2; use the version that wrote it until nothing is pending, then move the directory away and start with an empty one",
		},
		"an older one without a sum": {
			write: func(t *testing.T, dir string) { writeMarker(t, dir, `{"format": 1, "ready": true}`) },
			want:  "has format 1, but this version reads format 2; use the version that wrote it until nothing is pending, then move the directory away and start with an empty one",
		},
		"a newer one": {
			write: func(t *testing.T, dir string) { require.NoError(t, Marker{Format: 3, Ready: true}.Write(dir)) },
			want:  "has format 3, but this version reads format 2; use the version that wrote it, or a newer one",
		},
		"no sum": {
			write:   func(t *testing.T, dir string) { writeMarker(t, dir, `{"format": 2, "ready": true}`) },
			damaged: true, want: "cannot be read",
		},
		"a flipped bit": {
			write: func(t *testing.T, dir string) {
				writeMarker(t, dir, `{"format": 1, "ready": true, "sum": "`+Marker{Format: 2, Ready: true}.sum()+`"}`)
			},
			damaged: true, want: "cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.write(t, dir)
			f := Files{Path: dir, Log: slog.New(slog.DiscardHandler)}
			_, err := f.ReadMarker()
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, c.damaged, errors.Is(err, record.ErrDamaged))
			f.AcceptLoss = true
			m, err := f.ReadMarker()
			if !c.damaged {
				require.ErrorContains(t, err, c.want, "accepting loss changes nothing")
				return
			}
			require.NoError(t, err)
			assert.True(t, m.Ready)
		})
	}
}

func writeMarker(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, markerFile), []byte(text), 0o600))
}
