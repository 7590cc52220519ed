package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the command and returns its exit code: 0 for success, 2 for a usageError unless the command has
// the annotation neverExits2, and 1 for other errors and failed checks.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal terminates the program immediately
	root := New()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(errOut, "collector:", plainLines(err.Error())) // an error can contain text from senders and receivers
	}
	if _, never := cmd.Annotations[neverExits2]; !never && errors.As(err, new(usageError)) && ctx.Err() == nil {
		return 2
	}
	return 1
}

// neverExits2 is the annotation of a command whose exit code is 1 for a usageError.
const neverExits2 = "never exits with 2"

// New returns the command with its subcommands.
func New() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "collector",
		Short: "Collect analytics calls and forward them to webhooks",
		Long: `Collector receives analytics calls over HTTP, stores each on disk before it
responds, and forwards it to webhooks: signed, retried for four hours, and
recorded in a ledger that accounts for every call.

Try it in two terminals:

  collector dev
  collector send track --event 'Signed Up' --user-id u1

For production, write a configuration file and run it:

  collector serve --example > collector.yaml
  collector check --config collector.yaml
  collector serve --config collector.yaml

Exit codes: 0 for success; 1 if the command failed or a check did not pass; 2 if the
command line, the environment, or a file that they name is missing or invalid.
collector health exits with 1 instead of 2.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.PersistentPreRunE = checkDurations
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("collector {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a collector:"},
		&cobra.Group{ID: "use", Title: "Use a running collector:"},
		&cobra.Group{ID: "plan", Title: "Tracking plans:"},
	)
	for _, c := range []*cobra.Command{newDev(), newServe(), newCheck(), newTransform()} {
		c.GroupID = "run"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newSend(), newExpect(), newBaseline(), newCalls(), newOpen(), newStatus(), newDestinations(), newHealth(), newVerify(), newReplay(), newMCP(), newPause(), newResume(), newDeleteUser(), newDeletions(), newAudience(), newTrait(), newVersion()} {
		c.GroupID = "use"
		root.AddCommand(c)
	}
	plan := newPlan()
	plan.GroupID = "plan"
	root.AddCommand(plan)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("") // adds the command even if it is not called
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = knownCommand
		case "completion":
			group(c)
			for _, shell := range c.Commands() {
				shell.Args = noArgs
			}
		}
	}
	return root
}
