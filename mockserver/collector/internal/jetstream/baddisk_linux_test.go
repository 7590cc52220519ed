package jetstream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// A badDisk is ext4 on a loop device whose file has holes, on a tmpfs: while the
// tmpfs is full, what is written to a block that was never written before fails,
// after write(2) has returned. The blocks of the file system itself are all there.
type badDisk struct {
	t      testing.TB
	image  string
	dir    string // where it is mounted
	filler string
}

// newBadDisk makes and mounts one. Only root may.
func newBadDisk(t testing.TB) *badDisk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system can be mounted by root only")
	}
	back := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", back).CombinedOutput(); err != nil {
		t.Skipf("a file system cannot be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", back).Run() })
	d := &badDisk{t: t, image: filepath.Join(back, "image"), filler: filepath.Join(back, "filler")}
	command(t, "truncate", "-s", "256M", d.image)
	command(t, "mkfs.ext4", "-q", "-F", "-O", "^resize_inode", "-E", "packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0,nodiscard", d.image)
	command(t, "fallocate", "-l", "32M", d.image)
	d.dir = mount(t, d.image)
	return d
}

// fail has blocks fail that were never written. All of the file system's own have been by
// now: it would turn read-only when one of them fails, which the kernel writes at some time.
func (d *badDisk) fail() {
	_ = exec.Command("sync", "--file-system", d.dir).Run() // it says what failed before
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

// cutPower mounts what is on the disk now, elsewhere.
func (d *badDisk) cutPower() (dir string) {
	after := filepath.Join(d.t.TempDir(), "disk")
	command(d.t, "cp", "--sparse=always", d.image, after)
	return mount(d.t, after)
}

// TestFailedWritesLoseNothing has the disk fail writes a few times. What is answered
// once it works again must be there after a power cut, and after an orderly stop
// when the system has nothing of it in memory.
func TestFailedWritesLoseNothing(t *testing.T) {
	t.Parallel()
	for _, orderly := range []bool{false, true} {
		t.Run(fmt.Sprintf("orderly stop %v", orderly), func(t *testing.T) {
			t.Parallel()
			d, log := newBadDisk(t), newLog(t)
			data := filepath.Join(d.dir, "data")
			j := open(t, jetstream.Options{Dir: data, Logger: slog.New(slog.NewTextHandler(log, nil))})
			s := newSender(j)
			for range 10 {
				ok(t, s.send(t))
			}
			for range 3 {
				d.fail()
				_ = s.fill(t) // some blocks are there already
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
			ok(t, j.Seen(within(t), 1<<20, func(_, id string, _ time.Time) bool {
				delete(s.accepted, id)
				return true
			}))
			if len(s.accepted) > 0 {
				t.Errorf("%d accepted calls are lost", len(s.accepted))
			}
		})
	}
}

// TestKillAfterFailedWritesLosesNothing kills a process whose writes have failed. The
// system shows the next one what the disk does not have.
func TestKillAfterFailedWritesLosesNothing(t *testing.T) {
	t.Parallel()
	d, tally := newBadDisk(t), newTally(t)
	config := childConfig{Options: jetstream.Options{Dir: filepath.Join(d.dir, "data")}, Senders: 4, Batch: 400, Rate: 2 * time.Millisecond, Slow: time.Millisecond}
	for i := range 2 {
		config.Name = fmt.Sprint("k", i)
		p := startChild(t, tally, config)
		time.AfterFunc(300*time.Millisecond, d.fail)
		if !p.until("refused") {
			t.Fatal("the child ended before a call was refused")
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
