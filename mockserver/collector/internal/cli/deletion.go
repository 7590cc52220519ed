package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

func newDeleteUser() *cobra.Command {
	var c client
	var file string
	var request users.DeletionRequest
	q := url.Values{}
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "delete-user [USER-ID ...]",
		Short: "Request the deletion of users from all destinations",
		Long: `Request the deletion of users. Every enabled destination of every source, or of the
source set by --source, receives a notification {type, userId, timestamp} for each user,
signed and retried like calls. The users are also removed from the lists of audiences
and computed traits.

The user IDs are arguments or lines of --file, up to 10,000. A request with an --id can
be repeated safely: it is processed once. With --wait, wait for all destinations; the
exit code is 1 if a notification failed.`,
		Example: `  collector delete-user u1 u2 --id gdpr-2026-117 --wait 1m
  collector delete-user --file users.txt --source web`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			request.Source = q.Get("source")
			if request.UserIDs, err = readUsers(cmd, file, args); err != nil {
				return err
			}
			d, err := ask[users.Deletion](cmd.Context(), &c, http.MethodPost, "/deletions", request)
			if err != nil {
				return err
			}
			if wait > 0 {
				return c.awaitDeletion(cmd, d.read.ID, wait)
			}
			return printResponse(cmd, &c, d, "", printDeletion)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "a `file` with one user ID per line; - is standard input")
	parameterFlag(cmd, q, "source", "the source of the users (default: all sources)")
	flags.StringVar(&request.ID, "id", "", "the ID of the request, for safe repetition (default: a new one)")
	flags.DurationVar(&wait, "wait", 0, "how long to wait for the destinations")
	return c.addTo(cmd)
}

// readUsers returns the user IDs in the arguments and in a file.
func readUsers(cmd *cobra.Command, file string, users []string) ([]string, error) {
	if file == "" && len(users) == 0 {
		return nil, usagef("no user IDs: specify them as arguments, or in a file with --file")
	}
	if file == "" {
		return users, nil
	}
	list, _, err := openFile(cmd, file, "user IDs, one per line")
	if err != nil {
		return nil, usagef("--file: %w", err)
	}
	defer list.Close()
	lines := bufio.NewScanner(textfile.NewReader(list))
	for lines.Scan() {
		if user := lines.Text(); user != "" {
			users = append(users, user)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, usagef("--file %s: %w", file, err)
	}
	return users, nil
}

// awaitDeletion waits until a request is complete and prints its result.
func (c *client) awaitDeletion(cmd *cobra.Command, id string, wait time.Duration) error {
	ctx := cmd.Context()
	var d response[users.Deletion]
	complete, err := pollFor(ctx, wait, "deletion request "+id, func(ctx context.Context) (complete bool, err error) {
		d, err = get[users.Deletion](ctx, c, "/deletions/"+url.PathEscape(id))
		return d.read.LostRecord || !d.read.CompletedAt.IsZero(), err
	})
	if err != nil {
		return err
	}
	if err := printResponse(cmd, c, d, "", printDeletion); err != nil {
		return err
	}
	sums := d.read.Sums()
	switch {
	case d.read.LostRecord:
		return errors.New("the request was lost to corruption: send it again")
	case !complete:
		return fmt.Errorf("%s still pending after %v", count(sums.Pending, "notification"), wait)
	case sums.Failed > 0:
		return fmt.Errorf("%s failed: see collector deletions %s --state failed", count(sums.Failed, "notification"), d.read.ID)
	}
	return nil
}

func deletionState(d users.Deletion) string {
	switch {
	case d.LostRecord:
		return "lost"
	case d.CompletedAt.IsZero():
		return "running"
	}
	return "done"
}

func printDeletion(out *printer, d users.Deletion) {
	fmt.Fprintf(out, "deletion request %s: %s, requested %s, %s\n", plain(d.ID), count(d.Users, "user"), d.RequestedAt.Local().Format(time.RFC3339), deletionState(d))
	if d.LostRecord {
		fmt.Fprintln(out, "the request was lost to corruption: send it again")
		return
	}
	if d.LostUsers > 0 {
		fmt.Fprintf(out, "%s lost to corruption: send the whole list again with another ID\n", count(d.LostUsers, "user"))
	}
	table(out, "no enabled destination to notify", "SOURCE,DESTINATION,PENDING,DELIVERED,FAILED,FILTERED", func(row func(...any)) {
		for _, t := range d.Targets {
			row(t.Source, t.Destination, t.Pending, t.Delivered, t.Failed, t.Filtered)
		}
	})
}

func newDeletions() *cobra.Command {
	var c client
	var limit int
	q := url.Values{}
	cmd := &cobra.Command{
		Use:   "deletions [ID]",
		Short: "List deletion requests, or show one with its results",
		Long: `List the deletion requests of the last 30 days, newest first. With an ID, show that
request and the result of each notification.`,
		Example: `  collector deletions
  collector deletions gdpr-2026-117 --state failed`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			switch {
			case len(args) > 0:
			case len(q) > 0:
				return usagef("--state and --user-id require the ID of a request: see %s --help", cmd.CommandPath())
			default:
				return c.listDeletions(cmd)
			}
			q.Set("limit", strconv.Itoa(limit))
			return c.showDeletion(cmd, args[0], q)
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "the number of notifications to list, at most 500")
	parameterFlag(cmd, q, "state", "only notifications with this status: pending, delivered, failed or filtered", callStates...)
	cmd.Flags().Var(parameter{query: q, name: "userId", repeated: true}, "user-id", "only notifications for this `user` (repeatable)")
	return c.addTo(cmd)
}

func (c *client) listDeletions(cmd *cobra.Command) error {
	return show(cmd, c, query{path: "/deletions", list: "deletions"}, func(out *printer, list struct{ Deletions []users.Deletion }) {
		table(out, "no deletion requests", zoned("REQUESTED")+",ID,STATE,USERS,LOST,PENDING,DELIVERED,FAILED,FILTERED", func(row func(...any)) {
			for _, d := range list.Deletions {
				sums := d.Sums()
				row(second(d.RequestedAt), d.ID, deletionState(d), d.Users, d.LostUsers, sums.Pending, sums.Delivered, sums.Failed, sums.Filtered)
			}
		})
	})
}

func (c *client) showDeletion(cmd *cobra.Command, id string, q url.Values) error {
	ctx := cmd.Context()
	path := "/deletions/" + url.PathEscape(id)
	d, err := get[users.Deletion](ctx, c, path)
	if err != nil {
		return err
	}
	page, err := get[struct {
		More     bool
		Outcomes []users.DeletionOutcome
	}](ctx, c, path+"/outcomes?"+q.Encode())
	if err != nil {
		return err
	}
	return c.output.write(cmd, withField("deletion", d.raw, page.raw), "outcomes", func(out *printer) {
		printDeletion(out, d.read)
		if len(page.read.Outcomes) == 0 {
			return
		}
		fmt.Fprintln(out)
		table(out, "", "USER,SOURCE,DESTINATION,STATE,ATTEMPTS,"+zoned("AT")+",REASON", func(row func(...any)) {
			for _, o := range page.read.Outcomes {
				row(o.UserID, o.Source, o.Destination, o.State, o.Attempt, second(o.At), o.Reason)
			}
		})
		if page.read.More {
			fmt.Fprintln(out, "more notifications exist: use --limit")
		}
	})
}
