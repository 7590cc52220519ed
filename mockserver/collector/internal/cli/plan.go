package cli

import (
	"fmt"
	"io"
	"os"
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
		Short: "Make a tracking plan, hold calls against it, compare two, generate Go",
		Long: `A tracking plan is a file, YAML or JSON, that says which calls a program makes and
what each has. Exports of the service's Protocols, RudderStack's tracking plans and
Typewriter's plan.json are read as they are. The documentation of the package plan
describes it. A rule that constrains no field of a call is a warning.

Begin with what is sent today, and look it through:

  collector plan infer --collector > plan.yaml
  collector plan check plan.yaml --collector`,
	}, newPlanCheck(), newPlanInfer(), newPlanDiff(), newPlanGen())
}

func newPlanCheck() *cobra.Command {
	var calls callSource
	var github, unused bool
	cmd := &cobra.Command{
		Use:   "check PLAN [FILE...]",
		Short: "Hold calls against a plan",
		Long: `Hold calls against a plan, and list what is not as planned, with the line of the
plan. Calls come from files, or from standard input: JSON, one call a line, as
collector calls --output jsonl prints them, or one array of calls, as GET /messages of
collector dev answers. With --collector they are those that a collector that runs
remembers.

The exit code is 1 if a call is not as planned, a file has what is no call, or there is
no call at all; with --unused also if the plan has an event that no call was.`,
		Example: `  collector plan check plan.yaml < calls.jsonl
  collector plan check plan.yaml --github calls.jsonl
  collector plan check plan.yaml --collector --source web --since 1h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name the file of a plan, as in %s", cmd.UseLine())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&github, "github", false, "print lines that GitHub Actions shows beside the plan, ::error file=…")
	cmd.Flags().BoolVar(&unused, "unused", false, "fail if the plan has an event that no call was")
	calls.addTo(cmd)
	calls.client.output.addOutputTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := plan.Load(args[0])
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
		switch out := cmd.OutOrStdout(); {
		case calls.client.output.data():
			err = c.printData(out, &calls.client.output)
		case github:
			c.printGitHub(out)
		default:
			c.print(out)
		}
		if err == nil && !c.ok() {
			err = errReported
		}
		return err
	}
	return cmd
}

// checked is what came of holding calls against a plan.
type checked struct {
	plan   *plan.Plan
	report *plan.Report
	unused bool // events that no call was are wrong
}

func (c *checked) ok() bool {
	return c.report.OK() && !(c.unused && len(c.report.Unused()) > 0)
}

func (c *checked) print(out io.Writer) {
	for line := range strings.Lines(c.report.String()) {
		fmt.Fprintln(out, plain(strings.TrimRight(line, "\n")))
	}
	if passed := c.report.Passed(); passed > 0 {
		fmt.Fprintf(out, "%s of types that the plan says nothing of\n", are(passed, "call"))
	}
	if list := c.report.Unused(); len(list) > 0 {
		fmt.Fprintf(out, "%s planned, and no call was one:\n", are(len(list), "event"))
		for _, e := range list {
			fmt.Fprintf(out, "  %s (%s:%d)\n", plain(e.String()), e.File, e.Line)
		}
	}
}

// printGitHub prints workflow commands, as
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions has them.
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
		annotate(out, level, e.File, e.Line, "unused event", e.String()+" is planned, and no call was one")
	}
	summary, _, _ := strings.Cut(c.report.String(), "\n")
	if len(c.report.Groups()) == 0 && !c.report.OK() {
		annotate(out, "error", c.plan.File(), 1, "no calls", summary)
		return
	}
	fmt.Fprintln(out, plain(summary))
}

// annotate prints one workflow command, in which some characters are escaped.
func annotate(out io.Writer, level, file string, line int, title, text string) {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	fmt.Fprintf(out, "::%s file=%s,line=%d,title=%s::%s\n", level, property.Replace(file), max(1, line), property.Replace(title), data.Replace(text))
}

// An unusedEvent is one as scripts read it.
type unusedEvent struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	Line int    `json:"line"`
}

func (c *checked) printData(out io.Writer, form *output) error {
	judged, bad := c.report.Calls()
	answer := struct {
		OK         bool          `json:"ok"`
		Plan       string        `json:"plan"`
		Calls      int           `json:"calls"`  // that the plan judges
		Bad        int           `json:"bad"`    // of them
		Passed     int           `json:"passed"` // of types that it says nothing of
		Violations []plan.Group  `json:"violations"`
		Unused     []unusedEvent `json:"unused"`
	}{c.ok(), c.plan.File(), judged, bad, c.report.Passed(), c.report.Groups(), []unusedEvent{}}
	for _, e := range c.report.Unused() {
		answer.Unused = append(answer.Unused, unusedEvent{e.Type, e.Name, e.Line})
	}
	return form.print(out, answer, "violations")
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
		Short: "Print the plan of calls that were seen",
		Long: `Print the plan that all calls given are as: types, required where a property always
came, enum where it had few values, formats. Comments say what is not sure. Calls
come from where collector plan check takes them.

Memory is bounded however many calls there are. What is no call is listed and left
out.`,
		Example: `  collector plan infer calls.jsonl > plan.yaml
  collector plan infer --collector --source web > plan.yaml`,
	}
	cmd.Flags().StringVar(&config.Name, "name", "inferred", "the name of the plan")
	cmd.Flags().IntVar(&config.MaxEnum, "max-enum", 12, "how many values a property may have to become an enum; -1 for no enums")
	calls.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x := infer.New(config)
		bad := 0
		err := calls.each(cmd, args, func(place string, call []byte) {
			if err := x.Add(call); err != nil {
				if bad++; bad <= 10 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", place, err)
				}
			}
		})
		if err != nil {
			return err
		}
		if bad > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s left out: no calls\n", are(bad, "line"))
		}
		if taken, _ := x.Calls(); taken == 0 {
			return fmt.Errorf("there is no call to make a plan of: give files, or --collector")
		}
		_, err = x.WriteTo(cmd.OutOrStdout())
		return err
	}
	return cmd
}

func newPlanDiff() *cobra.Command {
	var form output
	var failOn string
	whoms := []string{"senders", "receivers", "any"}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say which changes of a plan break senders, and which break receivers",
		Long: `Compare two plans. A change breaks senders if calls that were as planned are not any
more, and receivers if what they could rely on does not hold any more: a property
may be missing, or have values that it could not have before. Receivers are taken to
ignore what they do not know, and senders not to send what was not planned.

The exit code is 0, also if there are changes; with --fail-on 1 if some break those.`,
		Example: `  collector plan diff main/plan.yaml plan.yaml --fail-on any`,
		Args:    exactly(2, "name two files, as in %s"),
	}
	form.addOutputTo(cmd)
	cmd.Flags().StringVar(&failOn, "fail-on", "", "fail if a change breaks `whom`: senders, receivers or any")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(whoms, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if failOn != "" && !slices.Contains(whoms, failOn) {
			return usagef("--fail-on %q is not known: there are senders, receivers and any", failOn)
		}
		before, err := plan.Load(args[0])
		if err != nil {
			return err
		}
		after, err := plan.Load(args[1])
		if err != nil {
			return err
		}
		changes := plan.Diff(before, after)
		if err := printChanges(cmd.OutOrStdout(), changes, form); err != nil {
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

func printChanges(out io.Writer, changes []plan.Change, form output) error {
	if form.data() {
		return form.print(out, map[string]any{"changes": append([]plan.Change{}, changes...)}, "changes")
	}
	if len(changes) == 0 {
		fmt.Fprintln(out, "the plans allow the same calls")
	}
	for _, c := range changes {
		fmt.Fprintln(out, plain(c.String()))
	}
	return nil
}

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

In a Go file, for go generate, without an installed collector, once
go get -tool github.com/seed-45eadc4a/analytics-go/plan/gen has put it into go.mod:

  //go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -o events.go plan.yaml`,
		Args: onePlan,
	}
	cmd.Flags().StringVar(&packageName, "package", generate.Package, "the `name` of the package")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `file` to write")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := plan.Load(args[0])
		if err != nil {
			return err
		}
		printWarnings(cmd.ErrOrStderr(), p)
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
