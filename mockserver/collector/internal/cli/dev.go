package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/service"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// devFirst is the maximum number of past activities that dev shows at its start.
const devFirst = 500

// devDestination is the name of the destination for --webhook.
const devDestination = "dev"

type devFlags struct {
	listen, data, secret               string
	webhooks, forwards, headers, allow []string
	verbose, quiet, json               bool
}

func newDev() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a collector for development, without configuration",
		Long: `Run a collector for development. It needs no configuration: it accepts any write key
and creates a source for each, stores calls in a local directory, and listens only on
this machine. Webhooks on this machine are allowed.

All --webhook URLs form one destination. One 2xx response counts as delivered, so the
other URLs can fail unnoticed. Each --forward is a separate destination: it receives
every call, and has its own retries and status.

The terminal shows each call and attempt as it happens, and explains rejected calls.
Press ? for the keys, which show a call in full, retry it, open it in the inspector,
copy it as curl, filter and pause. Without a terminal, or if TERM is dumb, the output is
plain lines; with --json it is JSON in the format of GET /api/v1/activity. NO_COLOR
turns off colors.

Point a client at the printed address, or use collector send. For tests in any
language, GET /good, /bad and /all list the calls, POST /reset hides them, and
POST /expect, or collector expect, waits for expected calls.

With --listen :8765, other machines can connect, as containers require. The inspector,
the test endpoints and the commands then require an admin token: $COLLECTOR_TOKEN, or
a generated token, which is printed at startup.`,
		Example: `  collector dev
  collector dev --webhook http://localhost:3000/hook --shared-secret hush
  collector dev --webhook http://localhost:3000/a --webhook http://localhost:3000/b --header 'X-Team: growth'
  collector dev --forward crm=http://localhost:3000/crm --forward mail=http://localhost:4000/mail
  collector dev --json | jq 'select(.kind == "rejected")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.addTo(flags)
	flags.StringVar(&f.data, "data", defaultData(), "the directory of the queue")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log debug messages")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not show activity")
	flags.BoolVar(&f.json, "json", false, "show activity as JSON, one object per line; the welcome message goes to standard error")
	return cmd
}

// addTo adds the flags for the listener and the destinations.
func (f *devFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", config.DefaultListen, "the address to listen on")
	flags.StringArrayVar(&f.webhooks, "webhook", nil, "forward each call to this `URL` (up to five; each receives every call, and one 2xx response counts as delivered)")
	flags.StringArrayVar(&f.forwards, "forward", nil, "forward each call to `NAME=URL`, a separate destination (repeatable)")
	flags.StringArrayVar(&f.headers, "header", nil, "send the header `'Name: value'` with each webhook request (repeatable)")
	flags.StringVar(&f.secret, "shared-secret", "", "sign each webhook request with this secret (X-Signature)")
	flags.StringArrayVar(&f.allow, "allow", nil, "allow webhooks in this private `network`, such as 172.16.0.0/12 (repeatable)")
}

// defaultData returns the default directory of the queue, or "" if the system has no
// cache directory.
func defaultData() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "collector", "dev")
}

func (f *devFlags) run(cmd *cobra.Command) error {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	if f.verbose {
		level.Set(slog.LevelDebug)
	}
	log := live.NewLog(cmd.ErrOrStderr())
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	c, stop, err := f.start(ctx, newLogger(log, "text", level), level, end)
	if err != nil {
		return err
	}
	welcome := cmd.OutOrStdout()
	if f.json {
		welcome = cmd.ErrOrStderr()
	}
	f.welcome(welcome, c.url, c.secret)
	source, out := followed{client: c, query: url.Values{}}, cmd.OutOrStdout()
	switch {
	case f.quiet:
	case f.json:
		err = live.Print(ctx, source, devFirst, out, live.JSON)
	case live.CanDraw(out) && live.IsTerminal(cmd.InOrStdin()):
		err = live.Show(ctx, live.Config{
			Source: source, Title: "collector dev", URL: c.url, Open: openPage, Log: log, In: cmd.InOrStdin(), Out: out,
		})
		return errors.Join(err, stop())
	default:
		err = live.Print(ctx, source, devFirst, out, live.Lines)
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "collector: activity is no longer shown:", plainLines(err.Error()))
	}
	<-ctx.Done()
	return stop()
}

// start runs a collector, and returns a client for it and a function that stops it. level may be nil.
// ended is called when the collector has stopped, also if a listener fails.
func (f *devFlags) start(ctx context.Context, log *slog.Logger, level *slog.LevelVar, ended func()) (c *client, stop func() error, err error) {
	settings, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	s, err := service.Start(ctx, service.Options{Config: settings, Dev: true, Version: version(), Log: log, Level: level})
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() {
		ran <- s.Run(ctx)
		ended()
	}()
	stop = func() error {
		end()
		return <-ran
	}
	return &client{url: s.AdminURL(), secret: settings.Admin.Token, requester: &http.Client{}}, stop, nil
}

// config converts the flags to a configuration.
func (f *devFlags) config() (*config.Config, error) {
	if f.data == "" {
		return nil, usagef("--data is not set: set it to the directory of the queue")
	}
	if f.quiet && f.json {
		return nil, usagef("--quiet and --json cannot be used together")
	}
	if !config.IsAddress(f.listen) {
		return nil, usagef("invalid --listen %q: use an address such as %s, or :8765 to accept connections from other machines", f.listen, config.DefaultListen)
	}
	data, err := filepath.Abs(f.data)
	if err != nil {
		return nil, err
	}
	c := &config.Config{Listen: f.listen, Data: data}
	headers, err := readHeaders(f.headers)
	if err != nil {
		return nil, err
	}
	if len(f.webhooks)+len(f.forwards) == 0 && (len(f.headers) > 0 || f.secret != "") {
		return nil, usagef("--header and --shared-secret require a webhook: add --webhook URL or --forward NAME=URL")
	}
	if err := checkSecret("--shared-secret", f.secret); err != nil {
		return nil, err
	}
	if err := f.addDestinations(c, headers); err != nil {
		return nil, err
	}
	for _, network := range f.allow {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, usagef("invalid --allow %q: use a network such as 172.16.0.0/12", network)
		}
		c.Egress.Allow = append(c.Egress.Allow, prefix)
	}
	if err := f.check(c); err != nil {
		return nil, err
	}
	if !config.Loopback(f.listen) {
		token := os.Getenv("COLLECTOR_TOKEN")
		if err := checkSecret("COLLECTOR_TOKEN", token); err != nil {
			return nil, err
		}
		c.Admin.Token = cmp.Or(token, rand.Text())
	}
	return c, nil
}

// addDestinations adds the destinations for --webhook and --forward, in this order.
func (f *devFlags) addDestinations(c *config.Config, headers map[string]string) error {
	add := func(name string, urls ...string) {
		d := config.Destination{Destination: tracking.Destination{Name: name, Settings: webhook.Settings{SharedSecret: f.secret}}}
		for _, url := range urls {
			d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: withProtocol(url), Headers: headers})
		}
		c.Destinations = append(c.Destinations, d)
	}
	if len(f.webhooks) > 0 {
		add(devDestination, f.webhooks...)
	}
	for _, forward := range f.forwards {
		name, url, ok := strings.Cut(forward, "=")
		if !ok || strings.Contains(name, "://") {
			return usagef("--forward %q has no name: use NAME=URL", forward)
		}
		if name == devDestination && len(f.webhooks) > 0 {
			return usagef("--forward %s has the same name as the --webhook destination: choose another name", name)
		}
		if err := settings.CheckName(name); err != nil {
			return usagef("--forward %q: %v", forward, err)
		}
		add(name, url)
	}
	return nil
}

// check returns an error that lists the problems of the destinations, with the flags that set them.
func (f *devFlags) check(c *config.Config) error {
	all := c.Settings()
	policy := webhook.Policy{AllowLoopback: true, Allow: c.Egress.Allow}
	errs := []error{all.Validate()}
	for i, d := range all.Destinations {
		for _, p := range settings.FieldErrors(settings.CheckReachable(policy, &d.Settings, nil, nil)) {
			p.Field = fmt.Sprintf("destinations[%d].%s", i, p.Field)
			errs = append(errs, p)
		}
	}
	asFlag := strings.NewReplacer(`set egress.allow: ["`, "add --allow ", `"]`, "")
	var problems []string
	for _, p := range settings.FieldErrors(errors.Join(errs...)) {
		problem := fmt.Sprintf("%s %s: %s", f.flagOf(p.Field), p.Problem, asFlag.Replace(p.Hint))
		if !slices.Contains(problems, problem) { // the same headers are set for every webhook
			problems = append(problems, problem)
		}
	}
	if len(problems) > 0 {
		return usagef("%s", strings.Join(problems, "\n"))
	}
	return nil
}

// flagOf returns the flag that set a field of the settings.
func (f *devFlags) flagOf(field string) string {
	if _, header, ok := strings.Cut(field, "].headers["); ok {
		return "--header " + strings.TrimSuffix(header, "]")
	}
	var d, w int
	n, _ := fmt.Sscanf(field, "destinations[%d].webhooks[%d]", &d, &w)
	if len(f.webhooks) > 0 {
		d-- // the first destination has the URLs of all --webhook flags
	}
	switch {
	case d >= 0:
		return fmt.Sprintf("--forward %q", f.forwards[d])
	case n == 2:
		return fmt.Sprintf("--webhook %q", f.webhooks[w])
	}
	return "--webhook" // a problem with the number of webhooks
}

// welcome prints the addresses and an example.
func (f *devFlags) welcome(out io.Writer, url, token string) {
	fmt.Fprintf(out, "The collector is listening and stores its calls in %s\n\n", f.data)
	line := func(what, where string) { fmt.Fprintf(out, "  %-14s %s\n", what, where) }
	line("Send calls to", url+"  (any write key)")
	line("Inspector", url+"/")
	if token != "" {
		line("Admin token", token)
	}
	for _, w := range f.webhooks {
		line("Forwarding to", withProtocol(w))
	}
	for _, forward := range f.forwards {
		name, url, _ := strings.Cut(forward, "=") // checked by addDestinations
		line("Forwarding to", withProtocol(url)+"  ("+name+")")
	}
	if len(f.webhooks)+len(f.forwards) == 0 {
		line("Forwarding to", "nothing yet (add --webhook URL, or a destination in the inspector)")
	}
	fmt.Fprintf(out, `
Try it:

  curl %s/v1/track -u my-write-key: -d '{"event":"Signed Up","userId":"u1"}'

Press Ctrl-C to stop. Pending calls stay in that directory.
`, url)
}

func newLogger(out io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
