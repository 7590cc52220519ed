package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

func newReplay() *cobra.Command {
	var c client
	var dryRun, wait bool
	cmd := &cobra.Command{
		Use:   "replay DESTINATION",
		Short: "Retry failed calls of a destination",
		Long: `Schedule calls of a destination for immediate delivery, with retries for another four
hours. By default, all failed calls are replayed; use flags to select some of them.

With --state, delivered and filtered calls can be replayed too, while the collector
retains them. The receiver then gets them again with the same X-Message-Id. Calls that
a tracking plan filtered are kept as long as failed calls, and are checked again with
the current plan.

A replay continues in the collector if the command is interrupted. With --wait, the
command ends when none of its calls is pending, and prints the results; the exit code is
1 if a call failed again. If an --id has no call to replay, the other calls are replayed,
and the exit code is 1.`,
		Example: `  collector replay crm --dry-run
  collector replay crm --since 24h --event 'Order Completed' --wait
  collector replay crm --state filtered --source web
  collector replay crm --id 0199d2c0-9a52-7e00-8000-2f5b4e1d6a10 --state delivered`,
		Args:              oneDestination,
		ValidArgsFunction: onlyFirst(c.destinationNames()),
	}
	q := c.filterFlags(cmd)
	parameterFlag(cmd, q, "state", "replay calls with this status: failed (default), delivered or filtered", "failed", "delivered", "filtered")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count the calls")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no call is pending, and print the results")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case dryRun && wait:
			return usagef("--wait and --dry-run cannot be used together")
		case dryRun:
			return c.countReplay(cmd, args[0], q)
		}
		run, err := c.replay(cmd.Context(), args[0], q, wait, newProgress(cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		err = printResponse(cmd, &c, run, "", func(out *printer, r engine.ReplayRun) { fmt.Fprintln(out, replayText(r, wait)) })
		switch r := run.read; {
		case err != nil:
		case r.Problem != "":
			err = fmt.Errorf("the replay stopped early: %s", r.Problem)
		case wait && r.Failed > 0:
			err = fmt.Errorf("%s failed again: collector calls --state failed lists the reasons", count(r.Failed, "call"))
		}
		return errors.Join(err, checkFound(args[0], q, run.read.Missing))
	}
	return c.addTo(cmd)
}

// countReplay prints the number of calls that a replay would select.
func (c *client) countReplay(cmd *cobra.Command, destination string, q url.Values) error {
	found, err := c.matching(cmd.Context(), destination, q)
	if err != nil {
		return err
	}
	err = printResponse(cmd, c, found, "", func(out *printer, found matches) {
		fmt.Fprintf(out, "%s to replay to %s\n", count(found.Calls, "call"), plain(destination))
	})
	return errors.Join(err, checkFound(destination, q, found.read.Missing))
}

// matches describes the calls that a replay would select.
type matches struct {
	Calls   int
	Missing []string // messageIds without a call
}

// matching counts the calls that a replay would select.
func (c *client) matching(ctx context.Context, destination string, q url.Values) (response[matches], error) {
	return ask[matches](ctx, c, http.MethodPost, "/destinations/"+url.PathEscape(destination)+"/replay", selection(q, true))
}

// checkFound returns an error if messageIds of a replay have no matching call.
func checkFound(destination string, q url.Values, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	quoted := make([]string, len(missing))
	for i, id := range missing {
		quoted[i] = text.Quote(text.MaxRepeated, id)
	}
	return fmt.Errorf("%s has no matching %s call with the messageId %s: check the ID, the state and the filters",
		destination, cmp.Or(q.Get("state"), "failed"), text.Alternatives(quoted))
}

// replay starts a replay and shows its progress. It returns when all calls are scheduled. If settled
// is true, it waits until no call is pending. If ctx ends earlier, it returns an error and
// the last known status.
func (c *client) replay(ctx context.Context, destination string, q url.Values, settled bool, shown *progress) (response[engine.ReplayRun], error) {
	defer shown.clear()
	run, err := ask[engine.ReplayRun](ctx, c, http.MethodPost, "/destinations/"+url.PathEscape(destination)+"/replays", selection(q, false))
	if err != nil {
		return run, err
	}
	id := run.read.ID
	err = poll(ctx, "replay "+id, func() (bool, error) {
		newest, err := get[engine.ReplayRun](ctx, c, "/replays/"+url.PathEscape(id))
		if err != nil {
			return true, err
		}
		run = newest
		r := run.read
		doing, n, of := "replayed", r.Replayed, r.Expected
		if !r.EndedAt.IsZero() {
			if !settled || r.Pending == 0 {
				return true, nil
			}
			doing, n, of = "delivered or failed again", r.Followed-r.Pending, r.Followed
		}
		shown.say(fmt.Sprintf("%d of %d calls %s%s%s", n, of, doing, percent(int64(n), int64(of)), shown.remaining(int64(n), int64(of))))
		return false, nil
	})
	return run, err
}

// replayText describes the result of a replay.
func replayText(r engine.ReplayRun, settled bool) string {
	text := fmt.Sprintf("%s replayed to %s", count(r.Replayed, "call"), plain(r.Destination))
	if !settled {
		return text
	}
	if r.Followed < r.Replayed {
		text += fmt.Sprintf("; of the first %d", r.Followed)
	}
	text += fmt.Sprintf(": %d delivered, %d failed again", r.Delivered, r.Failed)
	if r.Filtered > 0 {
		text += fmt.Sprintf(", %d filtered", r.Filtered)
	}
	return text
}

// selection converts query parameters of a list to the body of a replay request.
func selection(q url.Values, dryRun bool) map[string]any {
	selection := map[string]any{"dryRun": dryRun}
	for name, values := range q {
		switch name {
		case "messageId", "source", "type":
			selection[name+"s"] = values
		case "where":
			selection[name] = values
		default:
			selection[name] = values[0]
		}
	}
	return selection
}
