package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A deletion is a deletion request, as the admin API tells of it.
type deletion struct {
	ID          string    `json:"id"`
	RequestedAt time.Time `json:"requestedAt"`
	CompletedAt time.Time `json:"completedAt"`
	Users       int       `json:"users"`
	Source      string    `json:"source"`
	Targets     []struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
		Pending     int    `json:"pending"`
		Delivered   int    `json:"delivered"`
		Failed      int    `json:"failed"`
		Filtered    int    `json:"filtered"`
	} `json:"targets"`
}

// sums adds up the targets.
func (d *deletion) sums() (pending, delivered, failed, filtered int) {
	for _, t := range d.Targets {
		pending, delivered, failed, filtered = pending+t.Pending, delivered+t.Delivered, failed+t.Failed, filtered+t.Filtered
	}
	return pending, delivered, failed, filtered
}

func (d *deletion) state() string {
	if d.CompletedAt.IsZero() {
		return "running"
	}
	return "done"
}

func newDeleteUser() *cobra.Command {
	var c client
	var file, source, id string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "delete-user [USER-ID ...]",
		Short: "Ask every destination to delete users",
		Long: `Make a deletion request: every enabled destination of every source, or of the one
that --source names, gets a notification {type, userId, timestamp} for each user,
signed and tried again as calls are. The users are also taken out of the lists of
audiences and computed traits.

The users are arguments, or lines of --file, up to 10,000. With an --id the same
request can be made again and is taken once. With --wait, wait until every
destination has decided; the exit code is 1 where one has failed.`,
		Example: `  collector delete-user u1 u2 --id gdpr-2026-117 --wait 1m
  collector delete-user --file users.txt --source web`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			users, err := readUsers(cmd.InOrStdin(), file, args)
			if err != nil {
				return err
			}
			request := map[string]any{"userIds": users, "source": source, "id": id}
			var raw rawAnswer
			if err := c.call(ctx, "POST", "/deletions", request, &raw); err != nil {
				return err
			}
			var d deletion
			if err := raw.read(&d); err != nil {
				return err
			}
			if wait == 0 {
				return c.printDeletion(cmd.OutOrStdout(), &raw, &d)
			}
			return c.awaitDeletion(cmd, d.ID, wait)
		},
	}
	c.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "a `file` of users, one a line; - is standard input")
	flags.StringVar(&source, "source", "", "the source whose users they are (default: all sources)")
	flags.StringVar(&id, "id", "", "the ID of the request, so that it is taken once (default: a new one)")
	flags.DurationVar(&wait, "wait", 0, "wait so long for the destinations")
	return cmd
}

// readUsers returns the users of the arguments and of a file.
func readUsers(in io.Reader, file string, users []string) ([]string, error) {
	if file == "" && len(users) == 0 {
		return nil, usagef("no user was named: give their IDs, or a file of them with --file")
	}
	if file == "" {
		return users, nil
	}
	list, _, err := openList(in, file)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	lines := bufio.NewScanner(list)
	for mark := "\uFEFF"; lines.Scan(); mark = "" {
		if user := strings.TrimPrefix(lines.Text(), mark); user != "" {
			users = append(users, user)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--file %s: %w", file, err)
	}
	return users, nil
}

// openList opens a file, or standard input for "-", and tells how long it is; -1
// if nobody knows.
func openList(in io.Reader, path string) (io.ReadCloser, int64, error) {
	if path == "-" {
		return io.NopCloser(in), -1, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("--file: %w", err)
	}
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// awaitDeletion waits until a request is done.
func (c *client) awaitDeletion(cmd *cobra.Command, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	var raw rawAnswer
	var d deletion
	for {
		// What is asked after the time is over tells how far it came.
		if err := c.call(context.WithoutCancel(ctx), "GET", "/deletions/"+url.PathEscape(id), nil, &raw); err != nil {
			return err
		}
		d = deletion{}
		if err := raw.read(&d); err != nil {
			return err
		}
		if !d.CompletedAt.IsZero() || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
		}
	}
	if err := c.printDeletion(cmd.OutOrStdout(), &raw, &d); err != nil {
		return err
	}
	pending, _, failed, _ := d.sums()
	switch {
	case d.CompletedAt.IsZero():
		return fmt.Errorf("after %v %s pending", wait, are(pending, "notification"))
	case failed > 0:
		return fmt.Errorf("%s failed: see collector deletions %s --state failed", count(failed, "notification"), d.ID)
	}
	return nil
}

func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return count(n, thing) + " are"
}

