package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestAcceptLoss checks that a collector does not start with a corrupted queue until the loss is
// accepted. The collector then loses only the corrupted call, and counts it as lost.
func TestAcceptLoss(t *testing.T) {
	dir := t.TempDir()
	path, address := configure(t, dir, "data: data", destination("hook", "http://127.0.0.1:9/hook"))
	c := serve(t, path, address, nil)
	for i := range 5 {
		cmd := exec.CommandContext(t.Context(), binary, "send", "track", "--url", c.URL, "--write-key", writeKey, "--event", "E", "--user-id", fmt.Sprint("u", i))
		cmd.Env = append(os.Environ(), asCollector+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	c.Kill()
	blocks, err := filepath.Glob(filepath.Join(dir, "data", "jetstream", "$G", "streams", "analytics-CALLS", "msgs", "*.blk"))
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	stored, err := os.ReadFile(blocks[0])
	require.NoError(t, err)
	stored[len(stored)/2] ^= 0x10
	require.NoError(t, os.WriteFile(blocks[0], stored, 0o600))

	_, err = start(path, address, nil)
	require.ErrorContains(t, err, "the store is damaged")
	assert.ErrorContains(t, err, "start once with --accept-loss")

	c = serve(t, path, address, func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--accept-loss") })
	verify(t, c)
	want := tracking.Ledger{Destination: "hook", Accepted: 5, Pending: 4, Lost: 1}
	assert.Equal(t, want, ledgers(t, c)["hook"])
	assert.Contains(t, c.Log(), "the journal continues without them")
	require.NoError(t, c.Stop())
	c = serve(t, path, address, nil)
	verify(t, c)
	assert.Equal(t, want, ledgers(t, c)["hook"])
}
