package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

var (
	callStates = []string{"pending", "delivered", "failed", "filtered"}
	// listStates are the values of calls --state. The state rejected lists rejections instead of
	// calls.
	listStates = append(slices.Clone(callStates), "rejected")
)

// A call is the JSON format of a call in the admin API.
type call struct {
	Seq          int64       `json:"seq,omitempty"`
	MessageID    string      `json:"messageId"`
	Ref          string      `json:"ref"`
	Source       string      `json:"source"`
	Type         string      `json:"type"`
	UserID       string      `json:"userId,omitempty"`
	AnonymousID  string      `json:"anonymousId,omitempty"`
	Event        string      `json:"event,omitempty"`
	Name         string      `json:"name,omitempty"`
	ReceivedAt   time.Time   `json:"receivedAt"`
	Destinations []callState `json:"destinations,omitempty"`
	Violations   []struct {
		Message string `json:"message"`
		Plan    string `json:"plan"`
		Line    int    `json:"line,omitempty"`
	} `json:"violations,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// A callState is the status of a call at a destination.
type callState struct {
	Destination string `json:"destination"`
	State       string `json:"state"`
	Reason      string `json:"reason,omitempty"`
}

func (c *call) title() string {
	return event.NameOf(&tracking.Call{Type: c.Type, Event: c.Event, Name: c.Name})
}

func (c *call) user() string { return cmp.Or(c.UserID, c.AnonymousID) }

// states summarizes the delivery status of the call.
func (c *call) states() string {
	var words []string
	for _, d := range c.Destinations {
		words = append(words, d.Destination+": "+d.State)
	}
	return strings.Join(words, ", ")
}

// violations returns the first plan violation, and the number of further violations.
func (c *call) violations() string {
	switch n := len(c.Violations); n {
	case 0:
		return ""
	case 1:
		return c.Violations[0].Message
	default:
		return fmt.Sprintf("%s (and %d more)", c.Violations[0].Message, n-1)
	}
}

// filterFlags adds the flags that filter calls and returns their query parameters.
func (c *client) filterFlags(cmd *cobra.Command) url.Values {
	q := url.Values{}
	flags := cmd.Flags()
	flags.Var(parameter{query: q, name: "messageId", repeated: true}, "id", "only the call with this `messageId` (repeatable)")
	flags.Var(parameter{query: q, name: "source", repeated: true}, "source", "only calls of this `source` (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("source", c.sourceNames())
	_ = cmd.RegisterFlagCompletionFunc("id", c.messageIDs())
	flags.Var(parameter{query: q, name: "type", repeated: true, read: oneOf("--type", fields.StoredTypes)}, "type", "only calls of this `type`: "+strings.Join(fields.StoredTypes, ", ")+" (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(fields.StoredTypes, cobra.ShellCompDirectiveNoFileComp))
	parameterFlag(cmd, q, "event", "only track calls with this event, and page and screen calls with this name; a trailing * matches any suffix")
	_ = cmd.RegisterFlagCompletionFunc("event", c.eventNames())
	flags.Var(parameter{query: q, name: "userId"}, "user-id", "only calls with this userId or anonymousId")
	parameterFlag(cmd, q, "text", "only calls whose body contains this text")
	flags.Var(parameter{query: q, name: "since", read: moment("--since")}, "since", "only calls received since a time (2026-01-31T12:00:00Z) or an age (90m)")
	flags.Var(parameter{query: q, name: "until", read: moment("--until")}, "until", "only calls received before a time or an age")
	flags.Var(parameter{query: q, name: "where", repeated: true, read: condition("--where")}, "where", "only calls that match a `condition` on properties, traits or context, in the syntax of the inspector's search: prop.plan:Pro, 'prop.total:>100' (repeatable)")
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkRange(q, "--") }
	return q
}

// checkRange returns an error if the range of times in a query ends before it begins. prefix precedes the names
// of its bounds.
func checkRange(q url.Values, prefix string) error {
	since, _ := time.Parse(time.RFC3339Nano, q.Get("since"))
	until, err := time.Parse(time.RFC3339Nano, q.Get("until"))
	if err == nil && until.Before(since) {
		return usagef("%suntil is before %ssince: use a later time or a smaller age", prefix, prefix)
	}
	return nil
}

// condition returns a parser that checks a condition in the syntax of the inspector's search.
func condition(name string) func(string) (string, error) {
	return func(s string) (string, error) {
		query, err := search.Parse(s)
		if err != nil {
			return "", usagef("invalid %s %s: %w", name, text.Quote(text.MaxRepeated, s), err)
		}
		if len(query) == 0 || slices.ContainsFunc(query, func(t search.Term) bool { return len(t.Path) == 0 }) {
			return "", usagef(`invalid %s %s: use a condition on a property, a trait or the context, such as prop.plan:Pro, 'prop.total:>100' or 'traits.city:"New York"'`, name, text.Quote(text.MaxRepeated, s))
		}
		return s, nil
	}
}

// moment returns a parser for a time or an age.
func moment(name string) func(string) (string, error) {
	return func(s string) (string, error) {
		t, err := search.ReadTime(s, time.Now())
		if err != nil {
			return "", usagef("invalid %s %s: use a time such as 2026-01-31T12:00:00Z, or an age such as 90m or 7d, up to ten years", name, text.Quote(text.MaxRepeated, s))
		}
		return t.UTC().Format(time.RFC3339Nano), nil
	}
}

// A callPage is a page of a list of calls.
type callPage[T any] struct {
	Calls     []T
	Next      int64 // value of the parameter before for the next page; 0 on the last page
	Forgotten int64 // number of expired calls
}

const callsHelp = `List the most recent calls with their delivery status, newest first. With a messageId,
show that call: its status at each destination, its attempts and its content.

Pending calls wait for their first attempt or for a retry. --state rejected lists
rejected calls and refused requests with their problems, since the start of the collector.

For scripts, --output json, jsonl and yaml include the body of each call. collector plan
check reads the jsonl output. To export all retained calls that match, use --limit 0 with
--output jsonl or --csv.

The columns of --csv are receivedAt, timestamp, status (the most urgent one), type, event,
userId, anonymousId, source, messageId, destinations, problem, violations and body. A cell
that a spreadsheet could evaluate as a formula begins with an apostrophe.

With --follow, print each call and attempt as it happens, starting with the newest
--limit, until interrupted. If the collector is unavailable, the command keeps trying to
reconnect.`

func newCalls() *cobra.Command {
	var c client
	var limit int
	var follow, asCSV bool
	cmd := &cobra.Command{
		Use:   "calls [MESSAGE-ID]",
		Short: "List recent calls, show one, or follow them",
		Long:  callsHelp,
		Example: `  collector calls --type track --limit 10
  collector calls --follow --event 'Signed Up'
  collector calls --where prop.plan:Pro --where 'prop.total:>100'
  collector calls --state rejected
  collector calls --state failed --since 1h
  collector calls --type track --limit 0 --csv > calls.csv
  collector calls 0199d2c0-9a52-7e00-8000-2f5b4e1d6a10`,
		Args:              atMostOne,
		ValidArgsFunction: onlyFirst(c.messageIDs()),
	}
	q := c.filterFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "the number of calls to list, at most 500; with --csv or jsonl, any number, or 0 for all")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print calls as CSV, with their body")
	c.destinationFlag(cmd, q, "only calls of this destination")
	parameterFlag(cmd, q, "state", "only calls with this status: pending, delivered, failed, filtered or rejected", listStates...)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print activity as it happens")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if q.Has("messageId") {
				return usagef("--id cannot be used with a messageId as an argument: use one of them")
			}
			q["messageId"] = args
		}
		lists := len(args) == 0 && !follow && q.Get("state") != "rejected"
		switch {
		case asCSV && (!lists || c.output.data()):
			return usagef("--csv cannot be used with a messageId, --follow, --state rejected or --output")
		case lists && limit >= 0 && (asCSV || c.output == "jsonl"):
			return c.exportCalls(cmd.Context(), cmd.OutOrStdout(), q, limit, asCSV)
		case checkLimit(limit) != nil:
			return checkLimit(limit)
		case follow:
			return c.follow(cmd, q, limit)
		}
		q.Set("limit", strconv.Itoa(limit))
		switch {
		case lists:
			return c.listCalls(cmd, q)
		case q.Get("state") == "rejected":
			return c.listRejected(cmd, q)
		}
		return c.showCalls(cmd, q)
	}
	return c.addTo(cmd)
}

func (c *client) listCalls(cmd *cobra.Command, q url.Values) error {
	if c.output.data() {
		q.Set("bodies", "true")
	}
	found, err := c.search(cmd.Context(), q)
	if err != nil {
		return err
	}
	return printResponse(cmd, c, found, "calls", func(out *printer, page callPage[call]) {
		table(out, "no calls", zoned("RECEIVED")+",TYPE,EVENT,USER,SOURCE,MESSAGE-ID,DESTINATIONS,VIOLATIONS", func(row func(...any)) {
			for _, call := range page.Calls {
				row(second(call.ReceivedAt), call.Type, call.title(), call.user(), call.Source, call.MessageID, call.states(), call.violations())
			}
		})
	})
}

// search returns a page of calls. An unknown destination is an error.
func (c *client) search(ctx context.Context, q url.Values) (found response[callPage[call]], err error) {
	found, err = get[callPage[call]](ctx, c, "/calls?"+q.Encode())
	if name := q.Get("destination"); err == nil && name != "" && len(found.read.Calls) == 0 {
		err = c.checkDestination(ctx, name)
	}
	return found, err
}

// eachPage passes the calls of a list to f, newest first. If limit is positive, it stops after limit
// calls.
func eachPage[T any](ctx context.Context, c *client, q url.Values, limit int, f func(page response[callPage[T]]) error) error {
	for left := limit; ; {
		size := 100
		if limit > 0 {
			size = min(left, size)
		}
		q.Set("limit", strconv.Itoa(size))
		page, err := get[callPage[T]](ctx, c, "/calls?"+q.Encode())
		if err == nil {
			err = f(page)
		}
		if left -= size; err != nil || page.read.Next == 0 || left == 0 {
			return err
		}
		q.Set("before", strconv.FormatInt(page.read.Next, 10))
	}
}

// exportCalls prints calls as CSV or JSON lines. If limit is 0, it prints all matching calls.
func (c *client) exportCalls(ctx context.Context, out io.Writer, q url.Values, limit int, asCSV bool) error {
	q.Set("bodies", "true")
	table := csv.NewWriter(out)
	if asCSV {
		_ = table.Write(export.Columns) // Error reports the error
	}
	n := 0
	err := eachPage(ctx, c, q, limit, func(page response[callPage[export.Call]]) error {
		n += len(page.read.Calls)
		if !asCSV {
			return c.output.print(out, page.raw, "calls")
		}
		for _, call := range page.read.Calls {
			_ = table.Write(call.Row())
		}
		table.Flush()
		return table.Error()
	})
	if name := q.Get("destination"); name != "" && n == 0 && err == nil {
		return c.checkDestination(ctx, name)
	}
	return err
}

// checkDestination returns an error if no destination has this name.
func (c *client) checkDestination(ctx context.Context, name string) error {
	names, err := c.names(ctx, "destinations")
	if err != nil || slices.Contains(names, name) {
		return err
	}
	hint := "there are no destinations"
	if len(names) > 0 {
		hint = "the destinations are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("no destination is named %s: %s", text.Quote(text.MaxRepeated, name), hint)
}

// rejections contains rejected calls and refused requests.
type rejections struct {
	Since    time.Time        `json:"since"`
	Calls    []rejectedCall   `json:"calls"`
	Requests []refusedRequest `json:"requests"`
}

// A rejectedCall is a rejected call in the list of rejections.
type rejectedCall struct {
	ReceivedAt  time.Time `json:"receivedAt"`
	Type        string    `json:"type,omitempty"`
	Title       string    `json:"title,omitempty"`
	UserID      string    `json:"userId,omitempty"`
	AnonymousID string    `json:"anonymousId,omitempty"`
	Source      string    `json:"source,omitempty"`
	Code        string    `json:"code"`
	Message     string    `json:"message"`
	Hint        string    `json:"hint,omitempty"`
}

// A refusedRequest is a refused request, or a group of them.
type refusedRequest struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Source  string    `json:"source,omitempty"`
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	Count   int       `json:"count"`
}

// listRejected lists rejected calls and refused requests.
func (c *client) listRejected(cmd *cobra.Command, q url.Values) error {
	if q.Has("destination") {
		return usagef("--destination cannot be used with --state rejected: rejected calls have no destination")
	}
	q.Del("state")
	return show(cmd, c, query{path: "/rejections?" + q.Encode(), list: "calls"}, func(out *printer, list rejections) {
		section(out, len(list.Calls), zoned("RECEIVED")+",TYPE,EVENT,USER,SOURCE,CODE,PROBLEM", func(row func(...any)) {
			for _, r := range list.Calls {
				row(second(r.ReceivedAt), r.Type, r.Title, cmp.Or(r.UserID, r.AnonymousID), r.Source, r.Code, r.Message)
			}
		})
		section(out, len(list.Requests), zoned("RECEIVED")+",REQUEST,SOURCE,TIMES,CODE,PROBLEM", func(row func(...any)) {
			for _, r := range list.Requests {
				row(second(r.At), r.Method+" "+r.Path, r.Source, r.Count, r.Code, r.Message)
			}
		})
		if len(list.Calls)+len(list.Requests) == 0 {
			out.WriteString("no ")
		}
		fmt.Fprintf(out, "rejected calls since %s; earlier ones are no longer available\n", second(list.Since))
	})
}

// follow prints activity as it happens.
func (c *client) follow(cmd *cobra.Command, q url.Values, first int) error {
	if q.Get("state") == "rejected" {
		q["kind"] = []string{"rejected", "refused"}
		q.Del("state")
	}
	if q.Has("state") {
		return usagef("--follow cannot be used with --state %s: use --state rejected, or --destination", q.Get("state"))
	}
	form := live.Lines
	switch c.output {
	case "json", "jsonl":
		form = live.JSON
	case "yaml":
		return usagef("--follow cannot be used with --output yaml: use jsonl or table")
	}
	if name := q.Get("destination"); name != "" {
		if err := c.checkDestination(cmd.Context(), name); err != nil {
			return err
		}
	}
	return live.Print(cmd.Context(), followed{client: c, query: q}, first, cmd.OutOrStdout(), form)
}

// byID returns a query for the calls with a messageId. Calls of several sources can have the same messageId.
func byID(id string) url.Values { return url.Values{"messageId": {id}} }

// find returns the calls that match a query.
func (c *client) find(ctx context.Context, q url.Values) ([]call, error) {
	page, err := get[callPage[call]](ctx, c, "/calls?"+q.Encode())
	return page.read.Calls, err
}

// mustFind is like find, but returns an error if no call matches.
func (c *client) mustFind(ctx context.Context, q url.Values) ([]call, error) {
	page, err := c.search(ctx, q)
	if err == nil && len(page.read.Calls) == 0 {
		err = fmt.Errorf("no matching call has the messageId %q: only recent calls can be shown", q.Get("messageId"))
	}
	return page.read.Calls, err
}

// showCalls prints the calls that match a query, with their attempts.
func (c *client) showCalls(cmd *cobra.Command, q url.Values) error {
	found, err := c.mustFind(cmd.Context(), q)
	if err != nil {
		return err
	}
	for _, one := range found {
		if err := c.showOne(cmd, one.Source, one.MessageID); err != nil {
			return err
		}
	}
	return nil
}

// callPath returns the API path of a call.
func callPath(source, id string) string {
	return "/calls/" + url.PathEscape(source) + "/" + url.PathEscape(id)
}

// getOne returns the call at an API path and its attempts.
func (c *client) getOne(ctx context.Context, path string) (one response[call], list response[export.AttemptList], err error) {
	if one, err = get[call](ctx, c, path); err == nil {
		list, err = get[export.AttemptList](ctx, c, path+"/attempts")
	}
	return one, list, err
}

func (c *client) showOne(cmd *cobra.Command, source, id string) error {
	one, list, err := c.getOne(cmd.Context(), callPath(source, id))
	if err != nil {
		return err
	}
	return c.output.write(cmd, withField("call", one.raw, list.raw), "", func(out *printer) { one.read.write(out, list.read.Attempts) })
}

// write prints a call: its status and last response at each destination, its plan violations, its
// attempts and its content. Destinations with problems come first.
func (c *call) write(out *printer, attempts []export.Attempt) {
	fmt.Fprintf(out, "%s, source %s, received %s\n\n", strings.TrimSpace(c.Type+" "+plain(c.title())), plain(c.Source), c.ReceivedAt.Local().Format(time.RFC3339Nano))
	urgency := func(state string) int {
		return slices.Index([]string{"failed", "pending", "delivered", "filtered"}, state)
	}
	slices.SortStableFunc(c.Destinations, func(a, b callState) int { return urgency(a.State) - urgency(b.State) })
	for _, d := range c.Destinations {
		var last export.Attempt
		status := ""
		for _, a := range attempts {
			if a.Destination == d.Destination {
				last, status = a, a.StatusLine()
			}
		}
		fmt.Fprintln(out, strings.TrimSpace(plain(d.State+"  "+d.Destination+"  "+status)))
		writeIndented(out, d.Reason)
		if !strings.HasSuffix(d.Reason, ": "+strings.TrimSpace(last.ResponseBody)) {
			writeIndented(out, last.ResponseBody)
		}
	}
	for _, v := range c.Violations {
		fmt.Fprintf(out, "violates plan %s, line %d: %s\n", plain(v.Plan), v.Line, plain(v.Message))
	}
	if len(c.Destinations)+len(c.Violations) > 0 {
		fmt.Fprintln(out)
	}
	section(out, len(attempts), "ATTEMPT,DESTINATION,"+zoned("AT")+",TOOK,VERDICT,URL,RESPONSE", func(row func(...any)) {
		for _, a := range attempts {
			row(a.Number, a.Destination, a.Time.Local().Format("15:04:05.000"), fmt.Sprintf("%.1f ms", a.DurationMS), a.Verdict, a.URL, resultOf(&a))
		}
	})
	_ = writeJSON(out, c.Body) // valid, because it was part of a response
}

// writeIndented prints the lines of text from a receiver.
func writeIndented(out io.Writer, s string) {
	for row := range strings.Lines(strings.TrimSpace(s)) {
		fmt.Fprintln(out, "  "+plain(strings.ReplaceAll(strings.TrimRight(row, "\r\n"), "\t", "  ")))
	}
}

// writeJSON prints JSON with indentation.
func writeJSON(out io.Writer, data []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text.PlainJSON(data), "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, indented.String())
	return err
}
