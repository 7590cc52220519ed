package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func newDestinations() *cobra.Command {
	const short = "List, add, test and remove destinations"
	return listGroup(&cobra.Command{
		Use: "destinations", Aliases: []string{"destination"}, Short: short,
		Long: short + `. Without a command, list
them. Destinations in the configuration file can be listed and tested, but are changed
in the file.`,
		Example: "  collector destinations\n  collector destinations test crm",
	}, newDestinationList(), newDestinationAdd(), newDestinationTest(), newDestinationRemove())
}

func newDestinationList() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:     "list",
		Short:   "List the destinations with their webhooks and status",
		Example: "  collector destinations list\n  collector destinations list -o jsonl | jq -r .name",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &c, query{path: "/destinations", list: "destinations"}, func(out *printer, list destinationList) {
				table(out, "no destinations: add one with collector destinations add NAME URL", "NAME,STATE,PENDING,FAILED,SOURCES,URLS", func(row func(...any)) {
					for _, d := range list.Destinations {
						row(d.Name, d.state(), d.Ledger.Pending, d.Ledger.Failed, d.from(), strings.Join(d.urls(), ", "))
					}
				})
			})
		},
	})
}

// from returns the names of the sources, or "all".
func (d *destination) from() string {
	if len(d.Sources) == 0 {
		return "all"
	}
	return strings.Join(d.Sources, ", ")
}

func (d *destination) urls() (urls []string) {
	for _, w := range d.Endpoints() {
		urls = append(urls, w.URL)
	}
	return urls
}

// An addition is the request body for a new destination.
type addition struct {
	Name         string   `json:"name"`
	Sources      []string `json:"sources,omitempty"`
	Types        allowed  `json:"types,omitzero"`
	Events       allowed  `json:"events,omitzero"`
	MaxPerSecond float64  `json:"maxPerSecond,omitempty"`
	webhook.Settings
}

type allowed struct {
	Allow []string `json:"allow,omitempty"`
}

