package journal_test

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
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	journalpkg "github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestServerVersion fails when the server is updated. Two things are known of it that
// it does not promise: what it logs when a write fails (embedded.go), and what its
// blocks look like (check.go). The tests of both should pass with the new version, and
// its file store be read for what they do not show: which failures it logs in other
// words, whether it still syncs a block before it begins another, and whether a message
// is still the last record of its write. Then this test may name the new version.
func TestServerVersion(t *testing.T) {
	const reviewed = "2.15.2"
	if server.VERSION != reviewed {
		t.Errorf("the server has version %s; reviewed is %s", server.VERSION, reviewed)
	}
}

// replaceBlocks has what this process writes to the blocks of a stream go to another
// file. The process that has the blocks open must be this one.
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

// writers write to each of the streams.
var writers = map[string]func(t *testing.T, j *journal.Journal, r journalpkg.Reader, i int) error{
	"analytics-CALLS": func(t *testing.T, j *journal.Journal, _ journalpkg.Reader, i int) error {
		return j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", fmt.Sprint("c", i), 10)})
	},
	"analytics-OUTCOMES": finish(tracking.StateDelivered),
	"analytics-RETRY":    finish(tracking.StatePending),
	"analytics-FAILED":   finish(tracking.StateFailed),
	"analytics-STATE": func(t *testing.T, j *journal.Journal, _ journalpkg.Reader, _ int) error {
		return j.StoreCheckpoint(t.Context())
	},
	"KV_analytics-settings": func(t *testing.T, j *journal.Journal, _ journalpkg.Reader, _ int) error {
		settings, err := j.Settings(t.Context())
		ok(t, err)
		_, revision, err := settings.Get(t.Context(), "settings")
		if err == nil || errors.Is(err, state.ErrNotFound) {
			_, err = settings.Update(t.Context(), "settings", []byte("{}"), revision)
		}
		return err
	},
	"KV_analytics-state": func(t *testing.T, j *journal.Journal, _ journalpkg.Reader, i int) error {
		state, err := j.State(t.Context())
		if err != nil {
			return err
		}
		return state.Put(t.Context(), "key", []byte(strconv.Itoa(i)))
	},
}

// finish ends an entry of one call, of those that fill appended, with one state.
func finish(state tracking.State) func(*testing.T, *journal.Journal, journalpkg.Reader, int) error {
	return func(t *testing.T, _ *journal.Journal, r journalpkg.Reader, _ int) error {
		l, err := r.Next(t.Context(), journalpkg.Want{})
		ok(t, err)
		if len(l.Entry().Calls) > 1 { // of the writer of calls
			l.Return()
			return nil
		}
		return l.Finish(t.Context(), journalpkg.Result{
			RetryAt: time.Now().Add(time.Hour), Outcomes: []tracking.Outcome{{State: state, Reason: "because"}},
		})
	}
}

// TestFailedWriteOfEachStream has a write fail, and the sync after one, of each
// stream. The journal finds out, and goes on with all that it had.
func TestFailedWriteOfEachStream(t *testing.T) {
	for stream, write := range writers {
		for failure, file := range map[string]string{"write": "/dev/full", "sync": "/dev/null"} {
			if stream == "analytics-RETRY" && failure == "sync" {
				continue // it is not synced with each write
			}
			t.Run(stream+" "+failure, func(t *testing.T) {
				dir, log := t.TempDir(), &logged{}
				j := open(t, journal.Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))})
				r := attach(t, j, "d")
				for i := range 200 {
					appendCalls(t, j, "web", fmt.Sprint("one", i), 1)
				}
				for _, w := range writers {
					ok(t, w(t, j, r, 0))
				}
				replaceBlocks(t, dir, stream, file)
				mended := func() bool { return log.count("the store can be written to again") > 0 }
				for deadline := time.Now().Add(patience); !mended(); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the log:\n%s", strings.Join(log.lines, ""))
					}
					if log.count("the store cannot be written to") == 0 {
						_ = write(t, j, r, 1) // RETRY fails with the second one
					}
				}
				for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
					err := write(t, j, r, 2)
					if err == nil {
						break
					}
					if !errors.Is(err, syscall.ENOSPC) || time.Now().After(deadline) { // calls wait for the ballast
						t.Fatal(err)
					}
				}
				for deadline := time.Now().Add(patience); ; { // retries are made again in the background
					all, err := j.Verify(t.Context())
					ok(t, err)
					if all[0].OK() {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("not proved: %+v", all[0])
					}
				}
				before := sums(verified(t, j, "d"))
				ok(t, j.Close())
				j = open(t, journal.Options{Dir: dir})
				wantSums(t, verified(t, j, "d"), before)
			})
		}
	}
}

// TestUnprovedBlocksAreWrittenAnew looks for the blocks that a process may have
// written to last: after a kill they are other files, with the same content, and after
// an orderly stop the same.
func TestUnprovedBlocksAreWrittenAnew(t *testing.T) {
	dir := filled(t)
	file := streamFile(t, dir, "CALLS", "msgs/1.blk")
	inode := func() uint64 {
		info, err := os.Stat(file)
		ok(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	stopped := inode()
	j := open(t, journal.Options{Dir: dir})
	before := sums(verified(t, j, "d"))
	ok(t, j.Close())
	if inode() != stopped {
		t.Error("it was written anew after an orderly stop")
	}
	asKilled(t, dir)
	left := filepath.Join(filepath.Dir(file), ".new.1.blk.123") // of a process that was killed meanwhile
	ok(t, os.WriteFile(left, []byte("half"), 0o600))
	j = open(t, journal.Options{Dir: dir})
	if inode() == stopped {
		t.Error("it was not written anew after a kill")
	}
	wantSums(t, verified(t, j, "d"), before)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what another process has left is still there: %v", err)
	}
}
