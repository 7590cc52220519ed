package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A destination is the JSON format of a destination in the admin API.
type destination struct {
	Name             string                   `json:"name"`
	Sources          []string                 `json:"sources"` // empty for all sources
	Status           engine.DestinationStatus `json:"status"`
	Ledger           tracking.Ledger          `json:"ledger"`
	webhook.Settings                          // without secrets
}

// state describes the current state of the destination.
func (d *destination) state() string {
	if d.Status.RecentFailures == 0 {
		return string(d.Status.State)
	}
	return fmt.Sprintf("%s (%d of the last %d attempts failed)", d.Status.State, d.Status.RecentFailures, d.Status.RecentAttempts)
}

// A destinationList is the JSON format of the destinations in the admin API.
type destinationList struct{ Destinations []destination }

// destinations returns all destinations.
func (c *client) destinations(ctx context.Context) (response[destinationList], error) {
	return get[destinationList](ctx, c, "/destinations")
}

// status returns the health of the collector and all destinations.
func (c *client) status(ctx context.Context) (health response[export.Health], list response[destinationList], err error) {
	if health, err = get[export.Health](ctx, c, "/health"); err == nil {
		list, err = c.destinations(ctx)
	}
	return health, list, err
}

func newStatus() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:   "status",
		Short: "Show the status of the queue and the destinations",
		Long: `Show whether calls can be stored, the size of the queue, and for each destination its
state, its number of pending calls and the age of the oldest.`,
		Example: "  collector status\n  collector status --json | jq '.destinations[].ledger.pending'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			queue, list, err := c.status(cmd.Context())
			if err != nil {
				return err
			}
			return c.output.write(cmd, withField("health", queue.raw, list.raw), "", func(out *printer) {
				printHealth(out, &queue.read)
				if len(list.read.Destinations) == 0 {
					return
				}
				table(out, "", "DESTINATION,STATE,PENDING,FAILED,DELIVERED,LOST,OLDEST PENDING", func(row func(...any)) {
					for _, d := range list.read.Destinations {
						row(d.Name, d.state(), d.Ledger.Pending, d.Ledger.Failed, d.Ledger.Delivered, d.Ledger.Lost, age(d.Ledger.OldestPending))
					}
				})
			})
		},
	})
}

func printHealth(out io.Writer, h *export.Health) {
	fmt.Fprint(out, h.Status)
	if h.Message != "" {
		fmt.Fprintf(out, ": %s", plain(h.Message))
	}
	fmt.Fprintf(out, "; the queue contains %s", bytesText(h.Journal.Bytes))
	if h.Journal.LimitBytes > 0 {
		fmt.Fprintf(out, " of %s", bytesText(h.Journal.LimitBytes))
	}
	fmt.Fprintln(out)
	for _, d := range h.Journal.Scrub.Damage {
		fmt.Fprintf(out, "CORRUPTION: %s\n", plain(d))
	}
	for _, r := range h.Journal.Replicas {
		fmt.Fprintf(out, "REPLICA: %s\n", plain(r.String()))
	}
	for _, s := range h.Journal.Servers {
		fmt.Fprintf(out, "server %s, version %s: %s\n", plain(s.Name), plain(cmp.Or(s.Version, "unknown")), plain(durability(s)))
	}
}

// durability describes whether a server of the cluster acknowledges calls before they are on disk.
func durability(s journal.Server) string {
	switch s.Sync {
	case journal.SyncAlways:
		return "syncs calls to disk before acknowledging them"
	case journal.SyncLazy:
		return fmt.Sprintf("acknowledges calls BEFORE they are on disk (sync_interval %s)", s.SyncInterval)
	}
	return "unknown whether it syncs calls to disk before acknowledging them; set nats.monitor"
}

func newVerify() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:   "verify",
		Short: "Check that every call is accounted for",
		Long: `Recompute the ledger of every destination from stored data. A ledger balances if

  accepted = delivered + failed + filtered + pending + lost

that is, if every accepted call has one of these states, none of the numbers is
negative, and each pending call is stored and scheduled. Lost calls are calls in
corrupted data that serve --accept-loss discarded; each loss is listed with its cause.
Deletion requests, audiences and traits that lost users in this way are listed below
the ledgers.

The exit code is 1 if a ledger does not balance. Calls can be accepted and delivered
during the check. Failed calls are kept: see collector replay.`,
		Example: "  collector verify\n  collector verify --json | jq .holds",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			proofs, err := get[export.Proofs](cmd.Context(), &c, "/ledger?verify=true")
			if err == nil {
				err = printResponse(cmd, &c, proofs, "destinations", printProofs)
			}
			if err == nil && !proofs.read.Holds {
				err = errors.New("the ledger does not balance")
			}
			return err
		},
	})
}

func printProofs(out *printer, p export.Proofs) {
	table(out, "no destinations", "DESTINATION,ACCEPTED,DELIVERED,FAILED,FILTERED,PENDING,LOST,", func(row func(...any)) {
		for _, l := range p.Destinations {
			row(l.Destination, l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost, balance(&l))
		}
	})
	for _, l := range p.Destinations {
		for _, loss := range l.Losses {
			fmt.Fprintf(out, "%s: lost %s, discarded on %s: %s\n", plain(l.Destination), count(loss.Calls, "call"), loss.At.Local().Format(time.RFC3339), plain(loss.Cause))
		}
		for _, problem := range l.Problems {
			fmt.Fprintf(out, "%s: %s\n", plain(l.Destination), plain(problem))
		}
	}
	for _, l := range p.Lists {
		fmt.Fprintln(out, plain(l.String()))
	}
}

// balance describes whether a ledger balances.
func balance(p *export.Proof) string {
	missing := p.Accepted - p.Delivered - p.Failed - p.Filtered - p.Pending - p.Lost
	switch {
	case missing != 0:
		return fmt.Sprintf("DOES NOT BALANCE: off by %d", missing)
	case !p.Holds:
		return "DOES NOT BALANCE"
	}
	return "balances"
}

func newPause() *cobra.Command {
	return newSwitch("pause", "Pause deliveries to a destination", `Pause deliveries to a destination until collector resume. Its calls stay in the
queue, but their four hours of retries continue to elapse: a call that is older when
the destination is resumed fails, and can be replayed. Restarts do not resume it.`, "paused")
}

func newResume() *cobra.Command {
	return newSwitch("resume", "Resume deliveries to a destination", "Resume deliveries to a paused destination.", "resumed")
}

func newSwitch(verb, short, long, done string) *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:               verb + " DESTINATION",
		Short:             short,
		Long:              long,
		Example:           "  collector " + verb + " crm",
		Args:              oneDestination,
		ValidArgsFunction: onlyFirst(c.destinationNames()),
		RunE: func(cmd *cobra.Command, args []string) error {
			post := query{method: http.MethodPost, path: "/destinations/" + url.PathEscape(args[0]) + "/" + verb}
			return show(cmd, &c, post, func(out *printer, d destination) {
				fmt.Fprintf(out, "%s is %s, with %s pending\n", plain(d.Name), done, count(d.Ledger.Pending, "call"))
			})
		},
	})
}
