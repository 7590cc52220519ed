package deploy

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// packaging contains the supported fields of the section nfpms in .goreleaser.yaml. The test fails for
// unknown fields, because the packages that it builds would not include them.
type packaging struct {
	ID               string
	PackageName      string   `yaml:"package_name"`
	FileNameTemplate string   `yaml:"file_name_template"`
	Formats          []string `yaml:"formats"`
	Vendor           string
	Maintainer       string
	Homepage         string
	License          string
	Section          string
	Description      string
	Bindir           string
	Contents         files.Contents
	Scripts          nfpm.Scripts
	Overrides        map[string]struct{ Dependencies, Recommends []string }
}

// readPackaging reads .goreleaser.yaml in the working directory. manual is the directory with the
// manual pages, which replaces the one in the file.
func readPackaging(t *testing.T, manual string) (p packaging) {
	t.Helper()
	text, err := os.ReadFile(".goreleaser.yaml")
	require.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte("src: build/manual/"), []byte("src: "+manual+"/"))
	var all struct {
		Packages []yaml.Node `yaml:"nfpms"`
	}
	require.NoError(t, yaml.Unmarshal(text, &all))
	require.Len(t, all.Packages, 1)
	section, err := yaml.Marshal(&all.Packages[0])
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(section))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&p))
	return p
}

// pack builds packages of the command and returns their paths, keyed by format. Without formats, it
// builds all formats. It does not compress the packages, to save time.
func pack(t *testing.T, version string, formats ...string) map[string]string {
	t.Helper()
	binary, dir := program(t), t.TempDir()
	t.Chdir(repository) // paths in the configuration are relative to the repository
	manual := filepath.Join(filepath.Dir(binary), "manual")
	if _, err := os.Stat(manual); err != nil {
		do(t, "go", "run", collectorPackage+"/manual", manual)
	}
	p := readPackaging(t, manual)
	require.NotEmpty(t, p.Formats)
	if formats == nil {
		formats = p.Formats
	}
	made := map[string]string{}
	for _, format := range formats {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: p.PackageName, Arch: runtime.GOARCH, Platform: "linux", Version: version, Section: p.Section,
			Maintainer: p.Maintainer, Description: p.Description, Vendor: p.Vendor, Homepage: p.Homepage, License: p.License,
			MTime: time.Unix(1_700_000_000, 0),
			Overridables: nfpm.Overridables{
				Depends: p.Overrides[format].Dependencies, Recommends: p.Overrides[format].Recommends, Scripts: p.Scripts,
				Deb: nfpm.Deb{Compression: "none"}, RPM: nfpm.RPM{Compression: "gzip:0"},
				Contents: append(p.Contents, &files.Content{Source: binary, Destination: p.Bindir + "/collector", FileInfo: &files.ContentFileInfo{Mode: 0o755}}),
			},
		})
		require.NoError(t, nfpm.PrepareForPackager(info, format))
		packager, err := nfpm.Get(format)
		require.NoError(t, err)
		name := filepath.Join(dir, "collector_"+version+"."+format)
		out, err := os.Create(name)
		require.NoError(t, err)
		require.NoError(t, packager.Package(info, out))
		require.NoError(t, out.Close())
		made[format] = name
	}
	return made
}

// inEveryPackage contains the paths of files that must be in each package.
var inEveryPackage = []string{
	"/usr/bin/collector",
	"/usr/lib/systemd/system/collector.service",
	"/etc/collector/collector.yaml",
	"/usr/share/man/man1/collector.1",
	"/usr/share/man/man1/collector-serve.1",
	"/usr/share/bash-completion/completions/collector",
	"/usr/share/fish/vendor_completions.d/collector.fish",
	"/usr/share/doc/collector/examples/collector.yaml",
	"/usr/share/doc/collector/copyright",
}

func TestPackageContents(t *testing.T) {
	made := pack(t, "0.0.1")
	command, err := os.Stat(program(t))
	require.NoError(t, err)
	list := map[string][]string{"deb": {"dpkg-deb", "--contents"}, "rpm": {"rpm", "--query", "--list", "--package"}}
	for format, name := range made {
		t.Run(format, func(t *testing.T) {
			about, err := os.Stat(name)
			require.NoError(t, err)
			other := about.Size() - command.Size() // the image test limits the size of the command
			t.Logf("%.1f MB, without the command", float64(other)/1e6)
			assert.Less(t, other, int64(1e6))
			if _, err := exec.LookPath(list[format][0]); err != nil {
				t.Skipf("%s is not installed", list[format][0])
			}
			contents := do(t, list[format][0], append(list[format][1:], name)...)
			for _, file := range inEveryPackage {
				assert.Contains(t, contents, file+"\n")
			}
		})
	}
	assert.Len(t, made, 2)
}

func TestUnitIsValid(t *testing.T) {
	needs(t, "systemd-analyze", "REQUIRE_SYSTEMD")
	if help := do(t, "systemd-analyze", "--help"); !strings.Contains(help, "--offline") {
		t.Skip("systemd is older than 250: it cannot verify units offline")
	}
	// systemd-analyze requires that the program in the unit exists.
	text, err := os.ReadFile(filepath.Join("packages", "collector.service"))
	require.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte("/usr/bin/collector"), []byte(program(t)))
	unit := filepath.Join(t.TempDir(), "collector.service")
	require.NoError(t, os.WriteFile(unit, text, 0o644))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), "collector.service:", "the unit has unknown settings")
	// The threshold is an exposure level of 2.0; the maximum is 10.
	out, err = exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--threshold=20", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// This test installs, upgrades and removes a deb package, and checks that its service runs. It changes
