package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/yamldoc"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
)

func newExpect() *cobra.Command {
	var c client
	var file string
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "expect --file FILE",
		Short: "Wait for the calls that a file expects",
		Long: `Wait until the calls that collector dev received match a file of expectations, and
print the differences if they do not. Calls count from the start of the collector, or
from the last POST /reset.

The file is YAML or JSON with the fields of POST /expect; see the testing guide:

  collector expect --file expectations.yaml --within 10s

The exit code is 0 if all expectations are met; 1 if one is not, or if the collector does
not respond; 2 if the command line or the file is invalid.`,
		Example: `  collector expect --file expectations.yaml
  collector expect --file expectations.yaml --within 10s --json
  collector expect --file - --url http://127.0.0.1:8765 < expectations.yaml`,
		Args: noArgs,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the `file` with the expectations; - is standard input")
	cmd.Flags().DurationVar(&within, "within", 0, "how long to wait for the calls (default: the value in the file, or 5s)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireOne(cmd, "file"); err != nil {
			return err
		}
		if within > expect.MaxWithin {
			return usagef("invalid --within %v: use a duration of at most %v", within, expect.MaxWithin)
		}
		report, doc, err := c.expect(cmd, file, within)
		if err != nil {
			return err
		}
		err = printResponse(cmd, &c, report, "expectations", func(out *printer, report expect.Report) {
			fmt.Fprintln(out, plainLines(report.Text(func(i int) string { return place(file, doc.Line([]any{"expect", i})) })))
		})
		if err == nil && !report.read.OK {
			err = errReported
		}
		return err
	}
	return c.addTo(cmd)
}

// expect reads a file of expectations and sends them to the collector.
func (c *client) expect(cmd *cobra.Command, file string, within time.Duration) (report response[expect.Report], doc *yamldoc.Document, err error) {
	if doc, err = readExpectations(cmd, file); err != nil {
		return report, nil, usageError{err}
	}
	request, problems := expect.Parse(doc.Value)
	if len(problems) > 0 {
		return report, nil, mistakes(file, doc, problems)
	}
	if within > 0 {
		doc.Value.(map[string]any)["within"] = within.String()
		request.Within = within
	}
	report, err = c.await(cmd.Context(), doc.Value, request)
	return report, doc, err
}

// await sends a document with expectations to the collector and returns its report. request is the
// parsed document.
func (c *client) await(ctx context.Context, document any, request *expect.Request) (report response[expect.Report], err error) {
	body, err := json.Marshal(document)
	if err != nil {
		return report, err
	}
	ctx, cancel := context.WithTimeout(ctx, request.Within+grace)
	defer cancel()
	req, err := c.requestTo(ctx, http.MethodPost, "/expect", bytes.NewReader(body))
	if err != nil {
		return report, err
	}
	status, data, err := c.exchange(req)
	switch {
	case err != nil:
		return report, err
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return report, fmt.Errorf("%s://%s has no /expect: use a collector that was started with collector dev", req.URL.Scheme, req.URL.Host)
	case status != http.StatusOK && !strings.Contains(string(data), expect.CodeNotMet):
		return report, refusal(req, status, data)
	}
	if err := json.Unmarshal(data, &report); err != nil || len(report.read.Expectations) != len(request.Expect) {
		return report, notCollectorError(status, data)
	}
	return report, nil
}

// readExpectations reads a file, or standard input for "-".
func readExpectations(cmd *cobra.Command, file string) (*yamldoc.Document, error) {
	f, _, err := openFile(cmd, file, "expectations")
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, yamldoc.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	doc, err := yamldoc.Read(text)
	var syntax *yamldoc.SyntaxError
	if errors.As(err, &syntax) {
		return nil, fmt.Errorf("%s: %s", place(file, syntax.Line), syntax.Problem)
	}
	return doc, err
}

// place returns a file and a line, unless the line is 0, for the beginning of a message.
func place(file string, line int) string {
	if file == "-" {
		file = "standard input"
	}
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// mistakes returns a usageError that lists problems by line.
func mistakes(file string, doc *yamldoc.Document, problems []expect.Problem) error {
	slices.SortStableFunc(problems, func(a, b expect.Problem) int {
		return cmp.Compare(doc.Line(a.Path), doc.Line(b.Path))
	})
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = place(file, doc.Line(p.Path)) + ": " + p.String()
	}
	return usagef("%s", strings.Join(lines, "\n"))
}
