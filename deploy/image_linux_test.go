package deploy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// builder runs buildah with a separate image store. It needs no daemon, network or base image.
type builder struct {
	t    *testing.T
	args []string
}

func newBuilder(t *testing.T) *builder {
	needs(t, "buildah", "REQUIRE_BUILDAH")
	needsMounts(t)
	dir := t.TempDir()
	return &builder{t, []string{"--root", filepath.Join(dir, "images"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}}
}

func (b *builder) do(args ...string) string {
	b.t.Helper()
	return strings.TrimSpace(do(b.t, "buildah", slices.Concat(b.args, args)...))
}

// image builds the image with the binary that program returns.
func (b *builder) image() string {
	t := b.t
	t.Helper()
	files := t.TempDir()
	for _, dir := range []string{"data", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(files, dir), 0o755))
	}
	require.NoError(t, os.Link(program(t), filepath.Join(files, "collector")))
	authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		authorities = []byte("# this machine has none\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(files, "ca-certificates.crt"), authorities, 0o644))
	b.do("bud", "--quiet", "--isolation", "chroot", "--format", "docker", "--target", "prebuilt",
		"--build-arg", "VERSION="+version, "--build-arg", "REVISION=abc", "--file", "Dockerfile", "--tag", "collector", files)
	return "localhost/collector"
}

// dockerImage is the configuration of an image.
type dockerImage struct {
	Config struct {
		User            string
		Entrypoint, Cmd []string
		Env             []string
		Labels          map[string]string
		Volumes         map[string]any
		Healthcheck     struct{ Test []string }
	} `json:"config"`
}

func (b *builder) inspect(image string) dockerImage {
	b.t.Helper()
	var about struct{ Docker dockerImage }
	require.NoError(b.t, json.Unmarshal([]byte(b.do("inspect", "--type", "image", image)), &about))
	return about.Docker
}

// container runs an image in the same way as Docker, with a directory as its volume.
type container struct {
	b        *builder
	name     string
	volume   string
	metadata dockerImage
	env      []string
}

func (b *builder) from(image, volume string, env ...string) *container {
	c := &container{b, b.do("from", image), volume, b.inspect(image), env}
	b.t.Cleanup(func() {
		_ = exec.Command("buildah", slices.Concat(b.args, []string{"rm", c.name})...).Run() //nolint:usetesting // the test's context is done
	})
	return c
}

// command returns the buildah arguments that run a command in the container.
func (c *container) command(args ...string) []string {
	run := slices.Concat(c.b.args, []string{"run", "--isolation", "chroot", "--volume", c.volume + ":/data"})
	for _, v := range c.env {
		run = append(run, "--env", v)
	}
	return slices.Concat(run, []string{c.name, "--"}, args)
}

// start runs the entrypoint of the image with additional arguments.
func (c *container) start(args ...string) *harness.Process {
	c.b.t.Helper()
	p, err := harness.Start("buildah", c.command(slices.Concat(c.metadata.Config.Entrypoint, args)...), nil)
	require.NoError(c.b.t, err)
	c.b.t.Cleanup(func() {
		if pid := programOf(p.Pid()); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		p.Kill()
	})
	return p
}

// programOf returns the PID of the descendant of pid that runs the image's program, or 0.
func programOf(pid int) int {
	if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(path) == "collector" {
		return pid
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			number, _ := strconv.Atoi(child)
			if found := programOf(number); found != 0 {
				return found
			}
		}
	}
	return 0
}

// awaitProgram waits until a process runs the image's program, and returns its PID. It repeats
// the search, because the system can omit processes from the list while others exit.
func awaitProgram(t *testing.T, p *harness.Process) (pid int) {
	t.Helper()
	await(t, "the program runs", func() bool {
		pid = programOf(p.Pid())
		return pid != 0
	})
	return pid
}

func TestImage(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	image := b.image()
	for name, check := range map[string]func(*testing.T, *builder, string){
		"metadata":                 imageMetadata,
		"keeps calls after a kill": imageKeepsCallsAfterKill,
	} {
		t.Run(name, func(t *testing.T) { check(t, &builder{t, b.args}, image) })
	}
}

