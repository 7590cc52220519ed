package disk_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("NEMESIS_TEST_DISK"); dir != "" {
		_, err := disk.New(disk.Options{Dir: dir})
		fmt.Println("made", err)
		select {} // wait until the process is killed
	}
	os.Exit(m.Run())
}

// onEach runs a test once for each type of file system.
func onEach(t *testing.T, test func(t *testing.T, d *disk.Disk)) {
	t.Helper()
	if err := disk.Supported(); err != nil {
		t.Skip(err)
	}
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) {
			d, err := disk.New(disk.Options{Dir: t.TempDir(), FS: fs, Seed: 1})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, d.Close()) })
			test(t, d)
		})
	}
}

func create(t *testing.T, d *disk.Disk, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(d.Path(), name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func syncDir(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func TestPowerCutKeepsSyncedData(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		syncDir(t, d.Path())
		synced, later := bytes.Repeat([]byte("synced.."), 10000), bytes.Repeat([]byte("later..."), 10000)
		_, err := f.Write(synced)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		_, err = f.Write(later)
		require.NoError(t, err)

		require.NoError(t, d.PowerCut(disk.LoseAll))
		got, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		assert.Equal(t, synced, got)
		_, err = f.Write([]byte("x"))
		assert.NoError(t, err, "the write goes to the old cache")
		assert.Error(t, f.Sync(), "the old cache is no longer connected to a disk")

		f = create(t, d, "second")
		_, err = f.Write(later)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		syncDir(t, d.Path())
		require.NoError(t, d.PowerCut(disk.LoseSeeded))
		got, err = os.ReadFile(f.Name())
		require.NoError(t, err)
		assert.Equal(t, later, got)
	})
}

func TestFailedWriteFailsSync(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		d.Fail(disk.Fault{Op: disk.Write, Ranges: d.Data(), Count: 1})
		_, err := f.Write(make([]byte, 100))
		require.NoError(t, err)
		assert.ErrorIs(t, f.Sync(), syscall.EIO)
		_, err = f.Write(make([]byte, 100))
		require.NoError(t, err, "the file system still works")
		assert.NoError(t, f.Sync())
	})
}

func TestFailedFlushFailsSync(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		_, err := f.Write(make([]byte, 100))
		require.NoError(t, err)
		d.Fail(disk.Fault{Op: disk.Sync})
		assert.Error(t, f.Sync())
		d.Heal()
		require.NoError(t, d.PowerCut(disk.LoseSeeded))
	})
}

func TestFailedRead(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		_, err := f.Write([]byte("text"))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, d.DropCache())
		d.Fail(disk.Fault{Op: disk.Read, Ranges: d.Data()})
		_, err = os.ReadFile(f.Name())
		assert.ErrorIs(t, err, syscall.EIO)
		d.Heal()
		text, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		assert.Equal(t, "text", string(text))
	})
}

func TestFullDisk(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		require.NoError(t, d.Fill(0))
		_, err := f.Write(make([]byte, 1<<20))
		assert.ErrorIs(t, err, syscall.ENOSPC)
		require.NoError(t, d.Empty())
		_, err = f.Write(make([]byte, 1<<20))
		assert.NoError(t, err)
	})
}

func TestReadOnlyDisk(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		f := create(t, d, "file")
		require.NoError(t, f.Sync())
		require.NoError(t, d.ReadOnly())
		_, err := f.Write(make([]byte, 100))
		if err == nil {
			err = f.Sync()
		}
		assert.Error(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, d.Remount())
		_ = create(t, d, "other")
	})
}

// TestDisksOfEndedProcesses ends processes that use a disk, and checks that the disk is removed. A
// stopped process is like a killed one that cannot exit: its files stay open, but it does not serve
// the disk.
func TestDisksOfEndedProcesses(t *testing.T) {
	if err := disk.Supported(); err != nil {
		t.Skip(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "NEMESIS_TEST_DISK="+dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			output, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "made <nil>\n", output)
			require.Contains(t, mounts(t), dir+"/mnt")
			require.NoError(t, cmd.Process.Signal(signal))
			for deadline := time.Now().Add(time.Minute); strings.Contains(mounts(t), dir); time.Sleep(10 * time.Millisecond) {
				require.False(t, time.Now().After(deadline), "the disk is still mounted:\n%s", mounts(t))
			}
		})
	}
}

// TestCommands runs the commands that Usage describes.
func TestCommands(t *testing.T) {
	onEach(t, func(t *testing.T, d *disk.Disk) {
		socket := filepath.Join(t.TempDir(), "socket")
		l, err := net.Listen("unix", socket)
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- d.Listen(l) }()
		tell := func(command string) string {
			output, err := disk.Send(socket, command)
			require.NoError(t, err, command)
			return output
		}
		f := create(t, d, "file")
		_, err = f.Write([]byte("text"))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		syncDir(t, d.Path())

		tell("drop-cache")
		tell("fail read " + f.Name())
		_, err = os.ReadFile(f.Name())
		assert.ErrorIs(t, err, syscall.EIO)
		tell("heal")
		tell("fail sync skip=0 count=1")
		assert.Error(t, f.Sync())
		tell("unplug")
		assert.Error(t, f.Sync())
		tell("cut")
		tell("fail write data count=1 tear")
		tell("heal")
		tell("cut none")
		text, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		assert.Equal(t, "text", string(text))
		tell("fill")
		tell("empty")
		tell("read-only")
		tell("remount")
		assert.Contains(t, tell("stats"), "Syncs:")
		for command, problem := range map[string]string{"": "no command", "repair": `unknown command "repair"`, "fail write log count=x": "count=x", "fail read /nowhere": "nowhere", "cut twice": "twice"} {
			_, err := disk.Send(socket, command)
			assert.ErrorContains(t, err, problem)
		}
		assert.Equal(t, "closed", tell("close"))
		assert.NoError(t, <-done)
	})
}

func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	return string(text)
}