func (c *client) printDeletion(out io.Writer, raw *rawAnswer, d *deletion) error {
	if c.json {
		return printJSON(out, raw.data)
	}
	fmt.Fprintf(out, "deletion request %s of %s, requested %s, is %s\n", plain(d.ID), count(d.Users, "user"), d.RequestedAt.Format(time.RFC3339), d.state())
	if len(d.Targets) == 0 {
		fmt.Fprintln(out, "no destination is enabled that would have to be notified")
		return nil
	}
	return table(out, func(row func(...any)) {
		row("SOURCE", "DESTINATION", "PENDING", "DELIVERED", "FAILED", "FILTERED")
		for _, t := range d.Targets {
			row(t.Source, t.Destination, t.Pending, t.Delivered, t.Failed, t.Filtered)
		}
	})
}

func newDeletions() *cobra.Command {
	var c client
	var limit int
	var state string
	var users []string
	cmd := &cobra.Command{
		Use:   "deletions [ID]",
		Short: "List the deletion requests, or show one with what became of it",
		Long: `List the deletion requests of the last 30 days, newest first. With an ID, show that
one, and for each user what became of the notification to each destination.`,
		Example: `  collector deletions
  collector deletions gdpr-2026-117 --state failed`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			if len(args) == 0 {
				return c.listDeletions(ctx, cmd.OutOrStdout())
			}
			q := url.Values{"userId": users, "limit": {strconv.Itoa(limit)}}
			if state != "" {
				q.Set("state", state)
			}
			return c.showDeletion(ctx, cmd.OutOrStdout(), args[0], q)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "how many notifications to list, at most 500")
	cmd.Flags().StringVar(&state, "state", "", "only notifications that stand so: pending, delivered, failed or filtered")
	cmd.Flags().StringArrayVar(&users, "user-id", nil, "only notifications of this `user` (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"pending", "delivered", "failed", "filtered"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *client) listDeletions(ctx context.Context, out io.Writer) error {
	var list struct {
		Deletions []deletion `json:"deletions"`
	}
	raw, err := c.get(ctx, "/deletions", &list)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, raw)
	}
	if len(list.Deletions) == 0 {
		fmt.Fprintln(out, "no deletion requests")
		return nil
	}
	return table(out, func(row func(...any)) {
		row("REQUESTED", "ID", "STATE", "USERS", "PENDING", "DELIVERED", "FAILED", "FILTERED")
		for _, d := range list.Deletions {
			pending, delivered, failed, filtered := d.sums()
			row(d.RequestedAt.Format("2006-01-02 15:04:05"), d.ID, d.state(), d.Users, pending, delivered, failed, filtered)
		}
	})
}

func (c *client) showDeletion(ctx context.Context, out io.Writer, id string, q url.Values) error {
	var raw rawAnswer
	if err := c.call(ctx, "GET", "/deletions/"+url.PathEscape(id), nil, &raw); err != nil {
		return err
	}
	var page struct {
		More     bool `json:"more"`
		Outcomes []struct {
			UserID      string    `json:"userId"`
			Source      string    `json:"source"`
			Destination string    `json:"destination"`
			State       string    `json:"state"`
			Reason      string    `json:"reason"`
			Attempt     int       `json:"attempt"`
			At          time.Time `json:"at"`
		} `json:"outcomes"`
	}
	rawPage, err := c.get(ctx, "/deletions/"+url.PathEscape(id)+"/outcomes?"+q.Encode(), &page)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(out, fmt.Appendf(nil, `{"deletion":%s,%s`, raw.data, rawPage[len("{"):]))
	}
	var d deletion
	if err := raw.read(&d); err != nil {
		return err
	}
	if err := c.printDeletion(out, &raw, &d); err != nil || len(page.Outcomes) == 0 {
		return err
	}
	fmt.Fprintln(out)
	err = table(out, func(row func(...any)) {
		row("USER", "SOURCE", "DESTINATION", "STATE", "ATTEMPTS", "AT", "REASON")
		for _, o := range page.Outcomes {
			at := "-"
			if !o.At.IsZero() {
				at = o.At.Format("2006-01-02 15:04:05")
			}
			row(o.UserID, o.Source, o.Destination, o.State, o.Attempt, at, o.Reason)
		}
	})
	if page.More {
		fmt.Fprintln(out, "and more: see --limit")
	}
	return err
}
