package jetstream_test

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// A badDisk is an ext4 file system on a loop device, with a sparse file on a tmpfs. While the
// tmpfs is full, writes to new blocks fail after write(2) has returned. The blocks of the file
// system itself are already allocated.
type badDisk struct {
	t      testing.TB
	image  string
	dir    string // mount point
	filler string
}

// newBadDisk creates and mounts a disk; it requires root.
func newBadDisk(t testing.TB) *badDisk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system requires root")
	}
	back := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", back).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file system: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", back).Run() })
	d := &badDisk{t: t, image: filepath.Join(back, "image"), filler: filepath.Join(back, "filler")}
	command(t, "truncate", "-s", "256M", d.image)
	command(t, "mkfs.ext4", "-q", "-F", "-O", "^resize_inode", "-E", "packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0,nodiscard", d.image)
	command(t, "fallocate", "-l", "32M", d.image)
	d.dir = mount(t, d.image)
	return d
}

// fail makes writes to new blocks fail. It syncs first, because the file system would become
// read-only if one of its delayed writes failed.
func (d *badDisk) fail() {
	_ = exec.Command("sync", "--file-system", d.dir).Run() // reports earlier failures
	f, err := os.Create(d.filler)
	ok(d.t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
	ok(d.t, f.Close())
}

func (d *badDisk) heal() { ok(d.t, os.Remove(d.filler)) }

// cutPower mounts a copy of the disk's current content.
func (d *badDisk) cutPower() (dir string) {
	after := filepath.Join(d.t.TempDir(), "disk")
	command(d.t, "cp", "--sparse=always", d.image, after)
	return mount(d.t, after)
}

// TestFailedWritesLoseNothing makes disk writes fail several times. All calls that are accepted
// afterwards must survive a power cut, and a clean stop with an empty page cache.
func TestFailedWritesLoseNothing(t *testing.T) {
	t.Parallel()
	for _, orderly := range []bool{false, true} {
		t.Run(fmt.Sprintf("clean stop %v", orderly), func(t *testing.T) {
			t.Parallel()
			d, log := newBadDisk(t), newLog(t)
			data := filepath.Join(d.dir, "data")
			j := open(t, jetstream.Options{Dir: data, Logger: slog.New(slog.NewTextHandler(log, nil))})
			s := newSender(j)
			for range 10 {
				ok(t, s.send(t))
			}
			rounds := 3
			if testing.Short() {
				rounds = 1
			}
			for range rounds {
				d.fail()
				_ = s.fill(t) // allocate some blocks
				d.heal()
				s.resume(t)
				for range 3 {
					ok(t, s.send(t))
				}
			}
			if orderly {
				ok(t, j.Close())
				command(t, "umount", d.dir)
			}
			j = open(t, jetstream.Options{Dir: filepath.Join(d.cutPower(), "data")})
			ok(t, j.Seen(within(t), time.Time{}, 1<<20, func(_ string, ids iter.Seq[string]) bool {
				for id := range ids {
					delete(s.accepted, id)
				}
				return true
			}))
			if len(s.accepted) > 0 {
				t.Errorf("%d accepted calls are lost", len(s.accepted))
			}
		})
	}
}

// TestKillAfterFailedWritesLosesNothing kills a process after failed writes. At that time, the
// page cache contains data that is not on disk.
func TestKillAfterFailedWritesLosesNothing(t *testing.T) {
	t.Parallel()
	d, tally := newBadDisk(t), newTally(t)
	config := childConfig{Options: jetstream.Options{Dir: filepath.Join(d.dir, "data")}, Senders: 4, Batch: 100, Rate: 2 * time.Millisecond, Slow: time.Millisecond}
	for i := range 2 {
		config.Name = fmt.Sprint("k", i)
		p := startChild(t, tally, config)
		time.AfterFunc(300*time.Millisecond, d.fail)
		if !p.until("refused") {
			t.Fatal("the child exited before a call was refused")
		}
		p.killAfter(0)
		d.heal()
	}
	config.Name = "cut"
	image := startChild(t, tally, config).cutAfter(t, 500*time.Millisecond, d.image)
	config.Name, config.Options.Dir = "last", filepath.Join(mount(t, image), "data")
	startChild(t, tally, config).stop(t)
	t.Logf("%d calls accepted, %d repeats", len(tally.accepted), tally.check(t))
}
