package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// printJSON prints a value, or an answer as it came.
func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// reportProblems prints each problem on a line of its own.
func reportProblems(cmd *cobra.Command, err error) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return fmt.Errorf("--config: %w", err)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), problems)
	return errReported
}

// table lines up columns.
func table(out io.Writer, print func(row func(cells ...any))) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	print(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, plain(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	})
	return w.Flush()
}

// plain makes text harmless that senders chose: a terminal obeys control
// characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// count says how many there are of something.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// are says how many there are of something, and is or are.
func are[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return count(n, thing) + " are"
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// second writes a time in whole seconds.
func second(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.DateTime)
}

func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return max(0, time.Since(since)).Round(time.Second).String() + " ago" // the clock may have stepped back
}

// release is the version of an image or a package, set by the linker:
//
//	-ldflags "-X github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli.release=v1.2.3"
var release string

// version is that of the release, or of the module as it was built.
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
