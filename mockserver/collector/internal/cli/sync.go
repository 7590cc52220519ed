package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A computation is an audience or a computed trait, as the admin API tells of it.
type computation struct {
	ID          string       `json:"id"`
	Kind        string       `json:"kind"`
	Name        string       `json:"name"`
	Key         string       `json:"key"`
	Source      string       `json:"source"`
	Destination string       `json:"destination"`
	Users       int64        `json:"users"`
	Syncs       []syncStatus `json:"syncs"`
}

// last says how the last sync of a computation is.
func (c *computation) last() string {
	if len(c.Syncs) == 0 {
		return "-"
	}
	last := c.Syncs[len(c.Syncs)-1]
	text := last.progress()
	if queued := len(c.Syncs) - c.done(); queued > 1 {
		text += fmt.Sprintf(" (%d before it)", queued-1)
	}
	return text
}

// done is how many of the syncs are.
func (c *computation) done() int {
	n := 0
	for _, s := range c.Syncs {
		if s.State == "done" {
			n++
		}
	}
	return n
}

// A syncStatus is how far a sync is.
type syncStatus struct {
	ID          string    `json:"id"`
	Number      int       `json:"number"`
	State       string    `json:"state"`
	RequestedAt time.Time `json:"requestedAt"`
	Users       int64     `json:"users"`
	Entered     int64     `json:"entered"`
	Left        int64     `json:"left"`
	Sent        int64     `json:"sent"`
	Waiting     string    `json:"waiting"`
	Deletion    string    `json:"deletion"`
}

// progress says how far the sync is, on one line.
func (s *syncStatus) progress() string {
	switch {
	case s.State == "queued":
		return "waits for its turn"
	case s.Deletion != "":
		return s.State + ", users deleted"
	case s.State == "done":
		return fmt.Sprintf("done, %d entered, %d left", s.Entered, s.Left)
	case s.Waiting != "":
		return fmt.Sprintf("%d of %d calls sent; %s", s.Sent, s.Entered+s.Left, plain(s.Waiting))
	}
	return fmt.Sprintf("%d of %d calls sent", s.Sent, s.Entered+s.Left)
}

// A listKind is what there is to know about audiences, or about traits.
type listKind struct {
	name, contentType string // of the kind, and of its lists
	sync              *cobra.Command
}

func newAudience() *cobra.Command {
	k := listKind{name: "audience", contentType: "text/plain"}
	k.sync = &cobra.Command{
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
	}
	return newListCommand(k, "Sync audiences: tell destinations who is a member", "audiences")
}

func newTrait() *cobra.Command {
	k := listKind{name: "trait", contentType: "application/x-ndjson"}
	k.sync = &cobra.Command{
		Short: "Tell a destination the values of a computed trait",
		Long: `Give the values of a computed trait for all users who have one, JSON one a line, in
any order and any number:

  {"userId":"u1","value":42}

The destination gets an identify call for each user whose value is another than
before, and for each who has none any more, with null. The trait is the name in
snake_case: lifetime_value. Otherwise it is as with collector audience sync.`,
		Example: `  collector trait sync 'Lifetime Value' --file values.jsonl
  collector trait sync 'Lifetime Value' --destination crm --dry-run < values.jsonl`,
	}
	return newListCommand(k, "Sync computed traits: tell destinations their values", "computed traits")
}

