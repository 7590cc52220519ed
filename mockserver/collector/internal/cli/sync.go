package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// lastSync describes the latest sync of a computation.
func lastSync(c users.Computation) string {
	if c.LostRecord {
		return "the list was lost to corruption: send it again"
	}
	if len(c.Syncs) == 0 {
		return "-"
	}
	last, waiting := c.Syncs[len(c.Syncs)-1], 0
	for _, s := range c.Syncs[:len(c.Syncs)-1] {
		if s.State != users.SyncDone {
			waiting++
		}
	}
	if last.State == users.SyncDone || waiting == 0 {
		return syncProgress(last)
	}
	return fmt.Sprintf("%s (%d queued before it)", syncProgress(last), waiting)
}

// syncProgress describes the progress of a sync.
func syncProgress(s users.Sync) string {
	sent := fmt.Sprintf("%d of %d calls sent%s", s.Sent, s.Calls(), percent(s.Sent, s.Calls()))
	switch {
	case s.State == users.SyncQueued:
		return "queued"
	case s.Deletion != "":
		return string(s.State) + ", users deleted"
	case s.State == users.SyncDone:
		return fmt.Sprintf("done, %d entered, %d left", s.Entered, s.Left)
	case s.Waiting != "":
		return sent + "; " + plain(s.Waiting)
	}
	return sent
}

// A listKind contains the differences between the commands for audiences and for computed traits.
type listKind struct {
	kind        users.ComputationKind
	plural      string
	contentType string // Content-Type of an uploaded list
	content     string // description of a list
	short       string
	sync        cobra.Command // help texts of the command sync
}

func newAudience() *cobra.Command {
	return listKind{
		kind: users.KindAudience, plural: "audiences", contentType: "text/plain", content: "user IDs, one per line",
		short: "Sync audiences to destinations",
		sync: cobra.Command{
			Short: "Sync the members of an audience to a destination",
			Long: `Upload the complete list of members of an audience: one user ID per line, in any order,
of any size. The first sync sends the destination an identify call for every member,
with the trait true. Later syncs send calls only for users who entered (true) or left
(false). The trait is the name of the audience in snake_case: big_spenders.

The list is stored before the collector responds. The command shows the progress until
all calls are queued; the sync continues if the command is interrupted. Lists of one
audience are processed in order.`,
			Example: `  collector audience sync 'Big Spenders' --file members.txt
  psql -Atc 'select id from users where spent > 1000' | collector audience sync 'Big Spenders' --destination crm
  collector audience sync 'Big Spenders' --file members.txt --dry-run`,
		},
	}.command()
}

func newTrait() *cobra.Command {
	return listKind{
		kind: users.KindTrait, plural: "computed traits", contentType: "application/x-ndjson", content: "values, one JSON object per line",
		short: "Sync computed traits to destinations",
		sync: cobra.Command{
			Short: "Sync the values of a computed trait to a destination",
			Long: `Upload the values of a computed trait for all users who have one: one JSON object per
line, in any order, of any size:

  {"userId":"u1","value":42}

The destination receives an identify call for each user whose value changed, and one
with null for each user who no longer has a value. The trait is the name in snake_case:
lifetime_value. In all other respects this works like collector audience sync.`,
			Example: `  collector trait sync 'Lifetime Value' --file values.jsonl
  collector trait sync 'Lifetime Value' --destination crm --dry-run < values.jsonl`,
		},
	}.command()
}

func (k listKind) command() *cobra.Command {
	return listGroup(&cobra.Command{Use: string(k.kind), Short: k.short, Long: k.short + ". Without a command, list the " + k.plural + "."}, k.newList(), k.newSync(), k.newForget())
}

// syncFlags are the flags of the sync command.
type syncFlags struct {
	client
	file                             string
	destination                      url.Values // query parameters source and destination
	dryRun, full, allowEmpty, noWait bool
}

func (k listKind) newSync() *cobra.Command {
	f := syncFlags{destination: url.Values{}}
	cmd := &k.sync
	cmd.Use, cmd.Args = "sync NAME", oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.sync(cmd, k, args[0]) }
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "the `file` with the list; - is standard input")
	parameterFlag(cmd, f.destination, "source", "the source of the users (default: the only source)")
	f.destinationFlag(cmd, f.destination, "the destination of the calls (default: the only destination of the source)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count the changes")
	flags.BoolVar(&f.full, "full", false, "also send unchanged users, for a destination that lost its data")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "accept an empty list, which removes all users")
	flags.BoolVar(&f.noWait, "no-wait", false, "return once the list is stored")
	return f.addTo(cmd)
}

func (f *syncFlags) sync(cmd *cobra.Command, k listKind, name string) error {
	list, size, err := openFile(cmd, f.file, k.content)
	if err != nil {
		return usagef("--file: %w", err)
	}
	defer list.Close()
	shown := newProgress(cmd.ErrOrStderr())
	s, err := f.upload(cmd.Context(), k, name, shown.reading(list, size), size)
	shown.clear()
	if err == nil && !f.dryRun && !f.noWait {
		s, err = f.await(cmd.Context(), s.read.ID, shown)
	}
	if err != nil {
		return err
	}
	return printResponse(cmd, &f.client, s, "", func(out *printer, s users.Sync) { f.report(out, k, name, s) })
}

