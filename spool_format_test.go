package analytics_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// formatsEnv is an environment variable. If it is set, TestWriteSpoolFormat writes spools in the
// current format to testdata, so that later versions can test that they read them. See make formats.
const formatsEnv = "FORMATS"

// spoolFormat is the name of the current format. spoolFormats is the directory with spools in all
// formats.
const (
	spoolFormat  = "1"
	spoolFormats = "testdata/spool"
)

// leaveFormat creates two spools: one of a closed process and one of a killed process. Calls 000 and
// 001 are delivered, and calls 002 to 007 are not.
func leaveFormat(t *testing.T, closed, killed string) {
	up := &collector{decide: func(n int, _ post) answer {
		if n == 0 {
			return answer{}
		}
		return answer{status: 503}
	}}
	dir := t.TempDir()
	client := newClient(t, up, analytics.Config{Spool: dir, FlushAt: 2})
	for i := range 8 {
		require.NoError(t, client.Track(&analytics.Track{
			Event: name("left", i), UserId: "u", Properties: map[string]any{"text": "üñí \u2028 \"quoted\"", "number": 1.5},
			Message: analytics.Message{MessageId: name("id", i)},
		}))
		if i == 1 {
			require.NoError(t, client.Flush(shortContext(t)))
		}
	}
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir))) // a killed process leaves the files in this state
	require.Error(t, client.Shutdown(endedContext()))
	require.NoError(t, os.CopyFS(closed, os.DirFS(dir)))
}

func TestWriteSpoolFormat(t *testing.T) {
	root := t.TempDir()
	if os.Getenv(formatsEnv) != "" {
		root = spoolFormats
	}
	for _, how := range []string{"-closed", "-killed"} {
		require.NoError(t, os.RemoveAll(filepath.Join(root, spoolFormat+how)))
	}
	leaveFormat(t, filepath.Join(root, spoolFormat+"-closed"), filepath.Join(root, spoolFormat+"-killed"))
	for _, how := range []string{"-closed", "-killed"} {
		require.NoError(t, os.Remove(filepath.Join(root, spoolFormat+how, "lock")))
	}
	requireFormats(t, root)
}

// This version delivers the calls from spools in all formats.
func TestSpoolFormatsAreRead(t *testing.T) {
	requireFormats(t, spoolFormats)
	require.DirExists(t, filepath.Join(spoolFormats, spoolFormat+"-closed"), "a new format: run make formats")
}

// requireFormats checks that a client delivers the calls of each spool below root.
func requireFormats(t *testing.T, root string) {
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, entry.Name()))))
			up := &collector{}
			client := newClient(t, up, analytics.Config{Spool: dir})
			require.NoError(t, client.Close())
			s := client.Stats()
			requireSum(t, s)
			require.Zero(t, s.Dropped.Total())
			require.GreaterOrEqual(t, s.Recovered, int64(6))
			sent := up.taken("messageId")
			for i := 2; i < 8; i++ {
				require.Contains(t, sent, name("id", i))
			}
			require.Empty(t, segments(t, dir))
		})
	}
}
