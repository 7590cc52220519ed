package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const collectorPackage = "github.com/seed-45eadc4a/analytics-go/mockserver/collector"

// repository is the root directory of the repository, and shared is a directory for the files of
// several tests.
var repository, shared string

func TestMain(m *testing.M) {
	var err error
	if repository, err = filepath.Abs(".."); err != nil {
		panic(err)
	}
	if shared, err = os.MkdirTemp("", "deploy"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// version is the version of the command in these tests.
const version = "v0.0.1"

// program returns the path of the command collector. The command is linked statically. Its
// packages come from the build cache, because they are compiled as in other builds. If the static
// C library is missing, program builds without cgo, as for a release, which takes a minute.
func program(t *testing.T) string {
	t.Helper()
	path, err := builtProgram()
	require.NoError(t, err)
	return path
}

var builtProgram = sync.OnceValues(func() (path string, err error) {
	const flags = "-s -w -X " + collectorPackage + "/internal/cli.release=" + version
	path = filepath.Join(shared, "collector")
	for _, how := range []struct{ flags, cgo string }{{flags + " -linkmode external -extldflags -static", "1"}, {flags, "0"}} {
		var out string
		args := []string{"build", "-ldflags", how.flags, "-o", path, collectorPackage}
		if out, err = run(context.Background(), "", []string{"CGO_ENABLED=" + how.cgo}, "go", args...); err == nil {
			return path, nil
		}
		err = fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return "", err
})

// run runs a program in dir for up to 10 minutes, and returns its output and its error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // long enough for downloads and browsers on a busy machine
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command is like run, but also ends the program when the test ends.
func command(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	return run(t.Context(), dir, env, name, args...)
}

// needs skips the test if a program is missing. If the environment variable is set, the test fails
// instead.
func needs(t *testing.T, program, variable string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv(variable) != "" {
			t.Fatalf("%s is set, but %s is not installed", variable, program)
		}
		t.Skipf("%s is not installed", program)
	}
}

// needsRoot skips the test if it does not run as root.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the test requires root")
	}
}

// needsMounts skips the test if root cannot mount file systems, as in most containers.
func needsMounts(t *testing.T) {
	t.Helper()
	needsRoot(t)
	dir := t.TempDir()
	mount := exec.CommandContext(t.Context(), "mount", "--bind", dir, dir)
	mount.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // the mount exists only while the process runs
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("root cannot mount here: %v: %s", err, out)
	}
}

// do runs a program and returns its output. The test fails if the program fails.
func do(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	require.NoError(t, cmd.Run(), "%s %s: %s%s", name, strings.Join(args, " "), &out, &errOut)
	return out.String()
}

// await calls done repeatedly until it returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// isReady reports whether the collector at url is ready.
func isReady(t *testing.T, url string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ready", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// send sends a call and reports whether the response was 200.
func send(t *testing.T, url, writeKey, id string) bool {
	t.Helper()
	body := fmt.Sprintf(`{"event":"Signed Up","userId":"u1","messageId":%q}`, id)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track", strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth(writeKey, "")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// webhook is a webhook endpoint that records the received calls.
type webhook struct {
	url string

	mu       sync.Mutex      // guards received
	received map[string]bool // the messageIds of the received calls
}

func newWebhook(t *testing.T) *webhook {
	w := &webhook{received: map[string]bool{}}
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (h *webhook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received[r.Header.Get("X-Message-Id")] = true
}

// Has reports whether h has received all calls.
func (h *webhook) Has(ids []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if !h.received[id] {
			return false
		}
	}
	return true
}

// proof is the output of collector verify --json.
type proof struct {
	Holds        bool
	Destinations []struct {
		Destination                                          string
		Accepted, Delivered, Failed, Filtered, Pending, Lost int64
	}
}

func readProof(t *testing.T, text string) (p proof) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &p), "%s", text)
	return p
}