// upload uploads the list.
func (f *syncFlags) upload(ctx context.Context, k listKind, name string, list io.Reader, size int64) (s response[users.Sync], err error) {
	for parameter, set := range map[string]bool{"dryRun": f.dryRun, "full": f.full, "allowEmpty": f.allowEmpty} {
		if set {
			f.destination.Set(parameter, "true")
		}
	}
	req, err := f.request(ctx, http.MethodPost, fmt.Sprintf("/%ss/%s/syncs?%s", k.kind, url.PathEscape(name), f.destination.Encode()), list)
	if err != nil {
		return s, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", k.contentType)
	req.Header.Set("Expect", "100-continue") // a rejected request then does not upload the list
	err = f.do(req, &s)
	return s, err
}

// await shows the progress of a sync until it is complete.
func (f *syncFlags) await(ctx context.Context, id string, shown *progress) (s response[users.Sync], err error) {
	defer shown.clear()
	err = poll(ctx, "sync "+id, func() (done bool, err error) {
		if s, err = get[users.Sync](ctx, &f.client, "/syncs/"+url.PathEscape(id)); err != nil || s.read.State == users.SyncDone {
			return true, err
		}
		shown.say(syncProgress(s.read) + shown.remaining(s.read.Sent, s.read.Calls()))
		return false, nil
	})
	return s, err
}

func (f *syncFlags) report(out io.Writer, k listKind, name string, s users.Sync) {
	fmt.Fprintf(out, "%s %q has %s: ", k.kind, plain(name), count(s.Users, "user"))
	changes := fmt.Sprintf("%d entered, %d left", s.Entered, s.Left)
	if k.kind == users.KindTrait {
		changes = fmt.Sprintf("%d new or changed, %d removed", s.Entered, s.Left)
	}
	switch {
	case f.dryRun:
		fmt.Fprintf(out, "%s (dry run)\n", changes)
	case f.noWait:
		fmt.Fprintf(out, "stored as sync %s\n", s.ID)
	default:
		fmt.Fprintf(out, "%s; sync %s queued %s\n", changes, s.ID, count(s.Sent, "call"))
	}
}

func (k listKind) newList() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:     "list",
		Short:   "List the " + k.plural + " and the progress of their syncs",
		Example: "  collector " + string(k.kind) + " list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &c, query{path: "/computations", list: "computations"}, func(out *printer, list computations) {
				table(out, "no "+k.plural, "NAME,TRAIT,SOURCE,DESTINATION,USERS,LOST,LAST SYNC", func(row func(...any)) {
					for _, one := range list.of(k.kind) {
						row(one.Name, one.Key, one.Source, one.Destination, one.Users, one.LostUsers, lastSync(one))
					}
				})
			})
		},
	})
}

// computations is the JSON format of all audiences and computed traits in the admin API.
type computations struct{ Computations []users.Computation }

// of returns the computations of a kind.
func (c computations) of(kind users.ComputationKind) []users.Computation {
	return slices.DeleteFunc(c.Computations, func(one users.Computation) bool { return one.Kind != kind })
}

func (k listKind) newForget() *cobra.Command {
	var c client
	q := url.Values{}
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Delete the list and its sync state",
		Long: `Delete the list, its sync state and its queued syncs. Nothing is sent: the destination
keeps its data. The next sync sends calls for all users again.`,
		Example: "  collector " + string(k.kind) + " forget 'Big Spenders' --destination crm",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := k.find(cmd.Context(), &c, args[0], q.Get("source"), q.Get("destination"))
			if err != nil {
				return err
			}
			if _, err := ask[any](cmd.Context(), &c, http.MethodDelete, "/computations/"+one.ID, nil); err != nil {
				return err
			}
			return c.output.write(cmd, map[string]any{"forgotten": one.ID}, "", func(out *printer) {
				fmt.Fprintf(out, "Deleted %s %q (source %s, destination %s)\n", k.kind, plain(one.Name), plain(one.Source), plain(one.Destination))
			})
		},
	}
	parameterFlag(cmd, q, "source", "the source, if the name is ambiguous")
	c.destinationFlag(cmd, q, "the destination, if the name is ambiguous")
	return c.addTo(cmd)
}

// find returns the computation with this name. source and destination may be empty.
func (k listKind) find(ctx context.Context, c *client, name, source, destination string) (users.Computation, error) {
	all, err := get[computations](ctx, c, "/computations")
	if err != nil {
		return users.Computation{}, err
	}
	var found []users.Computation
	var places []string
	for _, one := range all.read.of(k.kind) {
		if (one.Name == name || one.Key == name) && (source == "" || one.Source == source) && (destination == "" || one.Destination == destination) {
			found = append(found, one)
			places = append(places, fmt.Sprintf("source %s, destination %s", one.Source, one.Destination))
		}
	}
	switch len(found) {
	case 0:
		return users.Computation{}, fmt.Errorf("%s not found: see collector %s list", k.kind, k.kind)
	case 1:
		return found[0], nil
	}
	return users.Computation{}, errors.New("the name is ambiguous (" + strings.Join(places, "; ") + "): set --source and --destination")
}
