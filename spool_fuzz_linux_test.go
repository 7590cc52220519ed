package analytics_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// FuzzSpoolDirectory opens spools in directories with arbitrary contents. Each byte of plan creates
// an entry, such as a file, a directory or a link. content is the content of the files. The client
// accepts all calls and accounts for them. It changes nothing outside of the directory.
func FuzzSpoolDirectory(f *testing.F) {
	dir := f.TempDir()
	client, err := analytics.NewWithConfig("write-key-0123456789", analytics.Config{Spool: dir, Logger: log.New(io.Discard, "", 0)})
	require.NoError(f, err)
	track(f, client, "left", 5)
	require.Error(f, client.Shutdown(endedContext()))
	segment, err := os.ReadFile(segments(f, dir)[0])
	require.NoError(f, err)
	for _, plan := range []string{"", "\x00\x01\x02", "\x03\x04\x05\x06\x07\x08", "\x10\x21\x32\x43\x54\x65\x76\x87\x98", "\x28\x30\x18"} {
		f.Add([]byte(plan), segment)
		f.Add([]byte(plan), segment[:len(segment)/2])
		f.Add([]byte(plan), append(segment[:len(segment):len(segment)], segment...))
	}
	f.Fuzz(func(t *testing.T, plan, content []byte) {
		dir := t.TempDir()
		outside := filepath.Join(t.TempDir(), "outside")
		require.NoError(t, os.WriteFile(outside, content, 0o600))
		for i, kind := range plan[:min(len(plan), 20)] {
			makeStrangeFile(t, dir, i, kind, content, outside)
		}
		up := &collector{}
		client := newClient(t, up, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, FlushAt: 3, Logger: log.New(io.Discard, "", 0)})
		track(t, client, "new", 4)
		_ = client.Close() // Close may report the corruption
		s := client.Stats()
		requireSum(t, s)
		require.Zero(t, s.Pending)
		for i := range 4 {
			require.Equal(t, 1, up.taken("event")[name("new", i)])
		}
		text, err := os.ReadFile(outside)
		require.NoError(t, err)
		require.Equal(t, content, text)
	})
}

// makeStrangeFile creates an entry in a spool directory. kind selects its name and type.
func makeStrangeFile(t *testing.T, dir string, i int, kind byte, content []byte, outside string) {
	path := filepath.Join(dir, []string{
		fmt.Sprintf("%016x.calls", i), fmt.Sprintf("%016X.calls", i+10), "ffffffffffffffff.calls",
		fmt.Sprintf("%016x.spare", i), fmt.Sprintf("%d.calls", i), "7fffffffffffffff.calls",
	}[int(kind>>4)%6])
	if _, err := os.Lstat(path); err == nil {
		return
	}
	var err error
	switch kind & 15 {
	case 0:
		err = os.Mkdir(path, 0o700)
	case 1:
		err = syscall.Mkfifo(path, 0o600)
	case 2:
		err = os.Symlink(outside, path)
	case 3:
		err = os.Symlink(path, path)
	case 4:
		err = os.WriteFile(path, content, 0o000)
	case 5:
		err = os.Mkdir(path, 0o000)
	case 6, 7:
		if err = os.WriteFile(path, content, 0o600); err == nil {
			err = os.Truncate(path, []int64{100 << 20, 8 << 40}[kind&1])
		}
	default:
		err = os.WriteFile(path, content, 0o600)
	}
	_ = err // ignored, because some file systems do not support files of this size
}
