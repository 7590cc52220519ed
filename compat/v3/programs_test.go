package analytics_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// buildProgram builds the programs of testdata/program.
func buildProgram(t *testing.T) (run func(t *testing.T, args ...string) (printed string)) {
	path := filepath.Join(t.TempDir(), "program.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/program").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return func(t *testing.T, args ...string) string {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Env = append(os.Environ(), "SEGMENT_WRITE_KEY=readme-key")
		var problems strings.Builder
		cmd.Stderr = &problems
		printed, err := cmd.Output()
		require.NoError(t, err, "%s", &problems)
		return string(printed)
	}
}

// The golden files contain the calls that the programs send with version 3. A test of the module
// bench writes them.
func TestProgramsSendVersion3Calls(t *testing.T) {
	run := buildProgram(t)
	files, err := filepath.Glob("testdata/program/*.json")
	require.NoError(t, err)
	require.Len(t, files, 8)
	for _, file := range files {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			require.Equal(t, string(want), run(t, name))
			srv := mockserver.RunT(t)
			run(t, name, srv.URL)
			require.Empty(t, srv.Rejections())
			switch name {
			case "shop":
				srv.Expect(t, mockserver.OfEvent("Order Completed"), mockserver.Like(`{"properties":{"products":[{"id":"p-1"},{"id":"p-2"}]}}`))
			case "import":
				srv.Expect(t, mockserver.WithID("import-059"), mockserver.Like(`{"traits":{"n":59}}`))
			}
		})
	}
	t.Run("readme", func(t *testing.T) {
		srv := mockserver.RunT(t)
		run(t, "readme", srv.URL)
		srv.Source("readme-key").Expect(t, mockserver.OfEvent("test-snippet"), mockserver.Like(`{"userId":"test-user"}`))
	})
	t.Run("recorder", func(t *testing.T) { run(t, "recorder", "unused") })
}
