package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// onTmpfsArg makes this binary mount a small file system and run the collector on that file
// system.
const onTmpfsArg = "run-on-tmpfs"

func init() { parts[onTmpfsArg] = runOnTmpfs }

// runOnTmpfs is the main function for onTmpfsArg. Its arguments are a directory, a size and a
// command.
func runOnTmpfs(args []string) {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", args[0], "tmpfs", 0, "mode=700,size="+args[1])
	}
	if err == nil {
		err = syscall.Exec(args[2], args[2:], append(os.Environ(), asCollector+"=1"))
	}
	fmt.Fprintln(os.Stderr, noTmpfs, err)
	os.Exit(1)
}

// noTmpfs is the message that runOnTmpfs prints if it may not mount a file system.
const noTmpfs = "no file system can be mounted here:"

// onTmpfs makes a collector run on a file system of limited size. The collector's user is root
// in its own namespace, but unprivileged outside.
func onTmpfs(dir string, size int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		self, err := os.Executable()
		if err != nil {
			cmd.Err = err
			return
		}
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return v == asCollector+"=1" }) // runOnTmpfs sets it after the mount
		cmd.Args = append([]string{self, onTmpfsArg, dir, strconv.Itoa(size), cmd.Path}, cmd.Args[1:]...)
		cmd.Path = self
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

// canMount reports whether this process may mount file systems.
func canMount(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	onTmpfs(t.TempDir(), 1<<20)(cmd)
	return cmd.Run() == nil
}

// TestFullDisk fills the disk under load. The collector rejects calls with 503 until there is
// space again, and loses no accepted call.
func TestFullDisk(t *testing.T) {
	if !canMount(t) {
		t.Skip("this needs a file system of its own, which is not allowed here")
	}
	t.Parallel()
	hook := harness.NewReceiver()
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	path, address := configure(t, dir, "data: data", destination("hook", hook.URL))
	c := serve(t, path, address, onTmpfs(data, 64<<20))
	filler := filepath.Join("/proc", strconv.Itoa(c.Pid()), "root", data, "filler")

	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 50, Rate: 2000}
	stop := send(t, load)
	progress(t, load, hook)

	fill(t, filler)
	waitFor(t, time.Minute, "calls are refused", func() bool { return load.Refused.Load() > 5 })
	refused := post(t, c.URL)
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	assert.NotEmpty(t, refused.Header.Get("Retry-After"))
	assert.False(t, c.Ready(), "readiness tells the truth")
	assert.Contains(t, c.Log(), "no space left on device")

	require.NoError(t, os.Remove(filler))
	waitFor(t, time.Minute, "it is ready again", c.Ready)
	progress(t, load, hook)
	stop()
	wantAll(t, load, hook, settled(t, c)["hook"], 0)
	verify(t, c)
	assert.Positive(t, load.Refused.Load())
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	zeros := make([]byte, 64<<10)
	for {
		if _, err = f.Write(zeros); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// post sends one call and returns the response.
func post(t *testing.T, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track", strings.NewReader(`{"event":"E","userId":"u"}`))
	require.NoError(t, err)
	req.SetBasicAuth(writeKey, "")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(t, res.Body.Close())
	return res
}

// asNobody makes a collector run as the owner of dir. Unlike root, this user has no write
// permission in read-only directories.
func asNobody(t *testing.T, dir string) func(*exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	own := filepath.Join(dir, "collector")   // the user cannot read the directory of binary
	require.NoError(t, os.Link(binary, own)) // a copy could be open for writing in a process that another test starts
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, nobody))
	}))
	return func(cmd *exec.Cmd) {
		cmd.Path = own
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// chmodAll sets the mode of a directory and its subdirectories.
func chmodAll(t *testing.T, dir string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir {
			return os.Chmod(path, mode)
		}
		return err
	}))
	require.NoError(t, os.Chmod(dir, mode))
}

// TestReadOnlyDirectory revokes and restores the write permission of a running collector.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	hook := harness.NewReceiver()
	t.Cleanup(hook.Close)
	dir, err := os.MkdirTemp("", "collector-e2e") // readable by all users, unlike t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	path, address := configure(t, dir, "data: data\nlimits: {queue: 1GB}", destination("hook", hook.URL))
	prepare := asNobody(t, dir)

	chmodAll(t, data, 0o500)
	_, err = start(path, address, prepare)
	require.Error(t, err, "it does not start")
	assert.Contains(t, err.Error(), "permission denied")
	assert.Contains(t, err.Error(), data)

	chmodAll(t, data, 0o700)
	c := serve(t, path, address, prepare)
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 16, CallSize: 30_000, Noise: true, Rate: 600}
	stop := send(t, load)
	progress(t, load, hook)
	chmodAll(t, data, 0o500)
	// The collector keeps accepting calls until it needs to create a file.
	waitFor(t, time.Minute, "calls are refused", func() bool { return load.Refused.Load() > 5 })
	assert.False(t, c.Ready(), "readiness tells the truth")
	// If a stream has no files left, its server reports a different error.
	assert.Regexp(t, "permission denied|lmb missing", c.Log())
	chmodAll(t, data, 0o700)
	waitFor(t, time.Minute, "it is ready again", c.Ready)
	progress(t, load, hook)
	stop()
	wantAll(t, load, hook, settled(t, c)["hook"], 0)
	verify(t, c)
}