// imageKeepsCallsAfterKill kills a container with pending calls, and starts a new one with the same
// volume. No calls may be lost.
func imageKeepsCallsAfterKill(t *testing.T, b *builder, image string) {
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	url := "http://" + address
	volume := t.TempDir()
	require.NoError(t, os.Chown(volume, 65532, 65532))
	hook := newWebhook(t)
	c := b.from(image, volume, "COLLECTOR_URL="+url)
	args := append(slices.Clone(c.metadata.Config.Cmd), "--webhook", hook.url)
	args[slices.Index(args, ":8765")] = address

	first := c.start(args...)
	await(t, "the first collector is ready", func() bool { return first.Ended() || isReady(t, url) })
	require.False(t, first.Ended(), first.Log())
	pid := awaitProgram(t, first)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	assert.Contains(t, string(status), "\nUid:\t65532\t65532\t65532\t65532\n")
	// Calls stay pending until the destination is resumed. Waiting for scheduled retries
	// instead would make the test slow on a busy machine.
	do(t, "buildah", c.command("/collector", "pause", "dev")...)
	var ids []string
	for i := range 200 {
		id := fmt.Sprintf("call-%d", i)
		require.True(t, send(t, url, "any", id))
		ids = append(ids, id)
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	_ = first.Wait()

	check := slices.Clone(c.metadata.Config.Healthcheck.Test)
	require.Equal(t, "CMD", check[0])
	health := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), "buildah", c.command(check[1:]...)...).CombinedOutput()
		return string(out), err
	}
	out, err := health()
	require.Error(t, err, "the collector was killed")
	assert.Contains(t, out, "no collector at "+url)

	second := c.start(args...)
	await(t, "the second collector is ready", func() bool { return second.Ended() || isReady(t, url) })
	require.False(t, second.Ended(), second.Log())
	// Docker also repeats the health check if the command times out.
	await(t, "the container is healthy", func() bool {
		out, err = health()
		return err == nil
	})
	assert.Contains(t, out, "ready\n")
	verify := func() proof {
		return readProof(t, do(t, "buildah", c.command("/collector", "verify", "--json")...))
	}
	before := verify()
	assert.True(t, before.Holds)
	assert.Equal(t, int64(len(ids)), before.Destinations[0].Accepted)
	assert.Equal(t, int64(len(ids)), before.Destinations[0].Pending)
	do(t, "buildah", c.command("/collector", "resume", "dev")...)
	await(t, "all calls have arrived", func() bool { return hook.Has(ids) })
	var after proof
	await(t, "no call is pending", func() bool {
		after = verify()
		return after.Destinations[0].Pending == 0
	})
	assert.True(t, after.Holds)
	assert.Equal(t, int64(len(ids)), after.Destinations[0].Delivered)
	assert.Zero(t, after.Destinations[0].Failed+after.Destinations[0].Lost)

	require.NoError(t, syscall.Kill(awaitProgram(t, second), syscall.SIGTERM))
	require.NoError(t, second.Wait(), second.Log())
}

func imageMetadata(t *testing.T, b *builder, image string) {
	config := b.inspect(image).Config
	assert.Equal(t, "65532:65532", config.User)
	assert.Contains(t, config.Volumes, "/data")
	assert.Equal(t, version, config.Labels["org.opencontainers.image.version"])
	assert.Equal(t, "abc", config.Labels["org.opencontainers.image.revision"])
	assert.Equal(t, "https://github.com/seed-45eadc4a/analytics-go", config.Labels["org.opencontainers.image.source"])

	root := filepath.Join(t.TempDir(), "image")
	b.do("push", "--quiet", image, "dir:"+root)
	var size int64
	files := map[string]*tar.Header{}
	blobs, err := filepath.Glob(filepath.Join(root, "*"))
	require.NoError(t, err)
	for _, blob := range blobs {
		for _, h := range layer(t, blob) {
			files[strings.TrimSuffix(h.Name, "/")] = h
		}
		size += compressed(t, blob)
	}
	t.Logf("the image has %d files, and %.1f MB compressed", len(files), float64(size)/1e6)
	assert.Less(t, size, int64(20e6))
	for _, name := range []string{"data", "tmp"} {
		require.Contains(t, files, name)
		assert.Equal(t, 65532, files[name].Uid, name)
	}
	assert.Equal(t, int64(0o755), files["collector"].Mode&0o777)
	assert.Zero(t, files["collector"].Uid, "the user of the image must not be able to change the program")
	assert.Contains(t, files, "etc/ssl/certs/ca-certificates.crt")
}

// layer returns the files in a blob. It returns nil if the blob is not a layer.
func layer(t *testing.T, name string) (files []*tar.Header) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var in io.Reader = f
	if unzipped, err := gzip.NewReader(f); err == nil {
		in = unzipped
	} else {
		_, err = f.Seek(0, io.SeekStart)
		require.NoError(t, err)
	}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err != nil {
			return files
		}
		files = append(files, h)
	}
}

// compressed returns the size of a file after compression, as in a registry.
func compressed(t *testing.T, name string) int64 {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var n counter
	w := gzip.NewWriter(&n)
	_, err = io.Copy(w, f)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
