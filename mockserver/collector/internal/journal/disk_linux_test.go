package journal_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

// smallDisk mounts a small file system in memory. Only root may.
func smallDisk(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system can be mounted by root only")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a file system cannot be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// logged keeps what is logged.
type logged struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// A trouble is something that can happen to a disk and be mended.
type trouble struct {
	dir  string
	make func()
	mend func()
	full bool // it is one of room
}

// fullDisk has all but so much room taken that a few batches still fit.
func fullDisk(t *testing.T) trouble {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	return trouble{
		dir: dir, full: true,
		make: func() {
			command(t, "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>/dev/null; truncate -s -256k "+ballast)
		},
		mend: func() { ok(t, os.Remove(ballast)) },
	}
}

// readOnlyDisk becomes read-only as ext4 does when it finds an error. It is
// mended by mounting it anew.
func readOnlyDisk(t *testing.T) trouble {
	image, dir := newDisk(t)
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	ok(t, err)
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("a file system cannot be made read-only here: %v", err)
	}
	return trouble{
		dir:  dir,
		make: func() { ok(t, os.WriteFile(trigger, []byte("1"), 0)) },
		mend: func() {
			command(t, "umount", "-l", dir)
			command(t, "cp", "--sparse=always", image, image+".2") // another device, which knows of no error
			command(t, "mount", "-o", "loop", image+".2", dir)
		},
	}
}

// TestTroubleWithTheDisk has a disk fill up, and become read-only, and be mended,
// all under the same process.
func TestTroubleWithTheDisk(t *testing.T) {
	for name, disk := range map[string]func(*testing.T) trouble{"full": fullDisk, "read-only": readOnlyDisk} {
		t.Run(name, func(t *testing.T) {
			disk, log := disk(t), &logged{}
			options := journal.Options{Dir: filepath.Join(disk.dir, "data"), Logger: slog.New(slog.NewTextHandler(log, nil))}
			j := open(t, options)
			r := attach(t, j, "d")
			accepted := 0
			send := func() error {
				calls := journaltest.Calls("web", "m", 100)
				err := j.Append(t.Context(), mockserver.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
				if err == nil {
					accepted += len(calls)
				}
				return err
			}
			for range 10 {
				ok(t, send())
			}
			work(t, r, 500, delivered)

			disk.make()
			refused(t, j, send, disk.full)
			disk.mend()
			for deadline := time.Now().Add(patience); send() != nil; time.Sleep(10 * time.Millisecond) { // as a sender comes again
				if time.Now().After(deadline) {
					t.Fatalf("calls are still refused; the log:\n%s", strings.Join(log.lines, ""))
				}
			}
			ok(t, j.Ready(t.Context()))
			work(t, r, int(ledgerOf(t, j, "d").Pending), delivered)
			l := verified(t, j, "d")
			if l.Delivered < int64(accepted) || l.Pending != 0 {
				t.Errorf("%d calls were accepted: %s", accepted, sums(l))
			}
			for _, line := range []string{"calls are refused until it can", "the store can be written to again"} {
				if log.count(line) != 1 {
					t.Errorf("%q was logged %d times, want once", line, log.count(line))
				}
			}
			ok(t, j.Close())
			wantSums(t, verified(t, open(t, options), "d"), sums(l))
		})
	}
}

// refused sends until calls are refused, and looks how.
func refused(t *testing.T, j *journal.Journal, send func() error, full bool) {
	t.Helper()
	began := time.Now()
	var err error
	for err == nil && time.Since(began) < patience {
		err = send()
	}
	if err == nil {
		t.Fatal("calls are taken that cannot be stored")
	}
	if errors.Is(err, mockserver.ErrJournalFull) != full {
		t.Errorf("refused with: %v", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v to find out", d)
	}
	if err := j.Ready(t.Context()); err == nil {
		t.Error("it says that it is ready")
	}
	began = time.Now()
	if err := send(); err == nil || time.Since(began) > time.Second {
		t.Errorf("the next batch was answered after %v: %v", time.Since(began), err)
	}
}
