package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of an image or a package. The linker sets it:
//
//	-ldflags "-X github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli.release=v1.2.3"
var release string

// version returns the release, or the version of the main module.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// A build describes this binary.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty if built outside the repository
	Modified bool   `json:"modified"`         // whether the work tree had uncommitted changes
	Time     string `json:"time,omitempty"`   // time of the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

func newVersion() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, commit, Go version and platform",
		Example: "  collector version\n  collector version -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			return form.write(cmd, b, "", b.print)
		},
	}
	form.addOutputTo(cmd)
	return cmd
}

func (b *build) print(out *printer) {
	fmt.Fprintln(out, "collector", b.Version)
	if b.Commit != "" {
		changes := ""
		if b.Modified {
			changes = ", modified"
		}
		fmt.Fprintf(out, "commit %s of %s%s\n", b.Commit, b.Time, changes)
	}
	fmt.Fprintf(out, "%s on %s/%s\n", b.Go, b.OS, b.Arch)
}
