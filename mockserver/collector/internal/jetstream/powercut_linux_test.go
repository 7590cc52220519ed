package jetstream_test

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// Power cuts are simulated with ext4 on a loop device. Data that was written but not synced is in
// the kernel's memory and not in the device's file. While the process is stopped, the test copies
// that file. The copy represents the disk after the power cut, and mounting it replays the journal
// of ext4. By default, the kernel would write unsynced metadata after 5 seconds and unsynced data
// after 30 seconds. The mount option commit and the short test prevent this. The copy therefore
// contains only synced data, and writes that the file system made together with synced data.

// newDisk creates and mounts a disk image. It requires root.
func newDisk(t testing.TB) (image, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system requires root")
	}
	for _, program := range []string{"mkfs.ext4", "mount", "losetup"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	image = filepath.Join(t.TempDir(), "disk")
	command(t, "truncate", "-s", "512M", image)
	command(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	return image, mount(t, image)
}

func mount(t testing.TB, image string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop,commit=300,errors=remount-ro", image, dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a loop device: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// cutAfter stops the child, copies the disk, and kills the child.
func (p *process) cutAfter(t testing.TB, d time.Duration, image string) (after string) {
	t.Helper()
	after = filepath.Join(t.TempDir(), "disk")
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(d) // until a random moment
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		for deadline := time.Now().Add(patience); !isStopped(p.cmd.Process.Pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("the child does not stop")
				break
			}
		}
		if out, err := exec.Command("cp", "--sparse=always", image, after).CombinedOutput(); err != nil {
			t.Errorf("copying the disk: %s", out)
		}
		_ = p.cmd.Process.Kill()
	}()
	p.until("")
	<-done
	_ = p.cmd.Wait()
	return after
}

// isStopped reports whether no thread of a process is running or in a system call.
func isStopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return len(stats) > 0
}

// TestPowerCutsLoseNothing cuts the power under load. JOURNAL_CUTS=10 selects the full length.
func TestPowerCutsLoseNothing(t *testing.T) {
	t.Parallel()
	cuts := times("JOURNAL_CUTS", 1)
	random := rand.New(rand.NewSource(int64(cuts)))
	image, dir := newDisk(t)
	tally := newTally(t)
	config := childConfig{Options: jetstream.Options{Dir: filepath.Join(dir, "data")}, Senders: 4, Batch: 10, Rate: 2 * time.Millisecond, Slow: time.Millisecond}
	for i := range cuts {
		config.Name = fmt.Sprint("p", i)
		image = startChild(t, tally, config).cutAfter(t, time.Duration(500+random.Intn(1000))*time.Millisecond, image)
		config.Options.Dir = filepath.Join(mount(t, image), "data")
	}
	config.Name = "last"
	startChild(t, tally, config).stop(t)
	t.Logf("%d calls accepted, %d power cuts, %d repeats", len(tally.accepted), cuts, tally.check(t))
}

// TestPowerCutsWithoutSync checks power cuts with a sync interval. Calls may be lost, but the
// journal must open, the ledger must be correct, and the remaining calls must be delivered.
func TestPowerCutsWithoutSync(t *testing.T) {
	t.Parallel()
	image, dir := newDisk(t)
	tally := newTally(t)
	const interval = 500 * time.Millisecond // a race in the server occurs if its timer expires during the start
	config := childConfig{
		Name:    "before",
		Options: jetstream.Options{Dir: filepath.Join(dir, "data"), SyncInterval: interval},
		Senders: 4, Batch: 10, Rate: 2 * time.Millisecond, Slow: time.Millisecond,
	}
	image = startChild(t, tally, config).cutAfter(t, 1500*time.Millisecond, image)
	config.Name, config.Options.Dir = "after", filepath.Join(mount(t, image), "data")
	p := startChild(t, tally, config)
	p.stop(t)
	lost := 0
	for id := range tally.accepted {
		if tally.delivered[good][id] == 0 {
			if strings.HasPrefix(id, "after") {
				t.Errorf("%s was accepted after the cut and never delivered", id)
			}
			lost++
		}
	}
	t.Logf("%d of %d accepted calls were lost", lost, len(tally.accepted))
}
