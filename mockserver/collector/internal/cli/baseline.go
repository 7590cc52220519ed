package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/baseline"
)

func newBaseline() *cobra.Command {
	return group(&cobra.Command{
		Use:   "baseline",
		Short: "Record the calls of a test run, and compare later runs",
		Long: `Record the calls of a test run in a file, commit it, and compare later runs with it. The
file contains the calls of each user in order. IDs, times and other values that differ in
each run are replaced with placeholders; see the testing guide.

  collector baseline record tracking.json
  collector baseline check tracking.json

If other values vary, such as durations, repeat the test run and add wildcards:

  collector baseline record --widen tracking.json

The calls come from a running collector, such as collector dev. If it also has calls of
previous runs, select the run with --since. POST /reset does not hide calls from these
commands.`,
	}, newBaselineRecord(), newBaselineCheck())
}

func newBaselineRecord() *cobra.Command {
	var c client
	var widen bool
	cmd := &cobra.Command{
		Use:   "record [FILE]",
		Short: "Record the calls of a test run",
		Long: `Record the calls of a test run in a file, or print them. If the file exists, its
wildcards are kept. Review the changes with git diff.

With --widen, the run must have the same events as the file. Each value that differs
becomes a wildcard: <string>, <number>, <boolean> or <array> if the types are equal, <any>
otherwise, and <optional> if a property is missing. If the order of a user's calls
differs, it no longer matters.`,
		Example: `  collector baseline record > tracking.json
  collector baseline record tracking.json --source web --since 10m
  collector baseline record tracking.json --widen`,
		Args:              atMostOne,
		ValidArgsFunction: jsonFile,
	}
	cmd.Flags().BoolVar(&widen, "widen", false, "replace values that differ from the file with wildcards")
	q := c.filterFlags(cmd)
	c.addAccessTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if widen && len(args) == 0 {
			return usagef("--widen requires a file: %s", cmd.UseLine())
		}
		if len(args) > 0 {
			switch _, err := baseline.Load(args[0]); {
			case errors.Is(err, os.ErrNotExist) && widen:
				return usagef("%w: record a run first, without --widen", err)
			case err != nil && !errors.Is(err, os.ErrNotExist):
				return usageError{err}
			}
		}
		run, err := c.recordRun(cmd.Context(), q)
		switch {
		case err != nil:
			return err
		case run.Calls() == 0:
			return errors.New("no calls: does the program send to this collector, and does it flush?")
		case len(args) == 0:
			_, err = cmd.OutOrStdout().Write(run.Encode())
			return err
		}
		if err := baseline.Save(args[0], run, widen); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "recorded %s of %s in %s\n", count(run.Calls(), "call"), count(len(run.Users), "user"), args[0])
		return err
	}
	return cmd
}

func newBaselineCheck() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Compare the calls of a test run with a baseline",
		Long: `Compare the calls of a test run with a file that collector baseline record wrote, and
print the differences: missing, new and moved calls, and missing, new and changed
properties. To accept the differences, record the file again.

The exit code is 0 if there are no differences; 1 if there are, or if the collector does
not respond; 2 if the command line or the file is invalid.`,
		Example: `  collector baseline check tracking.json
  collector baseline check tracking.json --since 10m --json`,
		Args:              exactly(1, "specify one file: %s"),
		ValidArgsFunction: jsonFile,
	}
	q := c.filterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want, err := baseline.Load(args[0])
		if err != nil {
			return usageError{err}
		}
		run, err := c.recordRun(cmd.Context(), q)
		if err != nil {
			return err
		}
		report := baseline.Compare(run, want)
		err = c.output.write(cmd, report, "differences", func(out *printer) { fmt.Fprintln(out, plainLines(report.Text())) })
		if err == nil && !report.OK {
			err = errReported
		}
		return err
	}
	return c.addTo(cmd)
}

// jsonFile completes the name of a file.
func jsonFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

// recordRun records the calls that match a query. It fails if the collector no longer retains all of
// them.
func (c *client) recordRun(ctx context.Context, q url.Values) (*baseline.File, error) {
	since := q.Get("since")
	q.Set("bodies", "true")
	q.Set("synthetic", "false")
	var bodies []json.RawMessage
	expired := int64(0)
	err := eachPage(ctx, c, q, baseline.MaxCalls+1, func(page response[callPage[call]]) error {
		expired = page.read.Forgotten
		for _, one := range page.read.Calls {
			bodies = append(bodies, one.Body)
		}
		return nil
	})
	if err == nil && expired > 0 {
		err = c.checkRetained(ctx, since)
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(bodies) // the API lists the newest call first
	run, err := baseline.Record(bodies)
	if err != nil {
		return nil, fmt.Errorf("%w: use --since or --source", err)
	}
	return run, nil
}

// checkRetained returns an error if calls since a time may have expired. Calls expire in the order
// of arrival, so all of them are retained if an earlier call is.
func (c *client) checkRetained(ctx context.Context, since string) error {
	const fix = "the collector no longer retains all calls of the run: set --since to the start of the run, restart the collector, or record fewer calls; it retains at most limits.history calls and 32 MiB"
	if since == "" {
		return errors.New(fix)
	}
	page, err := get[callPage[call]](ctx, c, "/calls?"+url.Values{"until": {since}, "limit": {"1"}, "synthetic": {"false"}}.Encode())
	if err == nil && len(page.read.Calls) == 0 {
		err = errors.New(fix)
	}
	return err
}
