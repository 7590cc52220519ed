package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var (
	callTypes  = []string{"identify", "track", "page", "screen", "group", "alias"}
	callStates = []string{"pending", "delivered", "failed", "filtered"}
)

// filterFlags adds the flags that pick calls, and returns the parameters that they
// make.
func filterFlags(cmd *cobra.Command) url.Values {
	q := url.Values{}
	flags := cmd.Flags()
	flags.Var(parameter{query: q, name: "messageId", repeated: true}, "id", "only the call with this `messageId` (repeatable)")
	flags.Var(parameter{query: q, name: "source", repeated: true}, "source", "only calls of this `source` (repeatable)")
	flags.Var(parameter{query: q, name: "type", repeated: true}, "type", "only calls of this `type`: identify, track, page, screen, group or alias (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(callTypes, cobra.ShellCompDirectiveNoFileComp))
	parameterFlag(cmd, q, "event", "only track calls of this event, and pages and screens of this name")
	flags.Var(parameter{query: q, name: "userId"}, "user-id", "only calls with this userId or anonymousId")
	parameterFlag(cmd, q, "text", "only calls whose body holds this text")
	flags.Var(parameter{query: q, name: "since", read: moment("since")}, "since", "only calls received since then: a time (2026-01-31T12:00:00Z), or how long ago (90m)")
	flags.Var(parameter{query: q, name: "until", read: moment("until")}, "until", "only calls received before then: a time, or how long ago")
	return q
}

// moment reads a time, or how long ago it was.
func moment(flag string) func(string) (string, error) {
	return func(s string) (string, error) {
		if ago, err := time.ParseDuration(s); err == nil {
			return time.Now().Add(-ago).UTC().Format(time.RFC3339Nano), nil
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return "", usagef("--%s %q is no time: use one such as 2026-01-31T12:00:00Z, or how long ago, such as 90m", flag, s)
		}
		return t.Format(time.RFC3339Nano), nil
	}
}

// A call is one as the admin API tells of it.
type call struct {
	MessageID    string    `json:"messageId"`
	Source       string    `json:"source"`
	Type         string    `json:"type"`
	UserID       string    `json:"userId"`
	AnonymousID  string    `json:"anonymousId"`
	Event        string    `json:"event"`
	Name         string    `json:"name"`
	ReceivedAt   time.Time `json:"receivedAt"`
	Destinations []struct {
		Destination string `json:"destination"`
		State       string `json:"state"`
		Reason      string `json:"reason"`
	} `json:"destinations"`
	Violations []struct {
		Message string `json:"message"`
		Plan    string `json:"plan"`
		Line    int    `json:"line"`
	} `json:"violations"`
	Body json.RawMessage `json:"body"`
}

func (c *call) title() string { return c.Event + c.Name }

func (c *call) user() string {
	if c.UserID != "" {
		return c.UserID
	}
	return c.AnonymousID
}

// states tells in a few words where the call stands.
func (c *call) states() string {
	if len(c.Destinations) == 0 && len(c.Violations) == 0 {
		return "-"
	}
	var words []string
	for _, d := range c.Destinations {
		words = append(words, d.Destination+": "+d.State)
	}
	if len(c.Violations) > 0 {
		words = append(words, "not as planned")
	}
	return strings.Join(words, ", ")
}

// callPage is a page of calls.
type callPage struct{ Calls []call }

func newCalls() *cobra.Command {
	var c client
	var limit int
	cmd := &cobra.Command{
		Use:   "calls [MESSAGE-ID]",
		Short: "List the newest calls, or show one with its attempts",
		Long: `List the newest calls that the collector remembers and where each stands with its
destinations, newest first. With a messageId, show that call: what was received,
and each request that was made to deliver it.

pending in this list is a call that is to be tried again; collector status counts
those that wait for their first attempt, too.`,
		Example: `  collector calls --type track --limit 10
  collector calls --state failed --since 1h
  collector calls 0199d2c0-9a52-7e00-8000-2f5b4e1d6a10`,
		Args: atMostOne,
	}
	q := filterFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "how many to list, at most 500")
	c.destinationFlag(cmd, q, "only calls that this destination has decided about")
	parameterFlag(cmd, q, "state", "only calls that stand so: pending, delivered, failed or filtered", callStates...)
	cmd.RunE = limited(func(ctx context.Context, out io.Writer, args []string) error {
		if len(args) == 1 {
			return c.showCall(ctx, out, args[0])
		}
		q.Set("limit", strconv.Itoa(limit))
		return c.listCalls(ctx, out, q)
	})
	return c.addTo(cmd)
}

func (c *client) listCalls(ctx context.Context, out io.Writer, q url.Values) error {
	page, err := get[callPage](ctx, c, "/calls?"+q.Encode())
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, page.raw)
	}
	if len(page.read.Calls) == 0 {
		fmt.Fprintln(out, "no calls")
		return nil
	}
	return table(out, func(row func(...any)) {
		row("RECEIVED", "TYPE", "EVENT", "USER", "SOURCE", "MESSAGE-ID", "DESTINATIONS")
		for _, call := range page.read.Calls {
			row(second(call.ReceivedAt), call.Type, call.title(), call.user(), call.Source, call.MessageID, call.states())
		}
	})
}

