package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A usageError is a mistake in the command line, the environment, or a file that they name. Its exit
// code is 2. A file that a command checks is an exception: its mistakes are a failed check.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported is the error of a command that has already printed its errors.
var errReported = errors.New("it was reported")

// atMost returns a check for at most n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("unexpected argument %q: see %s --help", args[n], cmd.CommandPath())
		}
		if slices.Contains(args, "") { // such as a variable that is not set
			return usagef("the argument is empty: see %s --help", cmd.CommandPath())
		}
		return nil
	}
}

// oneCommand checks the arguments of a command group. Each argument is an unknown command.
func oneCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return usagef("unknown command %q: %s", args[0], suggestion(cmd, cmd.CommandPath()+" ", args[0], names))
}

// knownCommand checks that the arguments of the command help are a command.
func knownCommand(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	if err != nil {
		return usageError{err}
	}
	return oneCommand(cmd, rest)
}

// suggestion returns a question such as "did you mean --event?": prefix and the known name that begins with
// name, or the most similar one. Without such a name, it refers to the help of cmd.
func suggestion(cmd *cobra.Command, prefix, name string, known []string) string {
	best := spell.Closest(name, known)
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, name) }); i >= 0 && name != "" {
		best = known[i]
	}
	if best == "" {
		return "see " + cmd.CommandPath() + " --help"
	}
	return "did you mean " + prefix + best + "?"
}

// exactly returns a check for exactly n arguments. usage is the format of the error, which contains
// the usage line.
func exactly(n int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n || slices.Contains(args, "") {
			return usagef(usage, cmd.UseLine())
		}
		return nil
	}
}

var (
	noArgs         = atMost(0)
	atMostOne      = atMost(1)
	oneName        = exactly(1, "specify one name, in quotes if it contains spaces: %s")
	oneDestination = exactly(1, "specify one destination: %s; collector status lists them")
	onePlan        = exactly(1, "specify a plan file: %s")
)

// group makes cmd a group of commands. Without arguments, the group prints its help.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = oneCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// listGroup makes cmd a group of commands. Without arguments, the group runs list.
func listGroup(cmd, list *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	group(cmd, append(commands, list)...)
	cmd.RunE = list.RunE
	cmd.Flags().AddFlagSet(list.Flags())
	return cmd
}

// requireOne checks that at least one of the flags is set.
func requireOne(cmd *cobra.Command, flags ...string) error {
	if slices.ContainsFunc(flags, func(name string) bool { return cmd.Flags().Lookup(name).Value.String() != "" }) {
		return nil
	}
	const or = " or --"
	return usagef("--%s is not set: see %s --help", strings.Join(flags, or), cmd.CommandPath())
}

// flagError converts errors of pflag to usage errors.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var usage usageError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &unknown):
		return usagef("%w: %s", err, hintForFlag(cmd, cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())))
	case errors.As(err, &usage):
		return usage
	case errors.As(err, &missing):
		return usagef("--%s needs a value: see %s --help", missing.GetFlag().Name, cmd.CommandPath())
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if invalid.GetValue() == "" && f.Value.Type() == "string" {
			return usagef("--%s is empty: see %s --help", f.Name, cmd.CommandPath())
		}
		return usagef("invalid --%s %q: use %s", f.Name, invalid.GetValue(), valueOf(f))
	}
	return usagef("%w: see %s --help", err, cmd.CommandPath())
}

// checkDurations returns an error for a flag with a negative duration.
func checkDurations(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if d, _ := cmd.Flags().GetDuration(f.Name); d < 0 {
			err = usagef("invalid --%s %q: use %s", f.Name, d, valueOf(f))
		}
	})
	return err
}

// checkLimit returns an error for a --limit that the API refuses.
func checkLimit(limit int) error {
	if limit < 1 || limit > 500 {
		return usagef("invalid --limit %d: use a number from 1 to 500", limit)
	}
	return nil
}

// hintForFlag returns a hint for a flag that a command does not have. It names the commands of the
// group that have the flag, or a similar flag.
func hintForFlag(cmd *cobra.Command, flag string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.Flags().Lookup(flag) != nil {
			names = append(names, sub.Name())
		}
	}
	switch len(names) {
	case 0:
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return suggestion(cmd, "--", flag, names)
	case 1:
		return "did you mean " + cmd.CommandPath() + " " + names[0] + "?"
	}
	return "name a command: " + cmd.CommandPath() + " " + text.Alternatives(names)
}

// valueOf describes the values that a flag accepts.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool", "boolfunc":
		return "true or false"
	case "duration":
		return "a duration such as 30s or 5m"
	case "int", "int64":
		return "a whole number"
	}
	return "a " + f.Value.Type()
}
