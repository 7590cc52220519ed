package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// filterFlags pick calls.
type filterFlags struct {
	ids, sources, types []string
	event, user, text   string
	since, until        string
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.ids, "id", nil, "only the call with this `messageId` (repeatable)")
	flags.StringArrayVar(&f.sources, "source", nil, "only calls of this `source` (repeatable)")
	flags.StringArrayVar(&f.types, "type", nil, "only calls of this `type`: identify, track, page, screen, group or alias (repeatable)")
	flags.StringVar(&f.event, "event", "", "only track calls of this event, and pages and screens of this name")
	flags.StringVar(&f.user, "user-id", "", "only calls with this userId or anonymousId")
	flags.StringVar(&f.text, "text", "", "only calls whose body holds this text")
	flags.StringVar(&f.since, "since", "", "only calls received since then: a time (2026-01-31T12:00:00Z), or how long ago (90m)")
	flags.StringVar(&f.until, "until", "", "only calls received before then: a time, or how long ago")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{"identify", "track", "page", "screen", "group", "alias"}, cobra.ShellCompDirectiveNoFileComp))
}

// moment reads a time, or how long ago it was.
func moment(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil {
		return time.Now().Add(-ago).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, usagef("--%s %q is no time: use one such as 2026-01-31T12:00:00Z, or how long ago, such as 90m", flag, s)
	}
	return t, nil
}

func (f *filterFlags) query() (url.Values, error) {
	q := url.Values{"messageId": f.ids, "source": f.sources, "type": f.types}
	for name, value := range map[string]string{"event": f.event, "userId": f.user, "text": f.text} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]string{"since": f.since, "until": f.until} {
		at, err := moment(name, value)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return q, nil
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
		Destination string    `json:"destination"`
		State       string    `json:"state"`
		Reason      string    `json:"reason"`
		Attempt     int       `json:"attempt"`
		RetryAt     time.Time `json:"retryAt"`
	} `json:"destinations"`
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
	if len(c.Destinations) == 0 {
		return "-"
	}
	var words []string
	for _, d := range c.Destinations {
		words = append(words, d.Destination+": "+d.State)
	}
	return strings.Join(words, ", ")
}

func newCalls() *cobra.Command {
	var c client
	var f filterFlags
	var limit int
	var destination, state string
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
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			if len(args) == 1 {
				return c.showCall(ctx, cmd.OutOrStdout(), args[0])
			}
			q, err := f.query()
			if err != nil {
				return err
			}
			q.Set("limit", strconv.Itoa(limit))
			if destination != "" {
				q.Set("destination", destination)
			}
			if state != "" {
				q.Set("state", state)
			}
			return c.listCalls(ctx, cmd.OutOrStdout(), q)
		},
	}
	c.addFlags(cmd)
	f.add(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "how many to list, at most 500")
	cmd.Flags().StringVar(&destination, "destination", "", "only calls that this destination has decided about")
	cmd.Flags().StringVar(&state, "state", "", "only calls that stand so: pending, delivered, failed or filtered")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"pending", "delivered", "failed", "filtered"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("destination", c.destinationNames)
	return cmd
}

func (c *client) listCalls(ctx context.Context, out io.Writer, q url.Values) error {
	var page struct {
		Calls []call `json:"calls"`
		Next  int64  `json:"next"`
	}
	raw, err := c.get(ctx, "/calls?"+q.Encode(), &page)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, raw)
	}
	if len(page.Calls) == 0 {
		fmt.Fprintln(out, "no calls")
		return nil
	}
	return table(out, func(row func(...any)) {
		row("RECEIVED", "TYPE", "EVENT", "USER", "SOURCE", "MESSAGE-ID", "DESTINATIONS")
		for _, call := range page.Calls {
			row(call.ReceivedAt.Format("2006-01-02 15:04:05"), call.Type, call.title(), call.user(), call.Source, call.MessageID, call.states())
		}
	})
}

