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

// The tests of the Node program pass beside a collector that was started as its workflow
// starts the image's: as what the Dockerfile says, with the environment of the workflow.
func TestNodeProgramIsTested(t *testing.T) {
	needs(t, "node", "REQUIRE_NODE")
	if err := exec.CommandContext(t.Context(), "node", "--eval", "require('node:test'), fetch").Run(); err != nil {
		t.Skip("node is older than 18, and has neither tests nor fetch")
	}
	dir := filepath.Join(repository, "examples", "node")
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

	address, err := harness.FreeAddress()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	p, err := harness.Start(program(t), []string{"dev", "--listen", ":" + port, "--data", t.TempDir()}, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "COLLECTOR_TOKEN="+token)
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	await(t, "the collector is ready", func() bool { return p.Ended() || isReady(t, "http://"+address) })
	require.False(t, p.Ended(), p.Log())
	test := exec.CommandContext(t.Context(), "node", "--test")
	test.Dir = dir
	test.Env = append(os.Environ(), "COLLECTOR_URL=http://"+address, "COLLECTOR_TOKEN="+token)
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "pass 2")
}
