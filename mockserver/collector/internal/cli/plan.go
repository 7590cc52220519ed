package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/plan"
	"github.com/seed-45eadc4a/analytics-go/plan/generate"
	"github.com/seed-45eadc4a/analytics-go/plan/infer"
)

func newPlan() *cobra.Command {
	return group(&cobra.Command{
		Use:   "plan",
		Short: "Check calls against a tracking plan, infer plans, compare them, generate Go",
		Long: `A tracking plan is a YAML or JSON file that defines the calls of a program and their
fields. It can also be an export of the service's Protocols, a RudderStack tracking
plan, or the plan.json of Typewriter. See the documentation of the package plan. Rules
without any effect cause a warning.

Start with a plan inferred from current calls, and review it:

  collector plan infer --collector > plan.yaml
  collector plan check plan.yaml --collector`,
	}, newPlanCheck(), newPlanInfer(), newPlanDiff(), newPlanGen())
}

func newPlanCheck() *cobra.Command {
	var calls callSource
	var github, unused bool
	cmd := &cobra.Command{
		Use:   "check PLAN [FILE...]",
		Short: "Check calls against a plan",
		Long: `Check calls against a plan, and list violations with the line of the plan. Calls are
read from files or standard input: JSON, one call per line, as printed by collector
calls --output jsonl, or an array of calls, as returned by GET /messages of collector
dev. With --collector they come from a running collector, which has the recent calls.

The exit code is 1 if a call violates the plan, or if there are no calls; with --unused
also if the plan has an event without calls. It is 2 if a file is invalid.`,
		Example: `  collector plan check plan.yaml < calls.jsonl
  collector plan check plan.yaml --github calls.jsonl
  collector plan check plan.yaml --collector --source web --since 1h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("specify a plan file: %s", cmd.UseLine())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&github, "github", false, "print annotations for GitHub Actions: ::error file=…")
	cmd.Flags().BoolVar(&unused, "unused", false, "fail if the plan has an event without calls")
	calls.addTo(cmd)
	calls.client.output.addOutputTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPlan(args[0])
		if err != nil {
			return err
		}
		report := p.NewReport()
		err = calls.each(cmd, args[1:], func(place string, call []byte) { report.AddFrom(place, call) })
		if err != nil {
			return err
		}
		if !github {
			printWarnings(cmd.ErrOrStderr(), p)
		}
		c := checked{p, report, unused}
		err = calls.client.output.write(cmd, c.data(), "violations", func(out *printer) {
			if github {
				c.printGitHub(out)
				return
			}
			c.print(out)
			c.printUnused(out)
		})
		if err == nil && !c.ok() {
			err = errReported
		}
		return err
	}
	return cmd
}

// loadPlan is like plan.Load. Its errors are usageErrors.
func loadPlan(path string) (*plan.Plan, error) {
	p, err := plan.Load(path)
	if err != nil {
		return nil, usageError{err}
	}
	return p, nil
}

// checked contains the results of checking calls against a plan.
type checked struct {
	plan   *plan.Plan
	report *plan.Report
	unused bool // whether events without calls are an error
}

func (c *checked) ok() bool {
	return c.report.OK() && !(c.unused && len(c.report.Unused()) > 0)
}

func (c *checked) print(out io.Writer) {
	fmt.Fprintln(out, plainLines(c.report.String()))
	if passed := c.report.Passed(); passed > 0 {
		fmt.Fprintf(out, "%s of types that are not in the plan\n", count(passed, "call"))
	}
}

// printUnused lists the events of the plan that have no calls.
func (c *checked) printUnused(out io.Writer) {
	if list := c.report.Unused(); len(list) > 0 {
		fmt.Fprintf(out, "%s in the plan without calls:\n", count(len(list), "event"))
		for _, e := range list {
			fmt.Fprintf(out, "  %s (%s:%d)\n", plain(e.String()), e.File, e.Line)
		}
	}
}

// printGitHub prints workflow commands; see
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
func (c *checked) printGitHub(out io.Writer) {
	for _, w := range c.plan.Warnings() {
		annotate(out, "warning", w.File, w.Line, "plan", w.Text())
	}
	for _, g := range c.report.Groups() {
		text := g.Sentence()
		if g.Calls > 1 {
			text += fmt.Sprintf(" (%d calls)", g.Calls)
		}
		if g.First != "" {
			text += ", first at " + g.First
		}
		annotate(out, "error", g.File, g.Line, string(g.Kind), text)
	}
	level := "notice"
	if c.unused {
		level = "error"
	}
	for _, e := range c.report.Unused() {
		annotate(out, level, e.File, e.Line, "unused event", e.String()+" is in the plan, but has no calls")
	}
	summary, _, _ := strings.Cut(c.report.String(), "\n")
	if len(c.report.Groups()) == 0 && !c.report.OK() {
		annotate(out, "error", c.plan.File(), 1, "no calls", summary)
		return
	}
	fmt.Fprintln(out, plain(summary))
}

// annotate prints a workflow command. It escapes the values.
func annotate(out io.Writer, level, file string, line int, title, text string) {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	fmt.Fprintf(out, "::%s file=%s,line=%d,title=%s::%s\n", level, property.Replace(file), max(1, line), property.Replace(title), data.Replace(text))
}

// An unusedEvent is an event of the plan that has no calls.
type unusedEvent struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	Line int    `json:"line"`
}

// data returns the results for scripts.
func (c *checked) data() any {
	judged, bad := c.report.Calls()
	result := struct {
		OK         bool          `json:"ok"`
		Plan       string        `json:"plan"`
		Calls      int           `json:"calls"`  // number of calls with a type in the plan
		Bad        int           `json:"bad"`    // number of calls that violate the plan
		Passed     int           `json:"passed"` // number of calls with other types
		Violations []plan.Group  `json:"violations"`
		Unused     []unusedEvent `json:"unused"`
	}{c.ok(), c.plan.File(), judged, bad, c.report.Passed(), c.report.Groups(), []unusedEvent{}}
	for _, e := range c.report.Unused() {
		result.Unused = append(result.Unused, unusedEvent{e.Type, e.Name, e.Line})
	}
	return result
}

func printWarnings(out io.Writer, p *plan.Plan) {
	for _, w := range p.Warnings() {
		fmt.Fprintln(out, "warning:", plain(w.Error()))
	}
}

func newPlanInfer() *cobra.Command {
	var calls callSource
	var config infer.Config
	cmd := &cobra.Command{
		Use:   "infer [FILE...]",
		Short: "Print a plan inferred from calls",
		Long: `Infer a plan that all given calls conform to: types, required properties, enums of
properties with few values, and formats. Comments mark uncertain rules. The command
reads the same input as collector plan check.

Memory use does not grow with the number of calls. Invalid calls are listed and
skipped.`,
		Example: `  collector plan infer calls.jsonl > plan.yaml
  collector plan infer --collector --source web > plan.yaml`,
	}
	cmd.Flags().StringVar(&config.Name, "name", "inferred", "the name of the plan")
	cmd.Flags().IntVar(&config.MaxEnum, "max-enum", 12, "the maximum number of values of an enum; 0 for no enums")
	calls.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if config.MaxEnum == 0 {
			config.MaxEnum = -1 // infer.New treats 0 as the default
		}
		x := infer.New(config)
		bad := 0
		err := calls.each(cmd, args, func(place string, call []byte) {
			if err := x.Add(call); err != nil {
				if bad++; bad <= 10 {
					fmt.Fprintln(cmd.ErrOrStderr(), plain(fmt.Sprintf("%s: %v", place, err)))
				}
			}
		})
		if err != nil {
			return err
		}
		if bad > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "skipped %s without a call\n", count(bad, "line"))
		}
		switch taken, ignored := x.Calls(); {
		case taken > 0:
			_, err = x.WriteTo(cmd.OutOrStdout())
			return err
		case ignored > 0:
			return fmt.Errorf("no calls to infer a plan from: the input has only calls of types that plans do not describe, such as alias (%s)", count(ignored, "call"))
		case bad > 0:
			return errors.New(`no calls to infer a plan from: a call is a JSON object with a "type", such as each line of collector calls --output jsonl`)
		case calls.collector:
			return errors.New("no calls to infer a plan from: send calls to the collector, or use fewer filters")
		}
		return errors.New("the input contains no calls: specify files, or --collector")
	}
	return cmd
}

func newPlanDiff() *cobra.Command {
	var form output
	var failOn string
	whoms := []string{"senders", "receivers", "any"}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two plans and report breaking changes",
		Long: `Compare two plans. A change breaks senders if calls that conformed to the old plan
violate the new one. It breaks receivers if a guarantee no longer holds: a property can
be missing, or can have new values. Receivers are assumed to ignore unknown
properties, and senders not to send unplanned ones.

The exit code is 0 even if there are changes; with --fail-on it is 1 if a change breaks
the given side.`,
		Example: `  collector plan diff main/plan.yaml plan.yaml --fail-on any`,
		Args:    exactly(2, "specify two plan files: %s"),
	}
	form.addOutputTo(cmd)
	cmd.Flags().StringVar(&failOn, "fail-on", "", "fail if a change breaks this `side`: senders, receivers or any")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(whoms, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if failOn != "" && !slices.Contains(whoms, failOn) {
			return usagef("invalid --fail-on %q: use senders, receivers or any", failOn)
		}
		before, err := loadPlan(args[0])
		if err != nil {
			return err
		}
		after, err := loadPlan(args[1])
		if err != nil {
			return err
		}
		changes := plan.Diff(before, after)
		data := map[string]any{"changes": append([]plan.Change{}, changes...)}
		if err := form.write(cmd, data, "changes", func(out *printer) { printChanges(out, changes) }); err != nil {
			return err
		}
		breaking := func(c plan.Change) bool {
			return c.BreaksSenders && failOn != "receivers" || c.BreaksReceivers && failOn != "senders"
		}
		if failOn != "" && slices.ContainsFunc(changes, breaking) {
			return errReported
		}
		return nil
	}
	return cmd
}

func printChanges(out io.Writer, changes []plan.Change) {
	if len(changes) == 0 {
		fmt.Fprintln(out, "the plans allow the same calls")
	}
	for _, c := range changes {
		fmt.Fprintln(out, plain(c.String()))
	}
}

func newPlanGen() *cobra.Command {
	var packageName, output string
	cmd := &cobra.Command{
		Use:   "gen PLAN",
		Short: "Generate Go types for the events of a plan",
		Long: `Generate Go code with a type for each event of a plan, and for traits. A misspelled
property or a wrong type is then a compile error. See the documentation of the package
plan/generate.

Without --output the code is printed. The same plan always generates the same code.`,
		Example: `  collector plan gen plan.yaml --package events --output events/events.go

In a Go file, for go generate without an installed collector, after
go get -tool github.com/seed-45eadc4a/analytics-go/plan/gen:

  //go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -o events.go plan.yaml`,
		Args: onePlan,
	}
	cmd.Flags().StringVar(&packageName, "package", generate.Package, "the `name` of the package")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `file` to write")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPlan(args[0])
		if err != nil {
			return err
		}
		printWarnings(cmd.ErrOrStderr(), p)
		text, err := generate.Events(p, packageName)
		if err != nil {
			return usageError{err}
		}
		if output == "" {
			_, err = cmd.OutOrStdout().Write(text)
			return err
		}
		if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
			return err
		}
		return os.WriteFile(output, text, 0o644)
	}
	return cmd
}
