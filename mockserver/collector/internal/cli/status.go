package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// A ledger is the account of a destination, as the admin API tells it.
type ledger struct {
	Destination   string    `json:"destination"`
	Accepted      int64     `json:"accepted"`
	Delivered     int64     `json:"delivered"`
	Failed        int64     `json:"failed"`
	Filtered      int64     `json:"filtered"`
	Pending       int64     `json:"pending"`
	Lost          int64     `json:"lost"`
	OldestPending time.Time `json:"oldestPending"`
	Holds         bool      `json:"holds"`
	Losses        []loss    `json:"losses"`
	Problems      []string  `json:"problems"`
}

// A loss is calls that went with what was damaged.
type loss struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Cause string    `json:"cause"`
}

type destinationList struct {
	Destinations []destination `json:"destinations"`
}

type destination struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"` // none: all
	Enabled bool     `json:"enabled"`
	Status  struct {
		State          string `json:"state"`
		RecentAttempts int    `json:"recentAttempts"`
		RecentFailures int    `json:"recentFailures"`
	} `json:"status"`
	Ledger ledger `json:"ledger"`
}

// A clusterServer is one of the cluster that keeps the queue.
type clusterServer struct {
	Name, Version, Sync, SyncInterval string
}

func (s clusterServer) String() string {
	switch s.Sync {
	case "always":
		return fmt.Sprintf("%s, version %s: calls are on its disk before they are acknowledged", s.Name, s.Version)
	case "lazy":
		return fmt.Sprintf("%s, version %s: calls are acknowledged BEFORE they are on its disk (sync_interval %s)", s.Name, s.Version, s.SyncInterval)
	}
	return fmt.Sprintf("%s, version %s: whether calls are on its disk before they are acknowledged is not known, see nats.monitor", s.Name, cmp.Or(s.Version, "not known"))
}

// state says how a destination is doing.
func (d *destination) state() string {
	if d.Status.RecentFailures == 0 {
		return d.Status.State
	}
	return fmt.Sprintf("%s (%d of the last %d attempts failed)", d.Status.State, d.Status.RecentFailures, d.Status.RecentAttempts)
}

func newStatus() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the queue and each destination are doing",
		Long: `Show whether calls can be stored, how full the queue is, and for each destination
whether it is up, how many calls it has before it, and since when the oldest waits.`,
		Example: "  collector status\n  collector status --json | jq '.destinations[].ledger.pending'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			var health struct {
				Status  string `json:"status"`
				Message string `json:"message"`
				Journal struct {
					Bytes, LimitBytes int64
					Servers           []clusterServer
					Scrub             struct{ Damage []string }
				} `json:"journal"`
			}
			var list destinationList
			rawHealth, err := c.get(ctx, "/health", &health)
			if err != nil {
				return err
			}
			raw, err := c.get(ctx, "/destinations", &list)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if c.json {
				return printJSON(out, fmt.Appendf(nil, `{"health":%s,"destinations":%s`, rawHealth, raw[len(`{"destinations":`):]))
			}
			fmt.Fprintf(out, "%s", health.Status)
			if health.Message != "" {
				fmt.Fprintf(out, ": %s", plain(health.Message))
			}
			fmt.Fprintf(out, "; the queue holds %s", bytesText(health.Journal.Bytes))
			if health.Journal.LimitBytes > 0 {
				fmt.Fprintf(out, " of %s", bytesText(health.Journal.LimitBytes))
			}
			fmt.Fprintln(out)
			for _, d := range health.Journal.Scrub.Damage {
				fmt.Fprintf(out, "DAMAGED: %s\n", plain(d))
			}
			for _, s := range health.Journal.Servers {
				fmt.Fprintf(out, "server %s\n", plain(s.String()))
			}
			return table(out, func(row func(...any)) {
				if len(list.Destinations) > 0 {
					row("DESTINATION", "STATE", "PENDING", "FAILED", "DELIVERED", "LOST", "OLDEST PENDING")
				}
				for _, d := range list.Destinations {
					row(d.Name, d.state(), d.Ledger.Pending, d.Ledger.Failed, d.Ledger.Delivered, d.Ledger.Lost, age(d.Ledger.OldestPending))
				}
			})
		},
	}
	c.addFlags(cmd)
	return cmd
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return max(0, time.Since(since)).Round(time.Second).String() + " ago" // the clock may have stepped back
}

