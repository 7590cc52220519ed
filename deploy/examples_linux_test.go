package deploy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// example returns the directory of an example program.
func example(name string) string { return filepath.Join(repository, "examples", name) }

// This test runs the tests of the Node program. It starts the collector as in the program's workflow:
// with the command of the Dockerfile and the environment of the workflow.
func TestNodeExample(t *testing.T) {
	t.Parallel()
	dir := nodeProject(t, example("node"))
	out := test(t, dir, workflowEnv(t, dir), "npm", "test")
	assert.Contains(t, out, "pass 3")
}

// This test runs the tests of the web page in Chromium.
func TestPlaywrightExample(t *testing.T) {
	t.Parallel()
	chromium, err := harness.Chromium()
	if err != nil && os.Getenv("REQUIRE_CHROMIUM") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	page := nodeProject(t, example("playwright"))
	env := append(workflowEnv(t, page), "CHROMIUM="+chromium)
	out := test(t, page, env, "npm", "test")
	assert.Contains(t, out, "pass 2")
}

func TestPythonExample(t *testing.T) {
	t.Parallel()
	python := pythonWithPlugin(t)
	out := test(t, example("python"), nil, python, "-B", "-m", "pytest", "-p", "no:cacheprovider")
	assert.Contains(t, out, "3 passed")
}

func TestShellExample(t *testing.T) {
	t.Parallel()
	needs(t, "curl", "REQUIRE_CURL")
	path := "PATH=" + filepath.Dir(program(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	out := test(t, example("shell"), []string{path, "COLLECTOR_TOKEN=for-tests-only"}, "sh", "test.sh")
	assert.Contains(t, out, "2 expectations met after")
	assert.Contains(t, out, "1 call of 1 user matches the baseline")
}

// workflowEnv returns the environment variables that a workflow sets for its tests.
func workflowEnv(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "workflow.yml"))
	require.NoError(t, err)
	var workflow struct {
		Jobs map[string]struct {
			Env      map[string]string
			Services map[string]struct{ Env map[string]string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &workflow))
	job := workflow.Jobs["test"]
	token := job.Services["collector"].Env["COLLECTOR_TOKEN"]
	require.NotEmpty(t, token)
	require.Equal(t, token, job.Env["COLLECTOR_TOKEN"])
	return []string{"COLLECTOR_TOKEN=" + token}
}

// test starts a collector, runs the tests of an example program, and returns their output. The
// collector and the tests have the environment env.
func test(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	url := startDev(t, env)
	env = append([]string{"COLLECTOR_TOKEN=for-tests-only", "COLLECTOR_URL=" + url}, env...)
	out, err := command(t, dir, env, name, args...)
	require.NoError(t, err, out)
	return out
}

// startDev starts collector dev with the environment env, waits until it is ready, and returns its URL.
// The admin token is for-tests-only.
func startDev(t *testing.T, env []string, args ...string) string {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	p, err := harness.Start(program(t), append([]string{"dev", "--listen", ":" + port, "--data", t.TempDir()}, args...), func(cmd *exec.Cmd) {
		cmd.Env = append(append(os.Environ(), "COLLECTOR_TOKEN=for-tests-only"), env...)
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	await(t, "the collector is ready", func() bool { return p.Ended() || isReady(t, "http://"+address) })
	require.False(t, p.Ended(), p.Log())
	return "http://" + address
}
