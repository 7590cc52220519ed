package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A destination is one as the admin API tells of it.
type destination struct {
	Name     string                   `json:"name"`
	Sources  []string                 `json:"sources"` // none: all
	Webhooks []endpoint               `json:"webhooks"`
	Status   engine.DestinationStatus `json:"status"`
	Ledger   tracking.Ledger          `json:"ledger"`
}

// An endpoint is one of its webhooks.
type endpoint struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// state says how a destination is doing.
func (d *destination) state() string {
	if d.Status.RecentFailures == 0 {
		return string(d.Status.State)
	}
	return fmt.Sprintf("%s (%d of the last %d attempts failed)", d.Status.State, d.Status.RecentFailures, d.Status.RecentAttempts)
}

// health is how the collector is, as the admin API tells of it.
type health struct {
	Status  string         `json:"status"`
	Message string         `json:"message"`
	Journal journal.Health `json:"journal"`
}

func newStatus() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:   "status",
		Short: "Show how the queue and each destination are doing",
		Long: `Show whether calls can be stored, how full the queue is, and for each destination
whether it is up, how many calls it has before it, and since when the oldest waits.`,
		Example: "  collector status\n  collector status --json | jq '.destinations[].ledger.pending'",
		Args:    noArgs,
		RunE: limited(func(ctx context.Context, out io.Writer, _ []string) error {
			queue, err := get[health](ctx, &c, "/health")
			if err != nil {
				return err
			}
			list, err := get[struct{ Destinations []destination }](ctx, &c, "/destinations")
			if err != nil {
				return err
			}
			if c.output.data() {
				return c.output.print(out, json.RawMessage(fmt.Appendf(nil, `{"health":%s,%s`, queue.raw, list.raw[len("{"):])), "")
			}
			queue.read.print(out)
			if len(list.read.Destinations) == 0 {
				return nil
			}
			return table(out, "", "DESTINATION,STATE,PENDING,FAILED,DELIVERED,LOST,OLDEST PENDING", func(row func(...any)) {
				for _, d := range list.read.Destinations {
					row(d.Name, d.state(), d.Ledger.Pending, d.Ledger.Failed, d.Ledger.Delivered, d.Ledger.Lost, age(d.Ledger.OldestPending))
				}
			})
		}),
	})
}

func (h *health) print(out io.Writer) {
	fmt.Fprint(out, h.Status)
	if h.Message != "" {
		fmt.Fprintf(out, ": %s", plain(h.Message))
	}
	fmt.Fprintf(out, "; the queue holds %s", bytesText(h.Journal.Bytes))
	if h.Journal.LimitBytes > 0 {
		fmt.Fprintf(out, " of %s", bytesText(h.Journal.LimitBytes))
	}
	fmt.Fprintln(out)
	for _, d := range h.Journal.Scrub.Damage {
		fmt.Fprintf(out, "DAMAGED: %s\n", plain(d))
	}
	for _, r := range h.Journal.Replicas {
		fmt.Fprintf(out, "REPLICA: %s\n", plain(r.String()))
	}
	for _, s := range h.Journal.Servers {
		fmt.Fprintf(out, "server %s, version %s: %s\n", plain(s.Name), plain(cmp.Or(s.Version, "not known")), plain(durability(s)))
	}
}

// durability says when a server of the cluster acknowledges calls.
func durability(s journal.Server) string {
	switch s.Sync {
	case journal.SyncAlways:
		return "calls are on its disk before they are acknowledged"
	case journal.SyncLazy:
		return fmt.Sprintf("calls are acknowledged BEFORE they are on its disk (sync_interval %s)", s.SyncInterval)
	}
	return "whether calls are on its disk before they are acknowledged is not known; set nats.monitor"
}

// A proof is the account of a destination, counted anew.
type proof struct {
	journal.Verification
	Holds bool `json:"holds"`
}

// proofs are those of all destinations.
type proofs struct {
	Holds        bool             `json:"holds"`
	Destinations []proof          `json:"destinations"`
	Lists        []users.LostList `json:"lists"`
}

func newVerify() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:   "verify",
		Short: "Prove that no call is missing: the ledger of every destination",
		Long: `Count anew, from what is stored, the account of every destination. It holds where

  accepted = delivered + failed + filtered + pending + lost

that is, where every call that was answered 200 is one of these, none of which is
negative, and where what is pending is stored and will be tried. Lost is what went
with a damage that serve --accept-loss accepted; each loss is listed with its cause.
Deletion requests, audiences and traits that lost users in this way are listed below,
with the number of users.
The exit code is 1 where an account does not hold. Calls may come and go meanwhile.
Failed calls are kept: see collector replay.`,
		Example: "  collector verify\n  collector verify --json | jq .holds",
		Args:    noArgs,
		RunE: limited(func(ctx context.Context, out io.Writer, _ []string) error {
			answer, err := get[proofs](ctx, &c, "/ledger?verify=true")
			if err != nil {
				return err
			}
			err = printAnswer(&c, out, answer, "destinations", func(p proofs) error { return p.print(out) })
			if err == nil && !answer.read.Holds {
				err = errors.New("the ledger does not balance")
			}
			return err
		}),
	})
}

func (p *proofs) print(out io.Writer) error {
	defer func() {
		for _, l := range p.Lists {
			fmt.Fprintln(out, plain(l.String()))
		}
	}()
	err := table(out, "no destinations", "DESTINATION,ACCEPTED,DELIVERED,FAILED,FILTERED,PENDING,LOST,", func(row func(...any)) {
		for _, l := range p.Destinations {
			row(l.Destination, l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost, l.verdict())
		}
	})
	for _, l := range p.Destinations {
		for _, loss := range l.Losses {
			fmt.Fprintf(out, "%s: lost %s, accepted on %s: %s\n", plain(l.Destination), count(loss.Calls, "call"), loss.At.Local().Format(time.RFC3339), plain(loss.Cause))
		}
		for _, problem := range l.Problems {
			fmt.Fprintf(out, "%s: %s\n", plain(l.Destination), plain(problem))
		}
	}
	return err
}

func (p *proof) verdict() string {
	missing := p.Accepted - p.Delivered - p.Failed - p.Filtered - p.Pending - p.Lost
	switch {
	case missing != 0:
		return fmt.Sprintf("DOES NOT HOLD: off by %d", missing)
	case !p.Holds:
		return "DOES NOT HOLD"
	}
	return "holds"
}

func newPause() *cobra.Command {
	return newSwitch("pause", "Make no more attempts to a destination until it is resumed", `Make no more attempts to a destination until collector resume. Its calls wait in
the queue, and their four hours go on: a call that is older when it is resumed is
given up, and can be replayed. It stays paused across restarts.`, "paused")
}

func newResume() *cobra.Command {
	return newSwitch("resume", "Make attempts to a destination again", "Make attempts to a destination again that was paused.", "resumed")
}

func newSwitch(verb, short, long, done string) *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:               verb + " DESTINATION",
		Short:             short,
		Long:              long,
		Example:           "  collector " + verb + " crm",
		Args:              oneDestination,
		ValidArgsFunction: c.destinationNames,
		RunE: limited(func(ctx context.Context, out io.Writer, args []string) error {
			post := query{method: http.MethodPost, path: "/destinations/" + url.PathEscape(args[0]) + "/" + verb}
			return show(ctx, &c, out, post, func(d destination) error {
				_, err := fmt.Fprintf(out, "%s is %s, with %s pending\n", plain(d.Name), done, count(d.Ledger.Pending, "call"))
				return err
			})
		}),
	})
}