func newVerify() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that no call is missing: the ledger of every destination",
		Long: `Count anew, from what is stored, the account of every destination. It holds where

  accepted = delivered + failed + filtered + pending + lost

that is, where every call that was answered 200 is one of these, none of which is
negative, and where what is pending is stored and will be tried. Lost is what went
with a damage that serve --accept-loss accepted; each loss is listed with its cause.
The exit code is 1 where an account does not hold. Calls may come and go meanwhile.
Failed calls are kept: see collector replay.`,
		Example: "  collector verify\n  collector verify --json | jq .holds",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			var answer struct {
				Holds        bool     `json:"holds"`
				Destinations []ledger `json:"destinations"`
			}
			raw, err := c.get(ctx, "/ledger?verify=true", &answer)
			if err != nil {
				return err
			}
			if err := c.printLedger(cmd, raw, answer.Destinations); err != nil {
				return err
			}
			if !answer.Holds {
				return errors.New("the ledger does not hold")
			}
			return nil
		},
	}
	c.addFlags(cmd)
	return cmd
}

func (c *client) printLedger(cmd *cobra.Command, raw []byte, ledgers []ledger) error {
	out := cmd.OutOrStdout()
	if c.json {
		return printJSON(out, raw)
	}
	if len(ledgers) == 0 {
		fmt.Fprintln(out, "there are no destinations")
		return nil
	}
	err := table(out, func(row func(...any)) {
		row("DESTINATION", "ACCEPTED", "DELIVERED", "FAILED", "FILTERED", "PENDING", "LOST", "")
		for _, l := range ledgers {
			row(l.Destination, l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost, l.verdict())
		}
	})
	for _, l := range ledgers {
		for _, loss := range l.Losses {
			fmt.Fprintf(out, "%s: lost %s, accepted on %s: %s\n", plain(l.Destination), count(loss.Calls, "call"), loss.At.Format(time.DateTime), plain(loss.Cause))
		}
		for _, problem := range l.Problems {
			fmt.Fprintf(out, "%s: %s\n", plain(l.Destination), plain(problem))
		}
	}
	return err
}

func (l *ledger) verdict() string {
	missing := l.Accepted - l.Delivered - l.Failed - l.Filtered - l.Pending - l.Lost
	switch {
	case missing != 0:
		return fmt.Sprintf("DOES NOT HOLD: off by %d", missing)
	case !l.Holds:
		return "DOES NOT HOLD"
	}
	return "holds"
}

func newPause() *cobra.Command {
	return switchCommand("pause", "Make no more attempts to a destination until it is resumed", `Make no more attempts to a destination until collector resume. Its calls wait in
the queue, and their four hours go on: a call that is older when it is resumed is
given up, and can be replayed. It stays paused across restarts.`, "paused")
}

func newResume() *cobra.Command {
	return switchCommand("resume", "Make attempts to a destination again", "Make attempts to a destination again that was paused.", "resumed")
}

func switchCommand(verb, short, long, done string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:               verb + " DESTINATION",
		Short:             short,
		Long:              long,
		Example:           "  collector " + verb + " crm",
		Args:              oneDestination,
		ValidArgsFunction: c.destinationNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			var d destination
			var raw rawAnswer
			if err := c.call(ctx, "POST", "/destinations/"+url.PathEscape(args[0])+"/"+verb, nil, &raw); err != nil {
				return err
			}
			if err := raw.read(&d); err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), raw.data)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is %s, with %s pending\n", plain(d.Name), done, count(d.Ledger.Pending, "call"))
			return nil
		},
	}
	c.addFlags(cmd)
	return cmd
}
