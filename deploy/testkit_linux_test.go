package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

const testkitPackage = "analytics-collector-testkit"

// nodeProjects returns the directories of the Node programs that the tests run.
func nodeProjects() []string {
	return []string{filepath.Join(repository, "testkit", "node", "test"), example("node"), example("playwright")}
}

// nodePackages installs the packages of all Node programs in one directory, and returns the path of
// node_modules. It installs the testkit from an archive like the one that npm publishes.
var nodePackages = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(shared, "node")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	packed, err := run(context.Background(), "", nil, "npm", "pack", "--silent", "--pack-destination", dir, filepath.Join(repository, "testkit", "node"))
	if err != nil {
		return "", fmt.Errorf("npm pack: %w\n%s", err, packed)
	}
	archive := testkitPackage + "-" + analytics.Version + ".tgz"
	args := []string{"install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=5", filepath.Join(dir, archive)}
	for _, project := range nodeProjects() {
		needed, err := dependencies(project)
		if err != nil {
			return "", err
		}
		for name, version := range needed {
			if name != testkitPackage {
				args = append(args, name+"@"+version)
			}
		}
	}
	if out, err := run(context.Background(), dir, nil, "npm", args...); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return filepath.Join(dir, "node_modules"), nil
})

// dependencies returns the versions of the packages in the file package.json of a directory.
func dependencies(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct{ Dependencies, DevDependencies map[string]string }
	err = json.Unmarshal(text, &manifest)
	all := map[string]string{}
	maps.Copy(all, manifest.Dependencies)
	maps.Copy(all, manifest.DevDependencies)
	return all, err
}

// nodeProject copies a Node program to a new directory. The program can import only the packages in
// its package.json. nodeProject skips the test if the packages cannot be downloaded.
func nodeProject(t *testing.T, source string) string {
	t.Helper()
	needs(t, "node", "REQUIRE_NODE")
	needs(t, "npm", "REQUIRE_NPM")
	packages, err := nodePackages()
	if err != nil {
		require.Empty(t, os.Getenv("REQUIRE_NPM"), err)
		t.Skipf("the packages cannot be installed: %v", err)
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	needed, err := dependencies(dir)
	require.NoError(t, err)
	require.Contains(t, needed, testkitPackage)
	modules := filepath.Join(dir, "node_modules")
	require.NoError(t, os.RemoveAll(modules)) // the user's installation
	needed[".bin"] = ""
	for name := range needed {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(modules, name)), 0o755))
		require.NoError(t, os.Symlink(filepath.Join(packages, name), filepath.Join(modules, name)))
	}
	return dir
}

// TestNodeTestkit runs the tests of the npm package with Vitest and Jest. They start the collector.
func TestNodeTestkit(t *testing.T) {
	t.Parallel()
	dir := nodeProject(t, nodeProjects()[0])
	env := []string{"COLLECTOR_COMMAND=" + program(t), "COLLECTOR_URL=", "NO_COLOR=1"}
	for _, args := range [][]string{{"vitest", "run", "vitest.test.mjs"}, {"jest", "jest.test.js"}} {
		out, err := command(t, dir, env, filepath.Join("node_modules", ".bin", args[0]), args[1:]...)
		require.NoError(t, err, out)
		assert.Regexp(t, `Tests: +[1-9]\d* passed|Tests  [1-9]\d* passed`, out)
	}
}

// plugin builds the wheel of the pytest plugin, and installs it in a virtual environment. It returns
// the path of the environment's Python.
var plugin = sync.OnceValues(func() (string, error) {
	const python = "/usr/bin/python3"
	dir := filepath.Join(shared, "python")
	source, dist, env := filepath.Join(dir, "source"), filepath.Join(dir, "dist"), filepath.Join(dir, "env")
	if err := os.CopyFS(source, os.DirFS(filepath.Join(repository, "testkit", "python"))); err != nil { // the build writes to it
		return "", err
	}
	installed := filepath.Join(env, "bin", "python")
	for _, args := range [][]string{
		{"-m", "build", "--no-isolation", "--outdir", dist, source},
		{"-m", "venv", "--without-pip", "--system-site-packages", env},
		{"-m", "pip", "--python", installed, "install", "--quiet", "--no-index", "--no-deps", "--find-links", dist, "pytest-analytics-collector"},
	} {
		if out, err := run(context.Background(), "", nil, python, args...); err != nil {
			return "", fmt.Errorf("python3 %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return installed, nil
})

// pythonWithPlugin returns the path of a Python with the pytest plugin.
func pythonWithPlugin(t *testing.T) string {
	t.Helper()
	needs(t, "pytest-3", "REQUIRE_PYTEST") // only Debian's Python has the packages
	needs(t, "pyproject-build", "REQUIRE_PYBUILD")
	python, err := plugin()
	require.NoError(t, err)
	return python
}

// TestPythonTestkit runs the tests of the pytest plugin. They start the collector.
func TestPythonTestkit(t *testing.T) {
	t.Parallel()
	python := pythonWithPlugin(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(repository, "testkit", "python", "tests"))))
	env := []string{"COLLECTOR_COMMAND=" + program(t), "COLLECTOR_URL="}
	out, err := command(t, dir, env, python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytester")
	require.NoError(t, err, out)
	assert.Regexp(t, `= [1-9]\d* passed`, out)
}
