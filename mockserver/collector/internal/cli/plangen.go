package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/plan"
	"github.com/seed-45eadc4a/analytics-go/plan/generate"
)

func newPlanGen() *cobra.Command {
	var packageName, output string
	cmd := &cobra.Command{
		Use:   "gen PLAN",
		Short: "Write Go with a type for each event of a plan",
		Long: `Write Go with a type for each event of a plan, and for traits. A property that is
misspelled, or of a wrong type, does not compile then. The documentation of the
package plan/generate says what the types are.

Without --output it is printed. The same plan gives the same bytes.`,
		Example: `  collector plan gen plan.yaml --package events --output events/events.go

In a Go file, for go generate, without an installed collector:

  //go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -o events.go plan.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name the file of a plan, as in %s", cmd.UseLine())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&packageName, "package", generate.Package, "the `name` of the package")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `file` to write")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := plan.Load(args[0])
		if err != nil {
			return err
		}
		text, err := generate.Events(p, packageName)
		if err != nil {
			return err
		}
		if output != "" {
			return os.WriteFile(output, text, 0o644)
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}
