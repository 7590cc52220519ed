package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// lastSync says how the last sync of a computation is.
func lastSync(c users.Computation) string {
	if c.LostRecord {
		return "the record of this list was lost: send the list again"
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
	return fmt.Sprintf("%s (%d before it)", syncProgress(last), waiting)
}

// syncProgress says how far a sync is, on one line.
func syncProgress(s users.Sync) string {
	sent := fmt.Sprintf("%d of %d calls sent%s", s.Sent, s.Calls(), percent(s.Sent, s.Calls()))
	switch {
	case s.State == users.SyncQueued:
		return "waits for its turn"
	case s.Deletion != "":
		return string(s.State) + ", users deleted"
	case s.State == users.SyncDone:
		return fmt.Sprintf("done, %d entered, %d left", s.Entered, s.Left)
	case s.Waiting != "":
		return sent + "; " + plain(s.Waiting)
	}
	return sent
}

// A listKind is what there is to know about audiences, or about traits.
type listKind struct {
	kind        users.ComputationKind
	plural      string
	contentType string // of a list
	short       string
	sync        cobra.Command // its help
}

func newAudience() *cobra.Command {
	return listKind{
		kind: users.KindAudience, plural: "audiences", contentType: "text/plain",
		short: "Sync audiences: tell destinations who is a member",
		sync: cobra.Command{
			Short: "Tell a destination who is a member of an audience",
			Long: `Give the list of all members of an audience, user IDs one a line, in any order and
any number. The first time, the destination gets an identify call for every member,
with the trait true; after that, only for those who have entered (true) or left
(false). The trait is the audience's name in snake_case: big_spenders.

The list is stored before it is answered. What follows is shown until all calls are
in the queue of the destination, and goes on without this command, too. Lists of
one audience are worked off one after the other.`,
			Example: `  collector audience sync 'Big Spenders' --file members.txt
  psql -Atc 'select id from users where spent > 1000' | collector audience sync 'Big Spenders' --destination crm
  collector audience sync 'Big Spenders' --file members.txt --dry-run`,
		},
	}.command()
}

func newTrait() *cobra.Command {
	return listKind{
		kind: users.KindTrait, plural: "computed traits", contentType: "application/x-ndjson",
		short: "Sync computed traits: tell destinations their values",
		sync: cobra.Command{
			Short: "Tell a destination the values of a computed trait",
			Long: `Give the values of a computed trait for all users who have one, JSON one a line, in
any order and any number:

  {"userId":"u1","value":42}

The destination gets an identify call for each user whose value is another than
before, and for each who has none any more, with null. The trait is the name in
snake_case: lifetime_value. Otherwise it is as with collector audience sync.`,
			Example: `  collector trait sync 'Lifetime Value' --file values.jsonl
  collector trait sync 'Lifetime Value' --destination crm --dry-run < values.jsonl`,
		},
	}.command()
}

func (k listKind) command() *cobra.Command {
	return group(&cobra.Command{Use: string(k.kind), Short: k.short, Long: k.short + "."}, k.newSync(), k.newList(), k.newForget())
}

// syncFlags say which list goes where, and how.
type syncFlags struct {
	client
	file                             string
	destination                      url.Values // source and destination
	dryRun, full, allowEmpty, noWait bool
}

func (k listKind) newSync() *cobra.Command {
	f := syncFlags{destination: url.Values{}}
	cmd := &k.sync
	cmd.Use, cmd.Args = "sync NAME", oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.sync(cmd, k, args[0]) }
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "the `file` with the list; - is standard input")
	parameterFlag(cmd, f.destination, "source", "the source whose users they are (default: the only one)")
	f.destinationFlag(cmd, f.destination, "the destination that gets the calls (default: the only one of the source)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count")
	flags.BoolVar(&f.full, "full", false, "also send what the destination should know, for one that has lost it")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "take an empty list, after which every user has left")
	flags.BoolVar(&f.noWait, "no-wait", false, "end when the list is stored")
	return f.addTo(cmd)
}

