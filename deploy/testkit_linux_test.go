package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

// command runs a program in dir for up to 10 minutes, and returns its output and its error.
func command(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // long enough for downloads and browsers on a busy machine
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// installTestkit packs the npm package, installs the archive and the dependencies in dir, and skips
// the test if the dependencies cannot be downloaded.
func installTestkit(t *testing.T, dir string, dependencies ...string) {
	t.Helper()
	needs(t, "node", "REQUIRE_NODE")
	needs(t, "npm", "REQUIRE_NPM")
	packed, err := command(t, t.TempDir(), nil, "npm", "pack", "--silent", "--pack-destination", dir, filepath.Join(repository, "testkit", "node"))
	require.NoError(t, err, packed)
	archive := filepath.Join(dir, strings.TrimSpace(packed))
	require.Equal(t, "analytics-collector-testkit-"+analytics.Version+".tgz", filepath.Base(archive))
	args := append([]string{"install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=5", archive}, dependencies...)
	if out, err := command(t, dir, nil, "npm", args...); err != nil {
		require.Empty(t, os.Getenv("REQUIRE_NPM"), "npm install: %v\n%s", err, out)
		t.Skipf("the dependencies cannot be installed: npm install: %v", err)
	}
}

// TestNodeTestkit runs the tests of the npm package with Vitest and Jest. They start the collector.
func TestNodeTestkit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(repository, "testkit", "node", "test"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o600))
	installTestkit(t, dir, "vitest@4", "jest@30")
	env := []string{"COLLECTOR_COMMAND=" + program(t), "COLLECTOR_URL=", "NO_COLOR=1"}
	for _, args := range [][]string{{"vitest", "run", "vitest.test.mjs"}, {"jest", "jest.test.js"}} {
		out, err := command(t, dir, env, filepath.Join("node_modules", ".bin", args[0]), args[1:]...)
		require.NoError(t, err, out)
		assert.Regexp(t, `Tests: +[1-9]\d* passed|Tests  [1-9]\d* passed`, out)
	}
}

// installPlugin builds the wheel of the pytest plugin, and installs it in a new virtual environment.
// It returns the path of the environment's Python.
func installPlugin(t *testing.T) string {
	t.Helper()
	needs(t, "pytest-3", "REQUIRE_PYTEST") // only Debian's Python has the packages
	needs(t, "pyproject-build", "REQUIRE_PYBUILD")
	const python = "/usr/bin/python3"
	dir := t.TempDir()
	source, dist, env := filepath.Join(dir, "source"), filepath.Join(dir, "dist"), filepath.Join(dir, "env")
	require.NoError(t, os.CopyFS(source, os.DirFS(filepath.Join(repository, "testkit", "python")))) // the build writes to it
	do(t, python, "-m", "build", "--no-isolation", "--outdir", dist, source)
	wheels, err := filepath.Glob(filepath.Join(dist, "pytest_analytics_collector-*.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)
	do(t, python, "-m", "venv", "--without-pip", "--system-site-packages", env)
	installed := filepath.Join(env, "bin", "python")
	do(t, python, "-m", "pip", "--python", installed, "install", "--quiet", "--no-index", "--no-deps", wheels[0])
	return installed
}

// TestPythonTestkit runs the tests of the pytest plugin. They start the collector.
func TestPythonTestkit(t *testing.T) {
	t.Parallel()
	python := installPlugin(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(repository, "testkit", "python", "tests"))))
	env := []string{"COLLECTOR_COMMAND=" + program(t), "COLLECTOR_URL="}
	out, err := command(t, dir, env, python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytester")
	require.NoError(t, err, out)
	assert.Regexp(t, `= [1-9]\d* passed`, out)
}