func newListCommand(k listKind, short, plural string) *cobra.Command {
	cmd := &cobra.Command{
		Use: k.name, Short: short, Long: short + ".", Args: oneCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(k.newSync(), k.newList(plural), k.newForget())
	return cmd
}

// syncFlags say which list goes where, and how.
type syncFlags struct {
	client
	file, source, destination        string
	dryRun, full, allowEmpty, noWait bool
}

func (k listKind) newSync() *cobra.Command {
	var f syncFlags
	cmd := k.sync
	cmd.Use = "sync NAME"
	cmd.Args = oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.sync(cmd, k, args[0]) }
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "the `file` with the list; - is standard input")
	flags.StringVar(&f.source, "source", "", "the source whose users they are (default: the only one)")
	flags.StringVar(&f.destination, "destination", "", "the destination that gets the calls (default: the only one of the source)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count")
	flags.BoolVar(&f.full, "full", false, "also send what the destination should know, for one that has lost it")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "take an empty list, after which every user has left")
	flags.BoolVar(&f.noWait, "no-wait", false, "end when the list is stored")
	_ = cmd.RegisterFlagCompletionFunc("destination", f.destinationNames)
	return cmd
}

func (f *syncFlags) sync(cmd *cobra.Command, k listKind, name string) error {
	list, size, err := openList(cmd.InOrStdin(), f.file)
	if err != nil {
		return err
	}
	defer list.Close()
	shown := newProgress(cmd.ErrOrStderr())
	raw, err := f.upload(cmd.Context(), k, name, shown.reading(list), size)
	shown.clear()
	if err != nil {
		return err
	}
	var s syncStatus
	if err := raw.read(&s); err != nil {
		return err
	}
	if !f.dryRun && !f.noWait {
		if s, err = f.await(cmd.Context(), s.ID, raw, shown); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if f.json {
		return printJSON(out, raw.data)
	}
	f.report(out, k, name, &s)
	return nil
}

// upload sends the list.
func (f *syncFlags) upload(ctx context.Context, k listKind, name string, list io.Reader, size int64) (*rawAnswer, error) {
	q := url.Values{}
	for parameter, value := range map[string]string{"source": f.source, "destination": f.destination} {
		if value != "" {
			q.Set(parameter, value)
		}
	}
	for parameter, set := range map[string]bool{"dryRun": f.dryRun, "full": f.full, "allowEmpty": f.allowEmpty} {
		if set {
			q.Set(parameter, "true")
		}
	}
	req, err := f.request(ctx, "POST", "/"+k.name+"s/"+url.PathEscape(name)+"/syncs?"+q.Encode(), list)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", k.contentType)
	req.Header.Set("Expect", "100-continue") // what is refused by its name is not sent
	raw := &rawAnswer{}
	return raw, f.ask(req, raw)
}

// await shows how far a sync is until it is done.
func (f *syncFlags) await(ctx context.Context, id string, raw *rawAnswer, shown *progress) (syncStatus, error) {
	defer shown.clear()
	for {
		var s syncStatus
		if err := f.call(ctx, "GET", "/syncs/"+url.PathEscape(id), nil, raw); err != nil {
			return s, interrupted(ctx, id, err)
		}
		if err := raw.read(&s); err != nil || s.State == "done" {
			return s, err
		}
		shown.say(s.progress())
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return s, interrupted(ctx, id, ctx.Err())
		}
	}
}

// interrupted says that a sync goes on when the command does not.
func interrupted(ctx context.Context, id string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("the list is stored, and sync %s goes on in the collector", id)
}

func (f *syncFlags) report(out io.Writer, k listKind, name string, s *syncStatus) {
	fmt.Fprintf(out, "%s %q has %s: ", k.name, plain(name), count(s.Users, "user"))
	changes := fmt.Sprintf("%d entered, %d left", s.Entered, s.Left)
	if k.name == "trait" {
		changes = fmt.Sprintf("%d new or changed, %d gone", s.Entered, s.Left)
	}
	switch {
	case f.dryRun:
		fmt.Fprintf(out, "%s; nothing was sent\n", changes)
	case f.noWait:
		fmt.Fprintf(out, "the list is stored as sync %s\n", s.ID)
	default:
		fmt.Fprintf(out, "%s; %s queued by sync %s\n", changes, are(int(s.Sent), "call"), s.ID)
	}
}

