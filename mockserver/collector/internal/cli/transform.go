package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func newTransform() *cobra.Command {
	return group(&cobra.Command{
		Use:   "transform",
		Short: "Test the jq program of a destination",
		Long: `The transform of a destination is a jq program that changes the body of webhook
requests; see the webhooks guide.`,
	}, newTransformTest())
}

func newTransformTest() *cobra.Command {
	var calls callSource
	var t trials
	var path, name, program string
	cmd := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Print the bodies that a destination would send",
		Long: `Print the body that a destination would send for each call, after its filters, redaction
and transform, one per line. Nothing is sent. Filtered and failed calls are reported on
standard error, with the reason.

--config and --destination select a destination, and --program replaces its program.
Without a destination, --program applies to all calls.

Calls are read from files or standard input: JSON with one call per line, as printed by
collector calls --output jsonl, or a JSON array of calls. With --collector, the recent
calls of a running collector are used instead.

The exit code is 1 if a call fails, or if there are no calls; 2 if a file is invalid.`,
		Example: `  collector transform test --config collector.yaml --destination crm < calls.jsonl
  collector transform test --program '{text: "\(.userId) did \(.event)"}' calls.jsonl
  collector transform test --config collector.yaml --destination crm --collector --since 1h`,
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `file`")
	cmd.Flags().StringVar(&name, "destination", "", "the `name` of a destination in the configuration file")
	cmd.Flags().StringVar(&program, "program", "", "a jq `program` to use instead of the one in the file")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	calls.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (path == "") != (name == "") {
			return usagef("specify both --config and --destination, or --program alone")
		}
		if path == "" && program == "" {
			return usagef("specify --config and --destination, or --program")
		}
		if path != "" {
			c, err := config.Load(path)
			if err != nil {
				return reportProblems(cmd, err)
			}
			if err := t.choose(c, name); err != nil {
				return err
			}
		}
		if err := t.compile(program); err != nil {
			return err
		}
		out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := calls.each(cmd, args, func(place string, call []byte) { t.try(out, errOut, place, call) }); err != nil {
			return err
		}
		return t.report(errOut)
	}
	return cmd
}

// trials applies the settings of a destination to calls, and counts the results.
type trials struct {
	destination tracking.Destination
	rules       *redact.Rules
	transform   webhook.Transform

	printed, filtered, failed int
	err                       error // of the output
}

// choose selects a destination of a configuration, as if it were enabled.
func (t *trials) choose(c *config.Config, name string) error {
	d := c.Settings().Destination(name)
	if d == nil {
		return usagef("--destination: the configuration has no destination %.80q", name)
	}
	t.destination, t.rules = *d, d.Redact.Rules([]byte(c.RedactKey))
	t.destination.Disabled = false
	return nil
}

// compile compiles a program, or the program of the destination if it is empty.
func (t *trials) compile(program string) error {
	t.destination.Transform = cmp.Or(program, t.destination.Transform)
	if err := settings.TransformProblem(jq.Compile, t.destination.Transform); err != nil {
		if p := (*webhook.FieldError)(nil); program != "" && errors.As(err, &p) {
			p.Field = "--program"
		}
		return usageError{err}
	}
	t.transform = settings.Transform(jq.Compile, t.destination.Transform)
	return nil
}

// try prints the result for one call.
func (t *trials) try(out, errOut io.Writer, place string, body []byte) {
	source := ""
	if len(t.destination.Sources) > 0 {
		source = t.destination.Sources[0] // a call does not contain its source
	}
	r := engine.Trial{Failed: true, Reason: "the call is not a JSON object"}
	if call, err := event.ReadCall(source, body); err == nil {
		r = engine.Try(&t.destination, t.rules, t.transform, &call)
	}
	switch {
	case r.Failed:
		t.failed++
		fmt.Fprintf(errOut, "%s: failed: %s\n", plain(place), plain(r.Reason))
	case r.Reason != "":
		t.filtered++
		fmt.Fprintf(errOut, "%s: filtered: %s\n", plain(place), plain(r.Reason))
	default:
		t.printed++
		if _, err := fmt.Fprintf(out, "%s\n", r.Body); err != nil {
			t.err = err
		}
	}
}

// report prints the counts.
func (t *trials) report(errOut io.Writer) error {
	n := t.printed + t.filtered + t.failed
	if n == 0 {
		return errors.New("no calls: specify files, or use --collector")
	}
	fmt.Fprintf(errOut, "%s: %d printed, %d filtered, %d failed\n", count(n, "call"), t.printed, t.filtered, t.failed)
	if t.err == nil && t.failed > 0 {
		return errReported
	}
	return t.err
}
