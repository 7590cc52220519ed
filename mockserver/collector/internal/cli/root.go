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

// Main runs the command and returns its exit code: 0; 1 when it failed or what it was
// asked about does not hold; 2 when the command line is wrong.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	root := New()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(errOut, "collector:", err)
	}
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// New returns the command with all that it has. Documents are made of it.
func New() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "collector",
		Short: "Take analytics calls, keep them, and forward them to webhooks",
		Long: `Collector takes analytics calls over HTTP (identify, track, page, screen, group
and alias), keeps each on disk before it answers, and forwards it to the webhooks
that are to get it: signed, retried for four hours, and with an account in which
no call is missing.

Try it in two terminals:

  collector dev
  collector send track --event 'Signed Up' --user-id u1

For production, write a configuration and run it:

  collector serve --example > collector.yaml
  collector check --config collector.yaml
  collector serve --config collector.yaml

The exit code is 0; 1 when a command failed, or what it was asked about does not
hold; 2 when the command line is wrong.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("collector {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a collector:"},
		&cobra.Group{ID: "use", Title: "Use one that runs:"},
		&cobra.Group{ID: "plan", Title: "Plan what is tracked:"},
	)
	for _, c := range []*cobra.Command{newDev(), newServe(), newCheck()} {
		c.GroupID = "run"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newSend(), newExpect(), newCalls(), newOpen(), newStatus(), newDestinations(), newHealth(), newVerify(), newReplay(), newPause(), newResume(), newDeleteUser(), newDeletions(), newAudience(), newTrait(), newVersion()} {
		c.GroupID = "use"
		root.AddCommand(c)
	}
	plan := newPlan()
	plan.GroupID = "plan"
	root.AddCommand(plan)
	return root
}
