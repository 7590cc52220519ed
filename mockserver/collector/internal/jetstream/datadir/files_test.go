package datadir

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestDirectoryNameMayBeAPattern checks a damaged stream in a directory whose name contains brackets.
func TestDirectoryNameMayBeAPattern(t *testing.T) {
	f := &Files{Path: filepath.Join(t.TempDir(), "[data]*"), Log: slog.New(slog.DiscardHandler)}
	blocks := filepath.Join(f.StreamsDir(), "analytics-CALLS", "msgs")
	require.NoError(t, os.MkdirAll(blocks, 0o700))
	for _, name := range []string{"1.blk", "2.blk"} {
		require.NoError(t, os.WriteFile(filepath.Join(blocks, name), bytes.Repeat([]byte{0xff}, 1000), 0o600))
	}
	require.ErrorIs(t, f.Check(Marker{}, nil, false, func(Damage) bool { return false }), record.ErrDamaged)
}
