package jetstream_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// TestDeletedDirectory deletes or replaces the data directory of an open journal. The journal
// must reject calls and report the reason. Verify must fail immediately.
func TestDeletedDirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows deletes no files that are open")
	}
	deleted := func(t *testing.T, dir string) {
		ok(t, os.Rename(dir, dir+"-gone")) // RemoveAll fails while the server creates files
		ok(t, os.RemoveAll(dir+"-gone"))
	}
	for name, c := range map[string]struct {
		sync time.Duration
		do   func(t *testing.T, dir string)
	}{
		"deleted":           {0, deleted},
		"deleted, lazy":     {time.Second, deleted},
		"streams deleted":   {0, func(t *testing.T, dir string) { deleted(t, filepath.Join(dir, "jetstream")) }},
		"replaced":          {0, func(t *testing.T, dir string) { deleted(t, dir); ok(t, os.Mkdir(dir, 0o700)) }},
		"replaced, lazy":    {time.Second, func(t *testing.T, dir string) { deleted(t, dir); ok(t, os.Mkdir(dir, 0o700)) }},
		"another's, synced": {0, func(t *testing.T, dir string) { deleted(t, dir); open(t, jetstream.Options{Dir: dir}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, log := filepath.Join(t.TempDir(), "data"), newLog(t)
			j := open(t, jetstream.Options{Dir: dir, SyncInterval: c.sync, Logger: slog.New(slog.NewTextHandler(log, nil))})
			attach(t, j, "d")
			appendCalls(t, j, "web", "before", 10)
			c.do(t, dir)
			send := func() error {
				return j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: noise("after", 1, 200)})
			}
			await(t, "calls are refused", func() bool { return send() != nil })
			const said = "stop the collector"
			await(t, "the reason is reported", func() bool {
				err := j.Ready(within(t))
				return err != nil && strings.Contains(err.Error(), said)
			})
			if _, err := j.Verify(within(t)); err == nil || !strings.Contains(err.Error(), said) {
				t.Errorf("verifying: %v", err)
			}
			if log.count(said) == 0 {
				t.Errorf("the log does not contain the reason:\n%s", log.text())
			}
			before := tree(t, dir)
			ok(t, j.Close())
			if after := tree(t, dir); after != before {
				t.Errorf("Close has changed %s to %s", before, after)
			}
		})
	}
}

// tree lists the files of a directory. It returns an empty list if the directory does not exist.
func tree(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestMovedDirectory moves the data directory of an open journal away and back. The journal must
// then continue.
func TestMovedDirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows moves no files that are open")
	}
	dir := filepath.Join(t.TempDir(), "data")
	j := open(t, jetstream.Options{Dir: dir})
	attach(t, j, "d")
	appendCalls(t, j, "web", "before", 10)
	ok(t, os.Rename(dir, dir+"2"))
	await(t, "unready", func() bool { return j.Ready(within(t)) != nil })
	ok(t, os.Rename(dir+"2", dir))
	await(t, "ready", func() bool { return j.Ready(within(t)) == nil })
	appendCalls(t, j, "web", "after", 10)
	if l := verified(t, j, "d"); l.Pending != 20 {
		t.Errorf("%d calls are pending, want 20", l.Pending)
	}
}
