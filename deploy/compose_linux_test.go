package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readCompose reads compose.yaml with Docker's library and validates it.
func readCompose(t *testing.T, profile string) *types.Project {
	t.Helper()
	file, err := filepath.Abs("compose.yaml")
	require.NoError(t, err)
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: map[string]string{"WEB_WRITE_KEY": "3f1c9a4b7d", "ADMIN_TOKEN": "8e02d5c7"},
	}, func(o *loader.Options) { o.Profiles = []string{profile} })
	require.NoError(t, err)
	return p
}

func TestComposeIsValid(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string][]string{
		"dev":     {"dev", "receiver"},
		"cluster": {"collector-1", "collector-2", "nats-a", "nats-b", "nats-c"},
	} {
		t.Run(profile, func(t *testing.T) {
			p := readCompose(t, profile)
			assert.ElementsMatch(t, want, p.ServiceNames())
			for _, s := range p.Services {
				for _, c := range s.Configs {
					assert.FileExists(t, p.Configs[c.Source].File)
				}
				if !strings.Contains(s.Image, "/collector:") {
					continue
				}
				assert.True(t, s.ReadOnly, s.Name)
				understands(t, s.Command)
			}
		})
	}
}

// understands checks that the command collector has the given flags. It adds an unknown flag. The
// error must name only that flag.
func understands(t *testing.T, command []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t), append(command, "--no-such-flag")...).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "unknown flag: --no-such-flag")
}

// The collector must accept all configurations in this directory. The test replaces the secrets,
// which are files in a container or environment variables.
func TestConfigurationsAreValid(t *testing.T) {
	t.Setenv("WEB_WRITE_KEY", "3f1c9a4b7d")
	t.Setenv("ADMIN_TOKEN", "8e02d5c78e02d5c7")
	for _, name := range []string{"compose/collector.yaml", "kubernetes/single/collector.yaml", "kubernetes/cluster/collector.yaml"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			dir := t.TempDir()
			for _, secret := range []string{"write-key", "admin-token"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, secret), []byte(secret+"-3f1c9a4b7d"), 0o600))
			}
			path := filepath.Join(dir, "collector.yaml")
			require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/run/secrets/collector/", dir+"/")), 0o600))
			do(t, program(t), "check", "--config", path)
		})
	}
}