// showCall shows a call by its messageId, which several sources may have used.
func (c *client) showCall(ctx context.Context, out io.Writer, id string) error {
	var page struct{ Calls []call }
	if _, err := c.get(ctx, "/calls?"+url.Values{"messageId": {id}}.Encode(), &page); err != nil {
		return err
	}
	if len(page.Calls) == 0 {
		return fmt.Errorf("no call %q is remembered: the collector shows the newest ones only", id)
	}
	for _, found := range page.Calls {
		if err := c.showOne(ctx, out, found.Source, id); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) showOne(ctx context.Context, out io.Writer, source, id string) error {
	path := "/calls/" + url.PathEscape(source) + "/" + url.PathEscape(id)
	var one call
	raw, err := c.get(ctx, path, &one)
	if err != nil {
		return err
	}
	var list struct {
		Attempts []struct {
			Destination string    `json:"destination"`
			Number      int       `json:"number"`
			Time        time.Time `json:"time"`
			DurationMS  float64   `json:"durationMs"`
			URL         string    `json:"url"`
			Status      int       `json:"status"`
			Verdict     string    `json:"verdict"`
			Error       string    `json:"error"`
		} `json:"attempts"`
	}
	rawAttempts, err := c.get(ctx, path+"/attempts", &list)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, fmt.Appendf(nil, `{"call":%s,%s`, raw, rawAttempts[len("{"):]))
	}
	fmt.Fprintf(out, "%s %s, source %s, received %s\n\n", one.Type, plain(one.title()), plain(one.Source), one.ReceivedAt.Format(time.RFC3339Nano))
	var body bytes.Buffer
	if err := json.Indent(&body, one.Body, "", "  "); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", body.Bytes())
	err = table(out, func(row func(...any)) {
		for _, d := range one.Destinations {
			row(d.Destination, d.State, d.Reason)
		}
	})
	if err != nil || len(list.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return table(out, func(row func(...any)) {
		row("ATTEMPT", "AT", "TOOK", "STATUS", "VERDICT", "URL", "ERROR")
		for _, a := range list.Attempts {
			row(a.Number, a.Time.Format("15:04:05.000"), fmt.Sprintf("%.1f ms", a.DurationMS), a.Status, a.Verdict, a.URL, a.Error)
		}
	})
}

// rawAnswer keeps an answer as it came.
type rawAnswer struct{ data json.RawMessage }

func (r *rawAnswer) UnmarshalJSON(data []byte) error {
	r.data = bytes.Clone(data)
	return nil
}

func (r *rawAnswer) read(v any) error { return json.Unmarshal(r.data, v) }

func newReplay() *cobra.Command {
	var c client
	var f filterFlags
	var state string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "replay DESTINATION",
		Short: "Make calls due again for a destination",
		Long: `Make calls due again for a destination, at once and for four hours from now. Without
further flags these are all that it has given up; the flags pick some of them.

Calls that were delivered or filtered can be replayed too, with --state, as far as
the collector remembers them. The receiver then gets them again, with the same
X-Message-Id.`,
		Example: `  collector replay crm --dry-run
  collector replay crm --since 24h --event 'Order Completed'
  collector replay crm --id 0199d2c0-9a52-7e00-8000-2f5b4e1d6a10 --state delivered`,
		Args:              oneDestination,
		ValidArgsFunction: c.destinationNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			selection, err := f.selection()
			if err != nil {
				return err
			}
			selection["dryRun"] = dryRun
			if state != "" {
				selection["state"] = state
			}
			var raw rawAnswer
			if err := c.call(ctx, "POST", "/destinations/"+url.PathEscape(args[0])+"/replay", selection, &raw); err != nil {
				return err
			}
			return c.sayReplayed(cmd.OutOrStdout(), raw)
		},
	}
	c.addFlags(cmd)
	f.add(cmd)
	cmd.Flags().StringVar(&state, "state", "", "replay calls that stand so: failed (default), delivered or filtered")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"failed", "delivered", "filtered"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// selection is what the admin API takes for the flags.
func (f *filterFlags) selection() (map[string]any, error) {
	selection := map[string]any{}
	for name, values := range map[string][]string{"messageIds": f.ids, "sources": f.sources, "types": f.types} {
		if len(values) > 0 {
			selection[name] = values
		}
	}
	for name, value := range map[string]string{"event": f.event, "userId": f.user, "text": f.text} {
		if value != "" {
			selection[name] = value
		}
	}
	for name, value := range map[string]string{"since": f.since, "until": f.until} {
		at, err := moment(name, value)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			selection[name] = at
		}
	}
	return selection, nil
}

func (c *client) sayReplayed(out io.Writer, raw rawAnswer) error {
	var answer struct {
		Destination string `json:"destination"`
		Calls       int    `json:"calls"`
		DryRun      bool   `json:"dryRun"`
	}
	if err := raw.read(&answer); err != nil {
		return errors.New("the collector answers what is not the admin API's JSON")
	}
	if c.json {
		return printJSON(out, raw.data)
	}
	if answer.DryRun {
		fmt.Fprintf(out, "%s to replay to %s\n", count(answer.Calls, "call"), plain(answer.Destination))
	} else {
		fmt.Fprintf(out, "%s replayed to %s\n", count(answer.Calls, "call"), plain(answer.Destination))
	}
	return nil
}