func (k listKind) newList(plural string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the " + plural + " and how far their syncs are",
		Example: "  collector " + k.name + " list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			found, raw, err := c.computations(ctx, k.name)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if c.json {
				return printJSON(out, raw)
			}
			if len(found) == 0 {
				fmt.Fprintln(out, "no "+plural)
				return nil
			}
			return table(out, func(row func(...any)) {
				row("NAME", "TRAIT", "SOURCE", "DESTINATION", "USERS", "LAST SYNC")
				for _, one := range found {
					row(one.Name, one.Key, one.Source, one.Destination, one.Users, one.last())
				}
			})
		},
	}
	c.addFlags(cmd)
	return cmd
}

// computations returns those of a kind, and the answer with those of all kinds.
func (c *client) computations(ctx context.Context, kind string) ([]computation, []byte, error) {
	var list struct {
		Computations []computation `json:"computations"`
	}
	raw, err := c.get(ctx, "/computations", &list)
	var found []computation
	for _, one := range list.Computations {
		if one.Kind == kind {
			found = append(found, one)
		}
	}
	return found, raw, err
}

func (k listKind) newForget() *cobra.Command {
	var c client
	var source, destination string
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Forget the list and what the destination was told of it",
		Long: `Forget the list and what the destination was told of it, with the syncs that wait.
Nothing is sent: the destination keeps what it knows. The next sync is a first one.`,
		Example: "  collector " + k.name + " forget 'Big Spenders' --destination crm",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilDone(cmd)
			defer cancel()
			one, err := c.find(ctx, k.name, args[0], source, destination)
			if err != nil {
				return err
			}
			if err := c.call(ctx, "DELETE", "/computations/"+one.ID, nil, nil); err != nil {
				return err
			}
			if c.json {
				return printValue(cmd.OutOrStdout(), map[string]any{"forgotten": one.ID})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %q of source %s at destination %s is forgotten\n", k.name, plain(one.Name), plain(one.Source), plain(one.Destination))
			return nil
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&source, "source", "", "the source, where there are several of that name")
	cmd.Flags().StringVar(&destination, "destination", "", "the destination, where there are several of that name")
	_ = cmd.RegisterFlagCompletionFunc("destination", c.destinationNames)
	return cmd
}

// find returns the one that is meant.
func (c *client) find(ctx context.Context, kind, name, source, destination string) (computation, error) {
	all, _, err := c.computations(ctx, kind)
	if err != nil {
		return computation{}, err
	}
	var found []computation
	var places []string
	for _, one := range all {
		if (one.Name == name || one.Key == name) && (source == "" || one.Source == source) && (destination == "" || one.Destination == destination) {
			found = append(found, one)
			places = append(places, fmt.Sprintf("of source %s at destination %s", one.Source, one.Destination))
		}
	}
	switch len(found) {
	case 0:
		return computation{}, fmt.Errorf("there is no such %s: see collector %s list", kind, kind)
	case 1:
		return found[0], nil
	}
	return computation{}, errors.New("there are several: " + strings.Join(places, "; ") + ": say which with --source and --destination")
}

const (
	progressPause = 200 * time.Millisecond // on a terminal
	reportPause   = 10 * time.Second       // elsewhere
)

// progress shows how far something is: on a terminal on one line, elsewhere on a
// line of its own every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
	width    int // of what stands on the line
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, last: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) say(text string) {
	pause := reportPause
	if p.terminal {
		pause = progressPause
	}
	if time.Since(p.last) < pause {
		return
	}
	p.last = time.Now()
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
	p.width = len(text)
}

// clear leaves the line as it was.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

// reading shows how much of a list was read.
func (p *progress) reading(list io.Reader) io.Reader { return &readProgress{list: list, shown: p} }

type readProgress struct {
	list  io.Reader
	shown *progress
	bytes int64
}

func (r *readProgress) Read(b []byte) (int, error) {
	n, err := r.list.Read(b)
	r.bytes += int64(n)
	r.shown.say(bytesText(r.bytes) + " of the list sent")
	return n, err
}
