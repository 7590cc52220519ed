package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestVerifyWithoutADirectory deletes or replaces the data directory of a running collector.
// The commands collector verify and collector status then report the problem. collector verify
// fails within ten seconds.
func TestVerifyWithoutADirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows deletes no files that are open")
	}
	for name, again := range map[string]func(data string) error{
		"deleted":            func(string) error { return nil },
		"replaced":           func(data string) error { return os.Mkdir(data, 0o700) },
		"replaced by a file": func(data string) error { return os.WriteFile(data, nil, 0o600) },
		"replaced by a link": func(data string) error { return os.Symlink(data+"-nowhere", data) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data := filepath.Join(dir, "data")
			path, address := configure(t, dir, "data: data", destination("hook", "http://127.0.0.1:9/hook"))
			c := serve(t, path, address, nil)
			load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 2, Batch: 20, Rate: 400, Calls: 200}
			load.Do(t.Context(), time.Minute)
			verify(t, c)
			require.NoError(t, os.Rename(data, data+"-gone")) // RemoveAll fails while the collector creates files
			require.NoError(t, os.RemoveAll(data+"-gone"))
			require.NoError(t, again(data))

			begin := time.Now()
			out, err := tell(t, c, "verify") // the collector may not have noticed the problem yet
			took := time.Since(begin)
			t.Logf("verify, at once: %v after %v: %s", err, took, out)
			assert.Less(t, took, 10*time.Second)
			waitFor(t, 10*time.Second, "the collector is not ready", func() bool { return !c.Ready() })
			for _, command := range []string{"verify", "status"} {
				begin = time.Now()
				out, err = tell(t, c, command)
				took = time.Since(begin)
				t.Logf("%s: %v after %v: %s", command, err, took, out)
				assert.Equal(t, command == "verify", err != nil, "%s", out)
				assert.Contains(t, out, "stop the collector")
				assert.Less(t, took, 10*time.Second)
			}
		})
	}
}

// tell runs a command on a collector and returns its output.
func tell(t *testing.T, c *harness.Collector, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, command, "--url", c.URL)
	cmd.Env = append(os.Environ(), asCollector+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
