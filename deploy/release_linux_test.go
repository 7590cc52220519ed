package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReleaseTagsEveryModule sets a version in a copy of the repository, and releases it to a bare
// repository.
func TestReleaseTagsEveryModule(t *testing.T) {
	t.Parallel()
	needs(t, "git", "REQUIRE_GIT")
	dir, remote := t.TempDir(), t.TempDir()
	run := func(name string, args ...string) (string, error) {
		t.Helper()
		env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "REMOTE=" + remote, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
		return command(t, dir, env, name, args...)
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		require.NoError(t, err, out)
		return out
	}
	fails := func(want string) {
		t.Helper()
		out, err := run("bash", ".ci/release")
		require.Error(t, err)
		assert.Contains(t, out, want)
	}
	files := strings.Split(strings.TrimSuffix(do(t, "git", "-C", repository, "ls-files", "-z"), "\x00"), "\x00")
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(repository, file))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	must("git", "init", "--quiet", "--bare", "--initial-branch=main", remote)
	must("git", "init", "--quiet", "--initial-branch=main")
	commit := func() {
		must("git", "add", "--force", ".")
		must("git", "commit", "--quiet", "--message", "a change")
	}
	commit()
	must("git", "push", "--quiet", remote, "main")
	must("bash", ".ci/version", "9.8.7", "2030-01-02")
	fails("the work tree has changes")
	commit()
	fails("the commit is not on main")
	must("git", "push", "--quiet", remote, "main")
	assert.Contains(t, must("bash", ".ci/release"), "pushed v9.8.7")
	tags := strings.Fields(must("git", "-C", remote, "tag", "--list"))
	assert.Contains(t, tags, "v9.8.7")
	for _, file := range files {
		if module, ok := strings.CutSuffix(file, "/go.mod"); ok && !strings.HasPrefix(module, ".") {
			assert.Contains(t, tags, module+"/v9.8.7")
		}
	}
	for _, file := range []string{"testkit/node/package.json", "testkit/python/pyproject.toml", "examples/node/package.json", "go.work"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Contains(t, string(text), "9.8.7", file)
	}
	fails("already exists")
}