func (f *syncFlags) sync(cmd *cobra.Command, k listKind, name string) error {
	list, size, err := openFile(cmd.InOrStdin(), f.file)
	if err != nil {
		return err
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
	return printAnswer(&f.client, cmd.OutOrStdout(), s, "", func(s users.Sync) error {
		f.report(cmd.OutOrStdout(), k, name, s)
		return nil
	})
}

// openFile opens a file, or standard input for "-", and tells how long it is; -1
// if nobody knows.
func openFile(in io.Reader, path string) (io.ReadCloser, int64, error) {
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

// upload sends the list.
func (f *syncFlags) upload(ctx context.Context, k listKind, name string, list io.Reader, size int64) (s answer[users.Sync], err error) {
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
	req.Header.Set("Expect", "100-continue") // what is refused by its name is not sent
	err = f.do(req, &s)
	return s, err
}

// await shows how far a sync is until it is done.
func (f *syncFlags) await(ctx context.Context, id string, shown *progress) (s answer[users.Sync], err error) {
	defer shown.clear()
	err = poll(ctx, func() (done bool, err error) {
		if s, err = get[users.Sync](ctx, &f.client, "/syncs/"+url.PathEscape(id)); err != nil || s.read.State == users.SyncDone {
			return true, err
		}
		shown.say(syncProgress(s.read) + shown.remaining(s.read.Sent, s.read.Calls()))
		return false, nil
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("the list is stored, and sync %s goes on in the collector", id)
	}
	return s, err
}

func (f *syncFlags) report(out io.Writer, k listKind, name string, s users.Sync) {
	fmt.Fprintf(out, "%s %q has %s: ", k.kind, plain(name), count(s.Users, "user"))
	changes := fmt.Sprintf("%d entered, %d left", s.Entered, s.Left)
	if k.kind == users.KindTrait {
		changes = fmt.Sprintf("%d new or changed, %d gone", s.Entered, s.Left)
	}
	switch {
	case f.dryRun:
		fmt.Fprintf(out, "%s; nothing was sent\n", changes)
	case f.noWait:
		fmt.Fprintf(out, "the list is stored as sync %s\n", s.ID)
	default:
		fmt.Fprintf(out, "%s; %s queued by sync %s\n", changes, are(s.Sent, "call"), s.ID)
	}
}

func (k listKind) newList() *cobra.Command {
	var c client
	return c.addTo(&cobra.Command{
		Use:     "list",
		Short:   "List the " + k.plural + " and how far their syncs are",
		Example: "  collector " + string(k.kind) + " list",
		Args:    noArgs,
		RunE: limited(func(ctx context.Context, out io.Writer, _ []string) error {
			found, raw, err := k.all(ctx, &c)
			if err != nil {
				return err
			}
			if c.output.data() {
				return c.output.print(out, raw, "computations")
			}
			return table(out, "no "+k.plural, "NAME,TRAIT,SOURCE,DESTINATION,USERS,LOST,LAST SYNC", func(row func(...any)) {
				for _, one := range found {
					row(one.Name, one.Key, one.Source, one.Destination, one.Users, one.LostUsers, lastSync(one))
				}
			})
		}),
	})
}

// all returns the computations of the kind, and the answer with those of all kinds.
func (k listKind) all(ctx context.Context, c *client) (found []users.Computation, raw any, err error) {
	list, err := get[struct{ Computations []users.Computation }](ctx, c, "/computations")
	for _, one := range list.read.Computations {
		if one.Kind == k.kind {
			found = append(found, one)
		}
	}
	return found, list.raw, err
}

func (k listKind) newForget() *cobra.Command {
	var c client
	q := url.Values{}
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Forget the list and what the destination was told of it",
		Long: `Forget the list and what the destination was told of it, with the syncs that wait.
Nothing is sent: the destination keeps what it knows. The next sync is a first one.`,
		Example: "  collector " + string(k.kind) + " forget 'Big Spenders' --destination crm",
		Args:    oneName,
		RunE: limited(func(ctx context.Context, out io.Writer, args []string) error {
			one, err := k.find(ctx, &c, args[0], q.Get("source"), q.Get("destination"))
			if err != nil {
				return err
			}
			if _, err := ask[any](ctx, &c, http.MethodDelete, "/computations/"+one.ID, nil); err != nil {
				return err
			}
			if c.output.data() {
				return c.output.print(out, map[string]any{"forgotten": one.ID}, "")
			}
			fmt.Fprintf(out, "%s %q of source %s at destination %s is forgotten\n", k.kind, plain(one.Name), plain(one.Source), plain(one.Destination))
			return nil
		}),
	}
	parameterFlag(cmd, q, "source", "the source, where there are several of that name")
	c.destinationFlag(cmd, q, "the destination, where there are several of that name")
	return c.addTo(cmd)
}

// find returns the one that is meant.
func (k listKind) find(ctx context.Context, c *client, name, source, destination string) (users.Computation, error) {
	all, _, err := k.all(ctx, c)
	if err != nil {
		return users.Computation{}, err
	}
	var found []users.Computation
	var places []string
	for _, one := range all {
		if (one.Name == name || one.Key == name) && (source == "" || one.Source == source) && (destination == "" || one.Destination == destination) {
			found = append(found, one)
			places = append(places, fmt.Sprintf("of source %s at destination %s", one.Source, one.Destination))
		}
	}
	switch len(found) {
	case 0:
		return users.Computation{}, fmt.Errorf("there is no such %s: see collector %s list", k.kind, k.kind)
	case 1:
		return found[0], nil
	}
	return users.Computation{}, errors.New("there are several: " + strings.Join(places, "; ") + ": say which with --source and --destination")
}