// the machine, so it runs only with REQUIRE_DPKG, and only if the package is not installed.
func TestInstallAndRemoveDeb(t *testing.T) {
	if os.Getenv("REQUIRE_DPKG") == "" {
		t.Skip("the test installs a package on this machine: set REQUIRE_DPKG=1")
	}
	needs(t, "dpkg", "REQUIRE_DPKG")
	needsRoot(t)
	const configuration, data = "/etc/collector/collector.yaml", "/var/lib/collector"
	for _, name := range append([]string{data}, inEveryPackage...) {
		if _, err := os.Lstat(name); err == nil {
			t.Skipf("%s exists: a collector is installed on this machine", name)
		}
	}
	older, newer := pack(t, "0.0.1", "deb")["deb"], pack(t, "0.0.2", "deb")["deb"]
	t.Cleanup(func() {
		_ = exec.Command("dpkg", "--purge", "collector").Run() //nolint:usetesting // the test's context is done
		_ = os.RemoveAll(data)
	})

	dpkg(t, "--install", older)
	installed := strings.Fields(do(t, "dpkg", "--listfiles", "collector"))
	assert.Subset(t, installed, inEveryPackage)
	assert.Contains(t, do(t, "collector", "--version"), version)
	assert.Equal(t, "collector", owner(t, data))
	about, err := os.Stat(configuration)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), about.Mode(), "the configuration can contain secrets")
	t.Run("the first call", firstCall)

	// The packaged configuration is invalid until a write key is added.
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	hook := newWebhook(t)
	text, err := os.ReadFile(configuration)
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "collector", "check", "--config", configuration).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "writeKey is the placeholder from the example")
	changed := strings.NewReplacer("127.0.0.1:8765\n", address+"\n", "change-me-to-a-long-random-text", "3f1c9a4b7d",
		"https://example.com/hook", hook.url).Replace(string(text)) + "\negress:\n  allow: [127.0.0.0/8]\n"
	require.NoError(t, os.WriteFile(configuration, []byte(changed), 0o640))

	url := "http://" + address
	p := asItsUnitSays(t, url)
	do(t, "collector", "pause", "crm", "--url", url)
	require.True(t, send(t, url, "3f1c9a4b7d", "before"))
	p.Kill()

	dpkg(t, "--install", newer)
	kept, err := os.ReadFile(configuration)
	require.NoError(t, err)
	assert.Equal(t, changed, string(kept))
	dpkg(t, "--remove", "collector")
	assert.FileExists(t, configuration, "only --purge removes the configuration")
	dpkg(t, "--purge", "collector")
	for _, name := range installed {
		if strings.Contains(name, "collector") {
			assert.NoFileExists(t, name)
			assert.NoDirExists(t, name)
		}
	}
	assert.NoDirExists(t, "/etc/collector")
	assert.Equal(t, "root", owner(t, data), "the user was removed")
	_, err = user.Lookup("collector")
	require.Error(t, err)

	// A later installation finds the data of the removed package.
	dpkg(t, "--install", newer)
	require.NoError(t, os.WriteFile(configuration, []byte(changed), 0o640))
	p = asItsUnitSays(t, url)
	do(t, "collector", "resume", "crm", "--url", url)
	await(t, "the pending call has arrived", func() bool { return hook.Has([]string{"before"}) })
	require.NoError(t, p.Stop())
}

// dpkg runs dpkg and skips slow steps: the sync of each file and the index of manual pages.
func dpkg(t *testing.T, args ...string) {
	t.Helper()
	do(t, "dpkg", append([]string{"--force-unsafe-io", "--no-triggers"}, args...)...)
}

// firstCall runs the first commands of docs/operating.md. It uses only files of the package.
func firstCall(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	start := time.Now()
	p, err := harness.Start("collector", []string{"dev", "--listen", address, "--data", t.TempDir()}, nil)
	require.NoError(t, err)
	defer p.Kill()
	url := "http://" + address
	await(t, "the collector is ready", func() bool { return isReady(t, url) })
	do(t, "collector", "send", "track", "--event", "Signed Up", "--user-id", "user-123", "--url", url)
	await(t, "the page shows the call", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/", nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return bytes.Contains(page, []byte("Signed Up"))
	})
	t.Logf("the page shows the first call after %v", time.Since(start).Round(time.Millisecond))
}

// owner returns the owner of a file.
func owner(t *testing.T, name string) string {
	t.Helper()
	about, err := os.Stat(name)
	require.NoError(t, err)
	u, err := user.LookupId(strconv.Itoa(int(about.Sys().(*syscall.Stat_t).Uid))) //nolint:forcetypeassert // on Linux it is
	require.NoError(t, err)
	return u.Username
}

// asItsUnitSays starts the command of the installed unit with the unit's user and an empty
// environment.
func asItsUnitSays(t *testing.T, url string) *harness.Process {
	t.Helper()
	unit, err := os.ReadFile("/usr/lib/systemd/system/collector.service")
	require.NoError(t, err)
	setting := func(name string) string {
		_, rest, found := strings.Cut(string(unit), "\n"+name+"=")
		require.True(t, found, name)
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	u, err := user.Lookup(setting("User"))
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	require.Equal(t, u.HomeDir, "/var/lib/"+setting("StateDirectory"))
	args := strings.Fields(setting("ExecStart"))
	p, err := harness.Start(args[0], args[1:], func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	await(t, "the collector is ready", func() bool { return p.Ended() || isReady(t, url) })
	require.False(t, p.Ended(), p.Log())
	return p
}