func newDestinationAdd() *cobra.Command {
	var c client
	var a addition
	var headers []string
	var secretFile, keyFile string
	cmd := &cobra.Command{
		Use:   "add NAME [URL...]",
		Short: "Add a destination",
		Long: `Add a destination that receives new calls at a URL. With several URLs, up to five, each
receives every call, and one 2xx response counts as delivered.

With --write-key-file, the destination is a relay. It sends calls to Segment, or to
another collector at the URL, such as RudderStack or Jitsu.

The destination is saved. To change it, use the inspector, which has further settings.`,
		Example: `  collector destinations add crm https://crm.example.com/hook
  collector destinations add orders https://shop.example.com/hook --event 'Order *' --source web --shared-secret-file secret.txt
  collector destinations add segment --write-key-file key.txt
  collector destinations add warehouse https://rudderstack.example.com --write-key-file key.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case keyFile != "" && (secretFile != "" || len(headers) > 0):
				return usagef("--write-key-file cannot be used with --shared-secret-file or --header")
			case keyFile != "" && (len(args) < 1 || len(args) > 2):
				return usagef("specify a name and at most one URL: %s", cmd.UseLine())
			case keyFile == "" && len(args) < 2:
				return usagef("specify a name and a URL: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			a.Name = args[0]
			if keyFile != "" {
				err = a.relay(args[1:], keyFile)
			} else {
				err = a.send(args[1:], headers, secretFile)
			}
			if err != nil {
				return err
			}
			return show(cmd, &c, query{method: http.MethodPost, path: "/destinations", body: a}, func(out *printer, made destination) {
				fmt.Fprintf(out, "Added %s. Test it with collector destinations test %s\n", plain(made.Name), copyas.Shell(plain(made.Name)))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&a.Sources, "source", nil, "only calls from this `source` (repeatable)")
	flags.StringArrayVar(&a.Types.Allow, "type", nil, "only calls of this `type` (repeatable)")
	flags.StringArrayVar(&a.Events.Allow, "event", nil, "only track calls with this `event`; a trailing * matches any suffix (repeatable)")
	flags.Float64Var(&a.MaxPerSecond, "max-per-second", 0, "the maximum number of calls per second (default: no limit)")
	flags.StringArrayVar(&headers, "header", nil, "send the header `'Name: value'` with each request (repeatable)")
	flags.StringVar(&secretFile, "shared-secret-file", "", "a `file` with the secret that signs each request")
	flags.StringVar(&keyFile, "write-key-file", "", "relay calls to another collector, with the write key in this `file`")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(fields.Types, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("source", c.sourceNames())
	_ = cmd.RegisterFlagCompletionFunc("event", c.eventNames())
	_ = cmd.MarkFlagFilename("shared-secret-file")
	_ = cmd.MarkFlagFilename("write-key-file")
	return c.addTo(cmd)
}

// relay makes the destination a relay. endpoint contains at most one URL.
func (a *addition) relay(endpoint []string, keyFile string) (err error) {
	a.Type = webhook.TypeRelay
	for _, u := range endpoint {
		a.Endpoint = withProtocol(u)
	}
	a.WriteKey, err = readSecret("--write-key-file", keyFile)
	return err
}

// send makes the destination send calls to webhooks. secretFile may be empty.
func (a *addition) send(urls, headers []string, secretFile string) error {
	values, err := readHeaders(headers)
	if err != nil {
		return err
	}
	for _, u := range urls {
		a.Webhooks = append(a.Webhooks, webhook.Endpoint{URL: withProtocol(u), Headers: values})
	}
	if secretFile != "" {
		a.SharedSecret, err = readSecret("--shared-secret-file", secretFile)
	}
	return err
}

func newDestinationTest() *cobra.Command {
	var c client
	var callType string
	cmd := &cobra.Command{
		Use:   "test DESTINATION",
		Short: "Send a test call to each webhook of a destination",
		Long: `Send a test call to each webhook of a destination, signed like a delivery, and print
the responses. The exit code is 1 if no webhook accepted it. The call is synthetic: it
is not counted and not retried.`,
		Example:           "  collector destinations test crm\n  collector destinations test crm --type identify",
		Args:              oneDestination,
		ValidArgsFunction: onlyFirst(c.destinationNames()),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.testDestination(cmd.Context(), args[0], callType)
			if err != nil {
				return err
			}
			err = printResponse(cmd, &c, list, "attempts", func(out *printer, list export.AttemptList) {
				table(out, "", "WEBHOOK,TOOK,VERDICT,RESPONSE", func(row func(...any)) {
					for _, a := range list.Attempts {
						row(a.URL, fmt.Sprintf("%.1f ms", a.DurationMS), a.Verdict, resultOf(&a))
					}
				})
			})
			if err == nil && !list.read.Accepted() {
				err = errors.New("no webhook accepted the test call")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&callType, "type", "track", "the `type` of the test call")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(fields.Types, cobra.ShellCompDirectiveNoFileComp))
	return c.addTo(cmd)
}

// testDestination sends a test call to each webhook of a destination.
func (c *client) testDestination(ctx context.Context, name, callType string) (response[export.AttemptList], error) {
	return ask[export.AttemptList](ctx, c, http.MethodPost, "/destinations/"+url.PathEscape(name)+"/test", map[string]any{"type": callType})
}

// resultOf returns the error or the status of an attempt, and an excerpt of the response body.
func resultOf(a *export.Attempt) string {
	return sender.Cause(&webhook.Attempt{Status: a.Status, Verdict: a.Verdict, Error: cmp.Or(a.Error, a.StatusLine()), ResponseBody: []byte(a.ResponseBody)})
}

func newDestinationRemove() *cobra.Command {
	var c client
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove DESTINATION",
		Short: "Remove a destination with its pending and failed calls",
		Long: `Remove a destination. Its pending calls are not delivered, and its failed calls can no
longer be replayed. On a terminal it prints their number and asks for confirmation;
otherwise it requires --yes.`,
		Example:           "  collector destinations remove crm\n  collector destinations remove crm --yes",
		Args:              oneDestination,
		ValidArgsFunction: onlyFirst(c.destinationNames()),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := "/destinations/" + url.PathEscape(args[0])
		if !yes {
			if err := c.confirmRemoval(cmd, path); err != nil {
				return err
			}
		}
		if _, err := ask[any](cmd.Context(), &c, http.MethodDelete, path+"?discard=true", nil); err != nil {
			return err
		}
		return c.output.write(cmd, map[string]any{"removed": args[0]}, "", func(out *printer) { fmt.Fprintf(out, "Removed %s\n", plain(args[0])) })
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "skip the confirmation")
	return c.addTo(cmd)
}

// confirmRemoval asks the user to confirm the removal of a destination.
func (c *client) confirmRemoval(cmd *cobra.Command, path string) error {
	if !live.IsTerminal(cmd.InOrStdin()) {
		return usagef("removing the destination deletes its pending and failed calls: add --yes to confirm")
	}
	d, err := get[destination](cmd.Context(), c, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s has %s pending and %d failed, which will be deleted. Remove it? [y/N] ",
		plain(d.read.Name), count(d.read.Ledger.Pending, "call"), d.read.Ledger.Failed)
	answer, err := bufio.NewReader(cancelable(cmd.Context(), cmd.InOrStdin())).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return errors.New("not confirmed: nothing was removed")
}

// readHeaders parses the values of --header flags.
func readHeaders(lines []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, h := range lines {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, usagef("--header %q has no colon: use 'Name: value'", h)
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers, nil
}