// find returns the calls with a messageId, which several sources may have used.
func (c *client) find(ctx context.Context, id string) ([]call, error) {
	page, err := get[callPage](ctx, c, "/calls?"+url.Values{"messageId": {id}}.Encode())
	return page.read.Calls, err
}

// showCall shows the calls with a messageId.
func (c *client) showCall(ctx context.Context, out io.Writer, id string) error {
	found, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no call %q is remembered: the collector shows the newest ones only", id)
	}
	for _, one := range found {
		if err := c.showOne(ctx, out, one.Source, id); err != nil {
			return err
		}
	}
	return nil
}

// An attempt is a request to a webhook, as the admin API tells of it.
type attempt struct {
	Number     int       `json:"number"`
	Time       time.Time `json:"time"`
	DurationMS float64   `json:"durationMs"`
	URL        string    `json:"url"`
	Status     int       `json:"status"`
	Verdict    string    `json:"verdict"`
	Error      string    `json:"error"`
}

func (c *client) showOne(ctx context.Context, out io.Writer, source, id string) error {
	path := "/calls/" + url.PathEscape(source) + "/" + url.PathEscape(id)
	one, err := get[call](ctx, c, path)
	if err != nil {
		return err
	}
	list, err := get[struct{ Attempts []attempt }](ctx, c, path+"/attempts")
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, json.RawMessage(fmt.Appendf(nil, `{"call":%s,%s`, one.raw, list.raw[len("{"):])))
	}
	shown := one.read
	fmt.Fprintf(out, "%s %s, source %s, received %s\n\n", shown.Type, plain(shown.title()), plain(shown.Source), shown.ReceivedAt.Format(time.RFC3339Nano))
	var body bytes.Buffer
	if err := json.Indent(&body, shown.Body, "", "  "); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", body.Bytes())
	for _, v := range shown.Violations {
		fmt.Fprintf(out, "not as planned by %s, line %d: %s\n", plain(v.Plan), v.Line, plain(v.Message))
	}
	if len(shown.Violations) > 0 {
		fmt.Fprintln(out)
	}
	err = table(out, func(row func(...any)) {
		for _, d := range shown.Destinations {
			row(d.Destination, d.State, d.Reason)
		}
	})
	if err != nil || len(list.read.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return table(out, func(row func(...any)) {
		row("ATTEMPT", "AT", "TOOK", "STATUS", "VERDICT", "URL", "ERROR")
		for _, a := range list.read.Attempts {
			row(a.Number, a.Time.Format("15:04:05.000"), fmt.Sprintf("%.1f ms", a.DurationMS), a.Status, a.Verdict, a.URL, a.Error)
		}
	})
}

func newReplay() *cobra.Command {
	var c client
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "replay DESTINATION",
		Short: "Make calls due again for a destination",
		Long: `Make calls due again for a destination, at once and for four hours from now. Without
further flags these are all that it has given up; the flags pick some of them.

Calls that were delivered or filtered can be replayed too, with --state, as far as
the collector remembers them. The receiver then gets them again, with the same
X-Message-Id. Of those that were filtered, the ones that the plan of their source keeps
out are kept as failed ones are; they are judged anew, by the plan as it is now.`,
		Example: `  collector replay crm --dry-run
  collector replay crm --since 24h --event 'Order Completed'
  collector replay crm --state filtered --source web
  collector replay crm --id 0199d2c0-9a52-7e00-8000-2f5b4e1d6a10 --state delivered`,
		Args:              oneDestination,
		ValidArgsFunction: c.destinationNames,
	}
	q := filterFlags(cmd)
	parameterFlag(cmd, q, "state", "replay calls that stand so: failed (default), delivered or filtered", "failed", "delivered", "filtered")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count")
	cmd.RunE = limited(func(ctx context.Context, out io.Writer, args []string) error {
		type replay struct {
			Destination string
			Calls       int
		}
		replayed, err := ask[replay](ctx, &c, http.MethodPost, "/destinations/"+url.PathEscape(args[0])+"/replay", selection(q, dryRun))
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(out, replayed.raw)
		}
		verb := "replayed"
		if dryRun {
			verb = "to replay"
		}
		fmt.Fprintf(out, "%s %s to %s\n", count(replayed.read.Calls, "call"), verb, plain(replayed.read.Destination))
		return nil
	})
	return c.addTo(cmd)
}

// selection makes of the parameters of a list what a replay takes.
func selection(q url.Values, dryRun bool) map[string]any {
	selection := map[string]any{"dryRun": dryRun}
	for name, values := range q {
		switch name {
		case "messageId", "source", "type":
			selection[name+"s"] = values
		default:
			selection[name] = values[0]
		}
	}
	return selection
}
