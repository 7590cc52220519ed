package jetstream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestServerVersion fails when the server is updated. The code depends on two undocumented
// properties of the server: its log messages after a failed write (embedded.go), and the format of
// its blocks (check.go). Before you change the version here, run the tests of both files. In the
// source of the server's file store, check three properties: it logs failed writes, it syncs a block
// before it starts another one, and a message is the last record of its write.
func TestServerVersion(t *testing.T) {
	const reviewed = "2.15.2"
	if server.VERSION != reviewed {
		t.Errorf("the server has version %s; reviewed is %s", server.VERSION, reviewed)
	}
}

// replaceBlocks redirects the writes of this process to another file. It affects the blocks of a
// stream, which this process must have open.
func replaceBlocks(t *testing.T, dir, stream, with string) {
	t.Helper()
	other, err := os.OpenFile(with, os.O_RDWR, 0)
	ok(t, err)
	defer func() { _ = other.Close() }()
	links, err := filepath.Glob("/proc/self/fd/*")
	ok(t, err)
	replaced := 0
	for _, link := range links {
		file, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(file, dir) || !strings.HasSuffix(file, ".blk") || filepath.Base(filepath.Dir(filepath.Dir(file))) != stream {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(link))
		ok(t, err)
		ok(t, syscall.Dup3(int(other.Fd()), fd, syscall.O_CLOEXEC))
		replaced++
	}
	if replaced == 0 {
		t.Fatalf("no block of %s is open", stream)
	}
}

// writers contains a function for each stream that writes to the stream.
var writers = map[string]func(t *testing.T, j *jetstream.Journal, r journal.Reader, i int) error{
	"analytics-CALLS":    writeCalls,
	"analytics-OUTCOMES": finish(tracking.StateDelivered),
	"analytics-RETRY":    finish(tracking.StatePending),
	"analytics-FAILED":   finish(tracking.StateFailed),
	"analytics-STATE": func(t *testing.T, j *jetstream.Journal, _ journal.Reader, _ int) error {
		return j.StoreCheckpoint(within(t))
	},
	"KV_analytics-settings": func(t *testing.T, j *jetstream.Journal, _ journal.Reader, _ int) error {
		settings := j.Settings()
		_, revision, err := settings.Get(within(t), "settings")
		if err == nil || errors.Is(err, state.ErrNotFound) {
			_, err = settings.Update(within(t), "settings", []byte("{}"), revision)
		}
		return err
	},
	"KV_analytics-state": func(t *testing.T, j *jetstream.Journal, _ journal.Reader, i int) error {
		return j.State().Put(within(t), "key", []byte(strconv.Itoa(i)))
	},
}

func writeCalls(t *testing.T, j *jetstream.Journal, _ journal.Reader, i int) error {
	return j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", fmt.Sprint("c", i), 10)})
}

// finish returns a function that finishes an entry with the same state for all its calls.
func finish(state tracking.State) func(*testing.T, *jetstream.Journal, journal.Reader, int) error {
	return func(t *testing.T, j *jetstream.Journal, r journal.Reader, i int) error {
		_ = writeCalls(t, j, r, i) // at least one call is waiting already; the journal may reject more
		l := next(t, r)
		result := all(l.Entry(), state)
		result.RetryAt = time.Now().Add(time.Hour)
		return l.Finish(within(t), result)
	}
}

// TestFailedWriteOfEachStream fails a write, and the following sync, of each stream. The journal
// must detect this and continue with all its data.
func TestFailedWriteOfEachStream(t *testing.T) {
	for stream, write := range writers {
		for failure, file := range map[string]string{"write": "/dev/full", "sync": "/dev/null"} {
			if stream == "analytics-RETRY" && failure == "sync" {
				continue // this stream is not synced with each write
			}
			t.Run(stream+" "+failure, func(t *testing.T) {
				dir, log := t.TempDir(), newLog(t)
				j := open(t, jetstream.Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))})
				r := attach(t, j, "d")
				for i := range 20 { // all writes may succeed before the failure is detected
					appendCalls(t, j, "web", fmt.Sprint("one", i), 1)
				}
				for _, w := range writers {
					ok(t, w(t, j, r, 0))
				}
				replaceBlocks(t, dir, stream, file)
				await(t, "mended", func() bool {
					if log.count("the store is not writable") == 0 {
						_ = write(t, j, r, 1) // RETRY fails with the second write
					}
					return log.count("the store is writable again") > 0
				})
				await(t, "written", func() bool {
					err := write(t, j, r, 2)
					if err != nil && !errors.Is(err, syscall.ENOSPC) { // calls are rejected until the ballast is reserved
						t.Fatal(err)
					}
					return err == nil
				})
				await(t, "proved", func() bool { // retries are restored in the background
					all, err := j.Verify(within(t))
					ok(t, err)
					return all[0].OK()
				})
				before := sums(verified(t, j, "d"))
				ok(t, j.Close())
				j = open(t, jetstream.Options{Dir: dir})
				wantSums(t, verified(t, j, "d"), before)
			})
		}
	}
}

// TestUnsyncedBlocksAreRewritten checks that the last blocks are replaced by copies after a
// kill, and kept after a clean stop.
func TestUnsyncedBlocksAreRewritten(t *testing.T) {
	dir := filled(t)
	file := streamFile(t, dir, "CALLS", "msgs/1.blk")
	inode := func() uint64 {
		info, err := os.Stat(file)
		ok(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	stopped := inode()
	j := open(t, jetstream.Options{Dir: dir})
	before := sums(verified(t, j, "d"))
	ok(t, j.Close())
	if inode() != stopped {
		t.Error("the block was rewritten after a clean stop")
	}
	asKilled(t, dir)
	left := filepath.Join(filepath.Dir(file), ".new.1.blk.123") // a killed process can leave such a file
	ok(t, os.WriteFile(left, []byte("half"), 0o600))
	j = open(t, jetstream.Options{Dir: dir})
	if inode() == stopped {
		t.Error("the block was not rewritten after a kill")
	}
	wantSums(t, verified(t, j, "d"), before)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file still exists: %v", err)
	}
}
